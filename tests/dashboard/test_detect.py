"""The change detector, on generated noise with planted steps, and the events made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dashboard import __main__ as command
from dashboard import alarms, demo, history
from dashboard.detect import changes
from dashboard.score import NOISES, confirmed, generated, replayed, score


@pytest.mark.parametrize("noise", NOISES)
def test_steps_are_found_in_every_kind_of_noise(noise: str) -> None:
    found = score(generated(noise, seed) for seed in range(10))
    assert found.f1 > 0.85, found
    assert found.unmarked == 0, found


@pytest.mark.parametrize("noise", NOISES)
def test_no_wolf_is_cried(noise: str) -> None:
    """One alarm in 8000 points of identical code would be one in 1000 commits for eight series."""
    assert score(generated(noise, seed, steps=()) for seed in range(20)).wrong == 0


def test_a_growing_history_confirms_nothing_but_the_step() -> None:
    series = generated("drifting", 3, points=200, steps=(0.08,))
    alarms = replayed(series.values)
    assert len(alarms) == 1
    assert abs(alarms[0] - series.consensus[0]) <= 2


def test_the_newest_point_is_suspect_long_before_it_is_confirmed() -> None:
    values = [1.0, 1.01, 0.99, 1.0, 1.02] * 6 + [1.2]
    assert [(change.index, change.tier) for change in changes(values)] == [(30, "suspect")]
    assert changes([*values, 1.21])[-1].tier == "suspect"
    after = changes([*values, 1.2, 1.19, 1.21, 1.2])
    assert [(change.index, change.tier) for change in after] == [(30, "confirmed")]
    assert after[0].ratio == pytest.approx(1.2, rel=0.02)


def test_gaps_shift_no_change() -> None:
    values = np.array([1.0, 1.01, 0.99, 1.0] * 5 + [1.3, 1.31, 1.29, 1.3] * 5)
    gappy = values.copy()
    gappy[[3, 10, 11, 30]] = np.nan
    assert confirmed(list(values)) == confirmed(list(gappy)) == [20]


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 50, [np.nan] * 20, [0.0] * 20])
def test_nothing_changes_where_nothing_can(values: list[float]) -> None:
    assert changes(values) == []


QUIET = [demo.Commit(f"commit {n}") for n in range(12)]
AFTER = [demo.Commit(f"afterwards {n}") for n in range(6)]


def written(folder: Path, *changed: demo.Commit) -> history.History:
    commits = [*QUIET, *changed, *AFTER]
    demo.write(folder, commits, modules=["template", "msa_global_column"], dtypes=["float32"], noise=0.01)
    return history.load(folder)


def test_what_a_commit_made_worse_is_one_event_and_check_fails(tmp_path: Path, capsys) -> None:
    worse = demo.Commit(
        "a planted slowdown, copy and loss", {"chunked": 1.05}, heavier={"sdpa": 1.1}, rougher={"sdpa_math": 3}
    )
    found = alarms.events(written(tmp_path, worse))
    event = next(event for event in found if event.subject == worse.subject)
    assert event.environment == ""
    kinds = {(finding.kind, finding.cell.split()[-2]) for finding in event.of("confirmed")}
    assert kinds == {("slower", "chunked"), ("more memory", "sdpa"), ("less accurate", "sdpa_math")}
    assert [other.subject for other in found if other.of("confirmed")] == [worse.subject]
    assert command.main(["check", "--results", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert f"worse among the last 10 commits: {event.commit[:8]}" in said
    assert command.main(["check", "--results", str(tmp_path), "--last", "3"]) == 0


def of_scaling(found: list[alarms.Event]) -> dict[str, set[tuple[str, str, str, str]]]:
    """By subject: kind, tier, backend and words of the exponents that changed."""
    told: dict[str, set[tuple[str, str, str, str]]] = {}
    for event in found:
        for x in event.findings:
            if x.kind in ("steeper", "flatter"):
                told.setdefault(event.subject, set()).add((x.kind, x.tier, x.cell.split()[-2], x.words))
    return told


def test_exponents_change_with_the_commit_that_bends_them_and_with_no_other(tmp_path: Path) -> None:
    """sdpa's time and eager's memory grow by half a power more from there on. Elsewhere all is noise of 2 %, and one
    commit that makes all sizes of chunked slower alike, which is no other exponent."""
    commits = [*QUIET, demo.Commit("bends"), demo.Commit("slower", {"chunked": 1.2}), *AFTER]
    demo.write(tmp_path, commits, modules=["msa_column"], dtypes=["float32"])
    read = history.load(tmp_path)
    assert of_scaling(alarms.events(read)) == {}
    cells = read.cells.copy()
    names = list(dict.fromkeys(cells["commit"]))
    later = cells["commit"].isin(names[len(QUIET) :]) & (cells["series"] == "OverS")
    more = (cells["S"] / 64) ** 0.5
    for backend, columns in (("sdpa", ["seconds", "seconds_low", "seconds_high"]), ("eager", ["bytes"])):
        of = later & (cells["backend"] == backend)
        cells.loc[of, columns] = cells.loc[of, columns].mul(more[of], axis=0)
    told = of_scaling(alarms.events(history.History(cells, read.sweeps)))
    assert set(told) == {"bends"}, told
    assert {of[:3] for of in told["bends"]} == {("steeper", "confirmed", "sdpa"), ("steeper", "confirmed", "eager")}
    assert any(words.startswith("bytes grew as S^2.00, now as S^2.50") for *_, words in told["bends"])


def test_where_everything_moves_it_was_the_environment(tmp_path: Path) -> None:
    found = alarms.events(written(tmp_path, demo.Commit("a slower machine", machine=1.3)))
    event = next(event for event in found if event.subject == "a slower machine")
    assert "anchor matmul takes +3" in event.environment
    assert event.of("confirmed") == ()


def test_statuses_new_and_vanished_cells_are_events(tmp_path: Path) -> None:
    before = written(tmp_path)
    cells = before.cells
    newest = list(dict.fromkeys(cells["commit"]))[-1]
    of_newest = cells["commit"] == newest
    changed = cells.copy()
    changed.loc[of_newest & (cells["backend"] == "sdpa"), ["status", "reason"]] = ["oom", "out of memory"]
    changed = changed[~(of_newest & (cells["backend"] == "chunked"))]
    changed = changed[(changed["commit"] == newest) | (changed["backend"] != "compiled")]
    found = alarms.events(history.History(changed, before.sweeps))
    assert len(found) == 1
    kinds = {(finding.kind, finding.cell.split()[-2]) for finding in found[0].findings}
    assert {("failed", "sdpa"), ("gone", "chunked"), ("new", "compiled")} <= kinds
    assert "ok became oom: out of memory" in {finding.words for finding in found[0].findings}


@pytest.mark.parametrize(
    ("more", "kind"), [(12, "memory"), (-12, "memory"), (2000, "more memory"), (-2000, "less memory")]
)
def test_a_few_bytes_more_are_told_exactly_and_are_not_worse(tmp_path: Path, more: int, kind: str) -> None:
    before = written(tmp_path)
    cells = before.cells.copy()
    newest = cells["commit"] == list(dict.fromkeys(cells["commit"]))[-1]
    own = (cells["backend"] == "sdpa") & (cells["module"] == "template") & (cells["status"] == "ok")
    cells.loc[own, "bytes"] = 1_103_872 + more * newest[own]
    (event,) = alarms.events(history.History(cells, before.sweeps))
    assert {(x.kind, x.words) for x in event.findings if x.row is not None} == {
        (kind, f"1,103,872 became {1_103_872 + more:,} bytes")
    }
    assert bool(event.of("confirmed")) == (kind == "more memory")


def test_no_two_cells_of_a_commit_have_one_name(tmp_path: Path) -> None:
    """Not an attention and the whole module of it, nor two operations of one benchmark, as ``benchmarks/block.py``."""
    demo.write(tmp_path, QUIET[:1], modules=["msa_row"], dtypes=["float32"])
    cores = [row | {"module": "block"} for row in history.load(tmp_path).cells.to_dict("records")]
    ending = [row | {"operation": "triangle_ending"} for row in cores]
    names = [alarms.name(row) for row in (*cores, *ending, *(row | {"level": "module"} for row in cores))]
    assert len(set(names)) == len(names)
    assert "msa_row module OverR R=256 float32 chunked training" in names
