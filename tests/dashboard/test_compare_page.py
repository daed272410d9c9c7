"""The page Compare commits: its ratios are the DataFrame's, what was planted stands first, pairs stand beside."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from site_browser import Watched, select, settled

from dashboard import demo, history
from dashboard.__main__ import main

HOSTILE = "</script><img src=x onerror=\"document.title='broken'\"> \u202e\u05e9\u05dc '" + "y" * 2_000
COMMITS = [
    demo.Commit("first"),
    demo.Commit("second"),
    demo.Commit(HOSTILE, {"chunked": 1.6}, heavier={"sdpa": 2}, kernels={"flex": "aten::baddbmm"}),
]
PAIRED = "template_pointwise core R=256 T=4 N_head=4 c=32 float32 chunked forward"


def comparison(base: str, head: str) -> dict[str, Any]:
    """A record of ``results/README.md``'s schema."""
    sides = {
        role: {"role": role, "commit": commit, "subject": role, "backend": None, "torch": "2.13.0+cpu"}
        for role, commit in (("base", base), ("head", head))
    }
    estimate = {"launches": 8, "ratio": 1.583, "low": 1.52, "high": 1.65, "p": 1e-6, "detectable": 0.04}
    outcome = {
        "cell": PAIRED, "name": PAIRED, "verdict": "slower", "worse": ["slower"], "changes": ["a <b>change</b>"],
        "estimate": estimate, "proofs": {}, "launches": [{}] * 8,
    }  # fmt: skip
    return {
        "schema": 1, "record": "comparison", "sides": sides, "margin": 0.02, "threads": 1, "summary": "1 slower",
        "environment": [], "states": [], "outcomes": [outcome, outcome | {"cell": "anchor", "estimate": None}],
    }  # fmt: skip


