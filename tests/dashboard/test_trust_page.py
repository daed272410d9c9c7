"""The page Trust: the change it says can be shown is the one that is; its numbers are the record's."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind
from site_browser import Watched, choose, settled

from dashboard import demo, detect, history
from dashboard.__main__ import main
from dashboard.pages import trust
from dashboard.pages.record import Record
from dashboard.pages.trust_noise import COMMITS, by_history, by_rounds
from dashboard.texts import Texts


def test_a_change_as_large_as_the_smallest_is_found_nine_times_in_ten() -> None:
    rng = np.random.default_rng(0)
    rounds, deviation = 4, 0.01
    levels = np.array([-1.5, -0.5, 0.5, 1.5]) / np.std([-1.5, -0.5, 0.5, 1.5], ddof=1) * deviation
    change = by_rounds(list(np.exp(levels)), range(rounds))
    noise = rng.normal(0, deviation, (2, 4000, rounds))
    found = ttest_ind(noise[0], noise[1] + math.log1p(change), axis=1).pvalue < 0.02
    assert 0.86 < found.mean() < 0.94
    alarms = ttest_ind(noise[0], noise[1], axis=1).pvalue < 0.02
    assert 0.01 < alarms.mean() < 0.03


def test_what_differs_within_rounds_alone_is_no_noise_of_the_rounds() -> None:
    samples, of = [1.0, 1.1, 1.2, 1.3] * 3, [0] * 4 + [1] * 4 + [2] * 4
    assert by_rounds(samples, of) == 0
    assert by_rounds([x * (1 + 0.05 * n) for x, n in zip(samples, of, strict=True)], of) > 0.1


@pytest.mark.parametrize(("samples", "of"), [([], []), ([1.0, 1.1], [0, 0]), ([1.0, 1.1], []), ([0.0, 1.0], [0, 1])])
def test_without_two_rounds_it_is_not_known(samples: list[float], of: list[int]) -> None:
    assert math.isnan(by_rounds(samples, of))


def test_by_history_is_where_a_next_commit_is_suspect() -> None:
    """While the twenty commits before it are the whole history, as ``detect.latest`` looks at them."""
    rng = np.random.default_rng(1)
    for n in (COMMITS, 15, 20):
        logs = rng.normal(0, 0.01, n)
        change = by_history(np.exp(logs))
        assert change > 0.01
        for share, index in ((1.02, n), (0.98, None)):
            following = np.median(logs) + share * math.log1p(change)
            assert detect.latest(np.append(logs, following)) == index
    assert math.isnan(by_history([1.0] * (COMMITS - 1)))
    assert by_history([1.0] * COMMITS) == pytest.approx(math.expm1(detect.SMALLEST))


COMMITS_MADE = [demo.Commit(f"generated: commit {n}") for n in range(12)]


def write(path: Path) -> None:
    """Twelve commits, each sweep with its end; at the newest, a disturbed problem, and a round taken again."""
    journals = demo.write(path, COMMITS_MADE, modules=["msa_row"])
    for journal in journals:
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        end = {"schema": 1, "record": "done", "sweep": lines[0]["sweep"], "wall_seconds": 200.0, "timed_seconds": 62.0}
        text = "".join(json.dumps(_changed(line, journal == journals[-1])) + "\n" for line in [*lines, end])
        journal.write_text(text)
    demo.write(path, COMMITS_MADE[:1], machine="other", modules=["msa_row"], dtypes=["float32"], seed=1)


def _changed(line: dict[str, Any], newest: bool) -> dict[str, Any]:
    if line["record"] == "cell":
        slow = newest and line["params"].get("R") == 384
        line |= {"disturbed": slow, "disturbances": ["other processes took 15 % of the CPUs' time"] if slow else []}
        if line["seconds"] and newest and line["params"].get("R") == 64:
            line["seconds"]["discarded"] = [{"round": 1, "process": 1, "samples": [1.0], "disturbances": ["steal"]}]
        if line["seconds"]:
            line["state"]["after"] = {"load1": 0.6, "mhz": 2400.0, "steal": 0.003, "others": 0.0}
    return line


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results")
    write(path)
    return path


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("site")
    assert main(["build", "--results", str(results), "--out", str(out), "--no-asv"]) == 0
    return (out / "index.html").as_uri()


@pytest.fixture(scope="module")
def cells(results: Path) -> pd.DataFrame:
    """What the page shows at first: the newest commit of the first machine, float32, forward; each cell once."""
    cells = history.load(results).cells
    own = cells[(cells["machine"] == "generated") & (cells["dtype"] == "float32") & (cells["direction"] == "forward")]
    timed = own[(own["commit"] == own["commit"].iloc[-1]) & (own["n"] > 0)].drop_duplicates(["point", "backend"])
    return timed.assign(change=[by_rounds(row.samples, row.round_of) for row in timed.itertuples()])


def test_the_files_hold_every_sample_in_order_and_are_bounded(
    results: Path, cells: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = history.load(results)
    files = trust.files(Record(read, (), results, Texts()))
    generated, other = files["trust"]["views"]
    assert (len(generated["files"]), len(other["files"])) == (trust.KEPT, 1)
    newest = files[generated["files"][0]["file"]]
    assert generated["files"][0]["hash"] == cells["commit"].iloc[0]
    whole = read.cells[(read.cells["machine"] == "generated") & (read.cells["n"] > 0)]
    of_newest = whole[whole["commit"] == cells["commit"].iloc[0]]
    columns = newest["cells"]
    for at, row in enumerate(of_newest.to_dict("records")):
        assert columns["samples"][at] == pytest.approx(row["samples"], rel=1e-4)
        assert newest["layouts"][columns["layout"][at]] == (row["round_of"], row["process_of"])
    assert newest["left_out"] == 0
    assert newest["sweeps"][0]["timed_seconds"] == 62.0
    monkeypatch.setattr(trust, "MOST", 105)
    bounded = trust.files(Record(read, (), results, Texts()))["trust-0-0"]
    assert bounded["left_out"] == len(of_newest) - 5
    assert [x is None for x in bounded["cells"]["samples"]] == [False] * 5 + [True] * bounded["left_out"]


PLACE = f"#page=trust&place=generated/{demo.ENV}/2&dtype=float32&direction=forward"


def words(page: Any) -> str:
    return str(page.locator("[data-page=trust]").inner_text())


def fine(share: float) -> str:
    return f"{share * 100:.1f}\u00a0%" if share < 0.0995 else f"{share * 100:.0f}\u00a0%"


def test_its_words_are_the_records(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    page = watched.open(site + PLACE)
    said = page.locator(".verdict").inner_text()
    middle = cells["change"].sort_values().iloc[math.floor((len(cells) - 1) / 2 + 0.5)]
    assert f"Of {len(cells)}\u00a0timed cells (float32, forward), half can tell a change of {fine(middle)}" in said
    assert fine(cells["change"].max()) in said
    disturbed = cells[cells["disturbed"]]
    problems = f"{disturbed['point'].nunique()} of {cells['point'].nunique()}\u00a0problems"
    assert f"{len(disturbed)} (" in said
    assert f"were disturbed, on {problems}: other processes took 15 %" in said
    assert f"{cells['discarded'].sum()}\u00a0rounds were disturbed and taken again" in said
    assert "31\u00a0% were inside timed calls" in said
    assert "a load average of 0.4 to 0.6" in said
    assert "at most 0.3\u00a0% of the CPUs’ time taken by the hypervisor" in said
    assert "moved over 12 commits nevertheless: matmul by " in said


def test_its_table_is_the_records(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    page = watched.open(site + PLACE + "&sort=rounds")
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator("#trust-table tbody tr").all()]
    ordered = cells.sort_values("change")
    assert [row[5] for row in rows] == [fine(change) for change in ordered["change"]]
    assert [row[0].replace("\n", "") for row in rows] == list(ordered["backend"])
    ends = zip(ordered["seconds_low"] / ordered["seconds"], ordered["seconds_high"] / ordered["seconds"], strict=True)
    assert [row[4] for row in rows] == [f"−{fine(1 - low)} to +{fine(high - 1)}" for low, high in ends]
    assert all(re.fullmatch(r"[\d.]+\s%", row[6]) for row in rows)  # twelve commits are enough
    assert {row[7] for row in rows} == {"20 in 4\u00a0rounds"}
    assert page.locator("#trust-table [aria-sort=ascending]").count() == 1


def test_the_chosen_cell_is_drawn_sample_by_sample(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    page = watched.open(site + PLACE)
    link = page.locator("#trust-table tbody tr", has_text="R 768").locator("a", has_text="chunked")
    link.click()
    settled(page)
    assert "cell=msa_row+msa_row+core+S%3D128+R%3D768+N_head%3D8+c%3D32+B%3D1+chunked" in page.url
    row = cells[(cells["size"] == "R=768") & (cells["backend"] == "chunked")].iloc[0]
    part = page.locator("#trust-cell")
    part.locator("svg.marks").wait_for()
    assert part.locator(".mark-symbol.role-mark path").count() == row["n"] == 20
    part.locator("summary", has_text="as numbers").click()
    rounds = part.locator(".sampled li").all_inner_texts()
    assert [text.split(":")[0] for text in rounds] == [
        f"Round {1 + n}, process {1 + row['process_of'][n * 5]}" for n in range(4)
    ]
    shown = [float(x) for text in rounds for x in re.findall(r"([\d.]+)\s", text.split(":")[1])]
    unit = {"ms": 1e-3, "s": 1.0}[rounds[0].split()[-1]]
    assert [x * unit for x in shown] == pytest.approx(row["samples"], rel=6e-3)
    assert "asv run -b" in part.inner_text()
    assert watched.outside(site.rpartition("/")[0]) == []


def test_every_choice_changes_what_it_says_and_is_restored(watched: Watched, site: str) -> None:
    page = watched.open(site + PLACE)
    for name, value in (("direction", "training"), ("dtype", "bfloat16")):
        before = words(page)
        choose(page, name, value)
        assert words(page) != before, f"{name}={value} changed nothing"
    for name in ("cell", "commit", "place"):
        before = words(page)
        page.locator(f"select[name={name}]").select_option(index=1)
        settled(page)
        assert words(page) != before, f"{name} changed nothing"
        assert f"{name}=" in page.url
    page.locator("#trust-table input").fill("sdpa")
    said, address = words(page), page.url
    assert words(watched.open(address)) == said
    page.locator("select[name=place]").select_option(index=0)
    settled(page)
    choose(page, "direction", "forward")
    assert words(page) != said


def test_of_an_old_commit_it_says_what_is_left_out(watched: Watched, site: str) -> None:
    page = watched.open(site + PLACE)
    page.locator("select[name=commit]").select_option(index=11)
    settled(page)
    said = words(page)
    assert "of the median wide, or less" in said
    assert "The samples of the newest 10 commits are in this site" in said
    assert page.locator("#trust-cell svg").count() == 0
    assert "asv run -b" in said


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    """One commit, one round a cell, odd names, a state that is none, samples beyond the bound."""
    text = "</script><img src=x onerror=\"document.title='broken'\"> \u202e\u05e9\u05dc '" + "y" * 10_000
    path = demo.write(tmp_path / "r", demo.COMMITS[:1], modules=["template"], dtypes=["float32"])[0]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["anchors"] = {text: 1e-3, "<i>": "odd"}
    for line in lines[1:]:
        if line["seconds"]:
            line |= {"state": {"before": text, "after": {"load1": "?"}}, "disturbed": True, "disturbances": [text]}
            line["seconds"] |= {"rounds": [0] * 20, "processes": []}
            line["params"]["backend"] += text
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trust, "MOST", 25)
        assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    return (tmp_path / "s" / "index.html").as_uri() + "#page=trust"


def test_hostile_text_shows_as_text(browser: Any, hostile: str) -> None:
    found = Watched(browser, viewport={"width": 360, "height": 740})
    page = found.open(hostile)
    said = words(page)
    assert page.title().startswith("AxialBench")
    assert page.locator("[data-page=trust] img, [data-page=trust] i").count() == 0
    assert "in which round each was taken" in said
    assert "were left out, to keep the site small" in said
    assert "recorded at one commit so far" in said
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("select[name=cell]").select_option(index=3)
    settled(page)
    assert words(page) != said
    page.context.close()
    assert found.wrong == []


@pytest.mark.parametrize("width", [360, 2200])
def test_nothing_sticks_out(browser: Any, site: str, width: int) -> None:
    found = Watched(browser, viewport={"width": width, "height": 900})
    page = found.open(site + PLACE)
    page.locator("#trust-cell summary").first.click()
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()
    assert found.wrong == []
