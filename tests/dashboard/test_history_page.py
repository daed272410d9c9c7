"""The page History: every number is the DataFrame's, what was planted is told, and text from commits breaks nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from site_browser import Watched, choose, select

from dashboard import alarms, demo, history
from dashboard.__main__ import main
from dashboard.payload import site_data

HOSTILE = "</script><img src=x onerror=\"document.title='broken'\"> \u202e\u05e9\u05dc '" + "y" * 2_000
COMMITS = [demo.Commit(f"commit {n}") for n in range(24)]
COMMITS[10] = demo.Commit(HOSTILE, {"chunked": 1.4})
COMMITS[14] = demo.Commit("more for sdpa", heavier={"sdpa": 1.5})
COMMITS[16] = demo.Commit("another kernel", kernels={"flex": "aten::baddbmm"})
COMMITS[18] = demo.Commit("fails", fails={"compiled": "the compiler failed"})
DIRTY = 2  # the newest but so many were measured with uncommitted changes


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("project") / "results"
    journals = demo.write(path, COMMITS, modules=["template"], dtypes=["float32"], noise=0.01)
    changed = journals[-1 - DIRTY]
    changed.write_text(changed.read_text().replace('"impls": false', '"impls": true'))
    newest = journals[-1]
    newest.write_text(newest.read_text().replace("2.13.0+cpu", "2.13.1+cpu"))
    (path.parent / "asv.conf.json").write_text('{// where\n"show_commit_url": "https://example.org/commit/"}')
    return path


@pytest.fixture(scope="module")
def read(results: Path) -> history.History:
    return history.load(results)


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("site")
    assert main(["build", "--results", str(results), "--out", str(out), "--no-asv"]) == 0
    return out.as_uri() + "/index.html#page=history&direction=forward&cell=template+OverT+T%3D4"


def spread(runs: list[list[Any]], length: int) -> list[Any]:
    ends = [*(at for at, _ in runs[1:]), length]
    values: list[Any] = [None] * length
    for (at, value), end in zip(runs, ends, strict=False):
        values[at:end] = [value] * (end - at)
    return values


def test_the_files_hold_every_number_of_every_commit(read: history.History, results: Path) -> None:
    built = site_data(read, alarms.events(read), results)
    data, files = built.page, json.loads(json.dumps(built.files, allow_nan=False))
    (view,) = data["views"]
    rows = []
    for group in files["history"]["groups"]:
        file = files[group["file"]]
        for at, place in enumerate(file["places"]):
            about = {
                name: data["strings"][data["places"][name][place]]
                for name in ("series", "size", "direction", "backend")
            }
            columns = {name: file[name][at] + [None] * 99 for name in ("seconds", "low", "high")}
            columns |= {name: spread(file[name][at], len(COMMITS)) for name in ("bytes", "error", "status", "reason")}
            columns["reason"] = [file["reasons"][text] for text in columns["reason"]]
            for n, commit in enumerate(view["commits"]):
                rows.append(about | {"commit": commit["hash"]} | {name: values[n] for name, values in columns.items()})
    shown, key = pd.DataFrame(rows), ["commit", "series", "size", "direction", "backend"]
    both = shown.merge(read.cells, on=key, suffixes=("", "_of_cells"), how="outer", validate="one_to_one")
    assert len(both) == len(read.cells) == 48 * len(COMMITS)
    assert [data["strings"][text] for text in both["status"]] == both["status_of_cells"].tolist()
    assert both["reason"].tolist() == both["reason_of_cells"].tolist()
    names = {"seconds": "seconds_of_cells", "low": "seconds_low", "high": "seconds_high", "bytes": "bytes_of_cells"}
    for name, of_cells in (names | {"error": "error_of_cells"}).items():
        assert both[name].astype(float).tolist() == pytest.approx(both[of_cells].tolist(), rel=1e-6, nan_ok=True), name


def test_marks_are_the_alarms(read: history.History, results: Path) -> None:
    events = alarms.events(read)
    built = site_data(read, events, results)
    (view,) = built.page["views"]
    files = [content for name, content in built.files.items() if name.startswith("history-")]
    marks = sorted((view["commits"][at]["hash"], *rest) for file in files for _, at, *rest in file["marks"])
    told = [(event.commit, x.kind, x.tier, x.words) for event in events for x in event.findings if x.row is not None]
    assert marks == sorted(told)
    assert {kind for _, kind, *_ in marks} >= {"slower", "more memory", "kernel", "failed"}


def test_the_page_tells_what_was_planted_and_shows_the_dataframes_numbers(
    watched: Watched, site: str, read: history.History
) -> None:
    page = watched.open(site)
    verdict = page.locator("[data-page=history] .verdict").inner_text()
    assert "the time changed at 1" in verdict
    assert "chunked slower: +4" in verdict
    assert "<img" in verdict
    assert page.title().startswith("AxialBench")
    page.locator("svg.marks").wait_for()
    table = page.locator("[data-page=history] .data-table")
    headings = table.locator("thead th").all_inner_texts()
    of_chunked = table.locator("tbody tr").first.locator("td").nth(headings.index("chunked") - 1).inner_text()
    cells = read.cells
    (own,) = cells[
        (cells["commit"] == cells["commit"].iloc[-1]) & (cells["backend"] == "chunked") & (cells["size"] == "T=4")
        & (cells["direction"] == "forward")
    ]["seconds"]  # fmt: skip
    assert float(of_chunked.removesuffix("\u00a0ms")) == pytest.approx(1000 * own, rel=5e-3)
    assert "torch 2.13.0+cpu, Python 3.11.7 became torch 2.13.1+cpu" in table.locator("tbody tr").first.inner_text()
    assert page.locator("a[href^='https://example.org/commit/']").count() == len(COMMITS)
    assert watched.outside(site.partition("index.html")[0]) == []


def test_every_choice_changes_what_the_page_says(watched: Watched, site: str) -> None:
    page = watched.open(site)
    said = page.locator("[data-page=history]")
    for change in (
        lambda: choose(page, "quantity", "memory"), lambda: choose(page, "quantity", "error"),
        lambda: choose(page, "direction", "training"), lambda: choose(page, "order", "date"),
        lambda: select(page, "cell", 0), lambda: choose(page, "quantity", "time"),
    ):  # fmt: skip
        page.locator("svg.marks").wait_for()
        before, address = said.inner_html(), page.url
        change()
        assert said.inner_html() != before
        assert page.url != address
    assert "intervals of the median" in said.inner_text()
    choose(page, "quantity", "memory")
    assert "intervals of the median" not in said.inner_text()
    select(page, "cell", 2)
    assert "sdpa more memory" in page.locator("[data-page=history] .verdict").inner_text()
    shown = said.locator(".data-table").inner_text()
    assert watched.open(page.url).locator("[data-page=history] .data-table").inner_text() == shown


def test_what_has_no_number_says_why_and_where(watched: Watched, site: str, read: history.History) -> None:
    page = watched.open(site)
    reasons = page.locator("[data-page=history] details", has_text="Without a number somewhere, and why")
    assert "3 of 8 backends" in reasons.locator("summary").inner_text()
    reasons.locator("summary").click()
    said = reasons.inner_text()
    failing = read.cells[read.cells["status"] == "crashed"]["commit"].unique()
    assert f"compiled at {len(failing)} of {len(COMMITS)} commits, " in said
    assert "crashed: the compiler failed" in said
    assert "xformers at every commit shown: unsupported: the package xformers is not installed" in said
    table = page.locator("[data-page=history] .data-table")
    headings = table.locator("thead th").all_inner_texts()
    at = headings.index("compiled") - 1
    assert table.locator("tbody tr").first.locator("td").nth(at).inner_text() == "crashed: the compiler failed"
    assert table.locator("tbody tr").last.locator("td").nth(at).inner_text().endswith("s")


def test_an_axis_has_numbers_where_all_values_lie_between_two_ticks(watched: Watched, site: str) -> None:
    page = watched.open(site)
    page.locator("svg.marks").wait_for()
    spec = {"layer": [{"encoding": {"y": {"axis": {"values": [1, 2, 3, 5]}}}}, {"encoding": {}}]}
    ask = "([spec, values]) => { ticksWhereNarrow(spec, values); return spec.layer[0].encoding.y.axis.values; }"
    assert page.evaluate(ask, [spec, [0.9, 2.5]]) == [1, 2, 3, 5]
    for narrow in ([2.1, 2.9], [1.9, 2.1], [6, 7]):
        assert page.evaluate(ask, [spec, narrow]) is None


def test_an_event_leads_to_the_cells_history_and_to_both_commits(watched: Watched, site: str) -> None:
    page = watched.open(site.partition("#")[0] + "#page=changes")
    event = page.locator("details.event", has_text="<img").first
    event.locator("summary").click()
    event.locator("th a", has_text="T=4 float32 chunked training").click()
    page.locator("[data-page=history] .verdict").wait_for()
    assert page.locator("select[name=cell]").input_value() == "template OverT T=4"
    assert page.locator("input[name=direction][value=training]").is_checked()
    page.locator("[data-page=history] .verdict a").first.click()
    page.locator("[data-page=compare] .verdict").wait_for()
    assert "look slower" in page.locator("[data-page=compare] .verdict").inner_text()


@pytest.mark.parametrize("count", [1, 24])
def test_a_narrow_page_does_not_scroll_sideways(browser: Any, site: str, tmp_path: Path, count: int) -> None:
    if count == 1:
        demo.write(tmp_path / "r", COMMITS[:1], modules=["template"], dtypes=["float32"])
        assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
        site = (tmp_path / "s").as_uri() + "/index.html#page=history"
    watched = Watched(browser, viewport={"width": 360, "height": 740})
    page = watched.open(site)
    page.locator("svg.marks").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    if count == 1:
        assert "One commit was measured" in page.locator("[data-page=history]").inner_text()
    page.context.close()
    assert watched.wrong == []