UNREADABLE = {
    "torn": '{"schema": 1, "sides": {',
    "newer": '{"schema": 99}',
    "list": "[1]",
    "deep": "[" * 100_000,
    "lacks": json.dumps(comparison("a", "b") | {"outcomes": [{"cell": "one"}]}),
    "odd": json.dumps(comparison("a", "b") | {"outcomes": 3}),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results")
    demo.write(path, COMMITS, modules=["template"], dtypes=["float32"], noise=0.01)
    demo.write(path, COMMITS, modules=["template"], dtypes=["float32"], env=demo.NEXT_ENV, first=2)
    _, base, head = dict.fromkeys(history.load(path).cells["commit"])
    folder = path / "generated" / "comparisons"
    folder.mkdir()
    (folder / "pair.json").write_text(json.dumps(comparison(base, head)))
    for name, text in UNREADABLE.items():
        (folder / f"{name}.json").write_text(text)
    (folder / "gone.json").symlink_to(folder / "nowhere")
    return path


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("site")
    assert main(["build", "--results", str(results), "--out", str(out), "--no-asv"]) == 0
    return f"{out.as_uri()}/index.html#page=compare&place=generated/{demo.ENV}/2"


@pytest.fixture(scope="module")
def cells(results: Path) -> pd.DataFrame:
    found = history.load(results).cells
    return found[found["env"] == demo.ENV]


def table(page: Any) -> list[dict[str, str]]:
    found = page.locator("[data-page=compare] .data-table")
    names = found.locator("thead th").all_inner_texts()
    rows = found.locator("tbody tr").all()
    return [dict(zip(names, row.locator("th, td").all_inner_texts(), strict=True)) for row in rows]


def test_a_comparison_that_cannot_be_read_is_named_in_plain_words_and_loses_no_other(
    watched: Watched, site: str, results: Path
) -> None:
    read = history.load(results)
    assert [one["file"] for one in read.comparisons] == ["generated/comparisons/pair.json"]
    said = {one.path.stem: str(one) for one in read.findings}
    assert set(said) == {*UNREADABLE, "gone"}
    assert "half written" in said["torn"]
    assert "schema 99; this dashboard reads schema 1. Update AxialBench" in said["newer"]
    assert "without 'estimate'" in said["lacks"]
    assert "python -m benchmarks compare" in said["odd"]
    page = watched.open(site)
    for part in ("details.warning", "[data-page=compare]"):
        shown = page.locator(part).first.inner_text()
        for words in said.values():
            assert words.partition(". ")[0].rpartition("/")[2] in shown


def test_ratios_and_intervals_are_the_dataframes_and_the_clearest_stands_first(
    watched: Watched, site: str, cells: pd.DataFrame
) -> None:
    rows = table(watched.open(site))
    _, base, head = dict.fromkeys(cells["commit"])
    key = ["operation", "series", "size", "dtype", "backend", "direction"]
    both = cells[cells["commit"] == base].merge(cells[cells["commit"] == head], on=key, suffixes=("_base", "_head"))
    assert len(rows) == len(both) == 48
    shown = {row["cell"]: row for row in rows}
    for row in both.to_dict("records"):
        own = shown[" ".join(row[name] for name in key)]
        if math.isnan(row["seconds_base"]):
            assert own["head / base"] == ""
            continue
        ends = [row["seconds_low_head"] / row["seconds_high_base"], row["seconds_high_head"] / row["seconds_low_base"]]
        numbers = [float(text.removesuffix("×")) for text in (own["head / base"], *own["interval"].split(" to "))]
        assert numbers == pytest.approx([row["seconds_head"] / row["seconds_base"], *ends], rel=6e-3)
        clear = not ends[0] <= 1 <= ends[1]
        assert clear == (float(own["clarity"].split()[0]) > 1)
    assert {row["cell"].split()[-2] for row in rows[:6]} == {"chunked"}
    sdpa, flex = (shown[f"template_pointwise OverT T=4 float32 {name} forward"] for name in ("sdpa", "flex"))
    assert "memory" in sdpa["memory, error, kernels, status"]
    assert "now runs aten::baddbmm" in flex["memory, error, kernels, status"]


def test_bytes_that_look_alike_are_told_exactly_and_a_few_are_neither_more_nor_less(
    watched: Watched, site: str
) -> None:
    page = watched.open(site)
    pairs = ((1_103_872, 1_103_884), (1_103_872, 1_105_100), (67_200_000, 101_000_000), (101_000_000, 67_200_000))
    said = [page.evaluate(f"bytesChanged({before}, {after})") for before, after in pairs]
    assert said == [
        "memory: 1,103,872 became 1,103,884 bytes",
        "more memory: 1.10\u00a0MB became 1.11\u00a0MB (1.00×)",
        "more memory: 67.2\u00a0MB became 101\u00a0MB (1.50×)",
        "less memory: 101\u00a0MB became 67.2\u00a0MB (0.665×)",
    ]


def test_it_says_that_it_is_unpaired_and_what_the_pairs_said(watched: Watched, site: str) -> None:
    page = watched.open(site)
    said = page.locator("[data-page=compare]").inner_text()
    assert "Unpaired: measured at different times." in said
    slower = sum(row["clarity"].endswith("slower") for row in table(page))
    assert f"{slower} look slower" in said
    assert slower >= 6
    assert "(matmul)" in said
    assert "Of 1 cells a comparison in pairs was recorded" in said
    (paired,) = [row for row in table(page) if row["in pairs"]]
    assert paired["cell"] == "template_pointwise OverT T=4 float32 chunked forward"
    assert paired["in pairs"] == "slower: 1.58× (1.52× to 1.65×), 8 pairs, could see 4\u00a0%"
    assert "torn.json" in said
    assert page.locator("[data-page=compare] img, [data-page=compare] details b").count() == 0
    head, base = (page.locator(f"select[name={name}]").input_value() for name in ("commit", "base"))
    assert f"python -m benchmarks compare {base} {head}" in said
    assert watched.outside(site.partition("index.html")[0]) == []


def test_every_choice_changes_what_it_says_and_two_environments_can_be_held_together(
    watched: Watched, site: str
) -> None:
    page = watched.open(site)
    said = page.locator("[data-page=compare]")
    for name, at in (("base", 1), ("backend", 1), ("in", 1), ("operation", 1), ("commit", 1)):
        before = said.inner_html() + page.url
        select(page, name, at)
        assert said.inner_html() + page.url != before, name
    page = watched.open(f"{site}&in=generated/{demo.NEXT_ENV}/2")
    words = said.inner_text()
    assert "with torch 2.14.0+cpu" in words
    assert "--base-python FILE --head-python FILE" in words
    commit, base = (page.locator(f"select[name={name}]").input_value() for name in ("commit", "base"))
    assert commit == base


def test_base_stands_before_head_whatever_head_is_chosen(watched: Watched, site: str) -> None:
    page = watched.open(site)
    newest, middle, oldest = page.locator("select[name=commit] option").evaluate_all("all => all.map(one => one.value)")
    base = page.locator("select[name=base]")
    assert base.input_value() == middle
    select(page, "commit", 1)
    assert base.input_value() == oldest
    assert page.locator("#notice").inner_text() == ""
    select(page, "commit", 0)
    assert base.input_value() == oldest  # as it was chosen: older than head
    page = watched.open(f"{site}&commit={middle}&base={newest}")
    assert base.input_value() == oldest
    select(page, "commit", 2)
    assert "nothing to hold it against" in page.locator("[data-page=compare]").inner_text()


def test_any_two_commits_of_a_long_history_can_be_compared(watched: Watched, tmp_path: Path) -> None:
    demo.write(tmp_path / "r", demo.history(104), modules=["template"], dtypes=["float32"])
    assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    cells = history.load(tmp_path / "r").cells
    oldest, second = list(dict.fromkeys(cells["commit"]))[:2]
    address = f"index.html#page=compare&commit={second[:8]}&base={oldest[:8]}"
    page = watched.open((tmp_path / "s").as_uri() + "/" + address)
    assert page.locator("#notice").inner_text() == ""
    assert [page.locator(f"select[name={name}]").input_value() for name in ("commit", "base")] == [
        second[:8],
        oldest[:8],
    ]
    own = cells[(cells["backend"] == "sdpa") & (cells["size"] == "T=4") & (cells["direction"] == "forward")]
    seconds = own.set_index("commit")["seconds"]
    (shown,) = [row for row in table(page) if row["cell"] == "template_pointwise OverT T=4 float32 sdpa forward"]
    ratio = float(shown["head / base"].removesuffix("×"))
    assert ratio == pytest.approx(seconds[second] / seconds[oldest], rel=6e-3)
    assert page.locator("select[name=commit] option").count() == 104
    page.locator("#pages a", has_text="Verdict").click()
    settled(page)
    assert second[:8] in page.locator("#measured").inner_text()


def test_what_stands_in_two_series_counts_once(watched: Watched, tmp_path: Path) -> None:
    demo.write(tmp_path / "r", COMMITS[:2], modules=["msa_row"], dtypes=["float32"])
    assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    page = watched.open((tmp_path / "s").as_uri() + "/index.html#page=compare")
    cells = history.load(tmp_path / "r").cells
    newest = cells[cells["commit"] == list(dict.fromkeys(cells["commit"]))[-1]]
    once = newest.drop_duplicates(["S", "R", "N_head", "backend", "direction"])
    assert len(once) < len(newest)
    assert len(table(page)) == len(once)
    assert f"of {len(once)} cells changed" in page.locator("[data-page=compare]").inner_text()


def test_one_commit_alone_has_nothing_beside_it_and_a_narrow_page_does_not_scroll(
    browser: Any, site: str, tmp_path: Path
) -> None:
    demo.write(tmp_path / "r", COMMITS[:1], modules=["template"], dtypes=["float32"])
    assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    watched = Watched(browser, viewport={"width": 360, "height": 740})
    page = watched.open((tmp_path / "s").as_uri() + "/index.html#page=compare")
    assert "nothing to hold it against" in page.locator("[data-page=compare]").inner_text()
    watched.open(site)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    chart = page.locator("[data-page=compare] .chart")
    chart.locator("svg.marks").wait_for()
    assert chart.locator(".role-axis-label text", has_text="template pointwise").count() == 1
    assert chart.evaluate("box => box.scrollWidth <= box.clientWidth")
    page.context.close()
    assert watched.wrong == []
