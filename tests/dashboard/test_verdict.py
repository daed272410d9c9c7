"""Verdicts claim what the measurements show, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboard import history
from dashboard.verdict import Verdict, verdict

SWEEP = {"schema": 1, "record": "sweep", "sweep": "s", "commit": "a" * 40, "commit_date": "2026-01-01T00:00:00+00:00"}


def judge(tmp_path: Path, *cells: tuple[str, int, float | str, float | None], disturbed: int = 0) -> Verdict:
    """The verdict on cells (backend, R, seconds or the status of an empty cell, bytes), each within 1 % of its time.

    The first ``disturbed`` of them were disturbed.
    """
    path = tmp_path / "machine" / "journal" / "aaaaaaaa-env.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [SWEEP]
    for backend, R, outcome, bytes_ in cells:
        timed = isinstance(outcome, float)
        samples = [outcome * factor for factor in (0.99, 1.0, 1.01)] * 3 if isinstance(outcome, float) else []
        records.append(
            {
                "schema": 1, "record": "cell", "sweep": "s", "module": "msa_row", "series": "OverR",
                "params": {"R": R, "dtype": "float32", "backend": backend}, "direction": "forward",
                "problem": {"operation": "msa_row", "level": "core", "R": R, "scores": R},
                "status": "ok" if timed else outcome, "reason": "" if timed else f"why {outcome}", "bytes": bytes_,
                "seconds": {"samples": samples, "rounds": [0] * 9} if timed else None,
                "error": 3.0 if outcome == "inaccurate" else None, "disturbed": len(records) <= disturbed,
            }
        )  # fmt: skip
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return verdict(history.load(tmp_path).cells.to_dict("records"))


def test_a_clear_winner(tmp_path: Path) -> None:
    found = judge(
        tmp_path, ("eager", 64, 1.0, 100), ("sdpa", 64, 0.5, 10), ("eager", 128, 4.0, 400), ("sdpa", 128, 1.0, 20)
    )
    assert found.use == ("sdpa",)
    assert found.sentences[0] == "sdpa is fastest at all 2 sizes."
    assert "4.00× as fast as eager at R=128" in found.sentences[1]
    assert "2.00× to 4.00× over all sizes" in found.sentences[1]
    assert (
        found.sentences[2] == "Least memory at R=128: sdpa, 20\u00a0B beyond the inputs, where eager takes 400\u00a0B."
    )
    assert (found.at, found.speedup, found.memory) == ("R=128", pytest.approx(4.0), pytest.approx(20.0))


def test_overlapping_intervals_are_level_and_no_winner_is_claimed(tmp_path: Path) -> None:
    found = judge(tmp_path, ("eager", 64, 1.0, None), ("sdpa", 64, 0.5, None), ("flex", 64, 0.505, None))
    assert (found.answer, found.use) == ("sdpa or flex (tied)", ("sdpa", "flex"))
    assert "level" in found.sentences[0]
    assert "fastest" not in found.sentences[0]


def test_several_that_beat_eager_are_all_named(tmp_path: Path) -> None:
    level = [(name, 64, seconds, None) for name, seconds in (("sdpa", 0.2), ("flex", 0.201), ("chunked", 0.202))]
    found = judge(tmp_path, *level, ("eager", 64, 1.0, None))
    assert (found.answer, found.use) == ("sdpa, flex or chunked (tied)", ("sdpa", "flex", "chunked"))
    assert found.speedup == pytest.approx(5.0)


@pytest.mark.parametrize("others", [["sdpa"], ["sdpa", "flex"]])
def test_nothing_is_recommended_where_eager_is_among_the_tied(tmp_path: Path, others: list[str]) -> None:
    found = judge(tmp_path, *((name, 64, 0.5, None) for name in others), ("eager", 64, 0.505, None))
    assert (found.answer, found.use) == ("nothing clearly beats eager", ())
    assert "are level" in found.sentences[0]


def test_who_is_faster_elsewhere_is_said(tmp_path: Path) -> None:
    found = judge(
        tmp_path, ("eager", 64, 0.1, None), ("sdpa", 64, 0.2, None),
        ("eager", 128, 4.0, None), ("sdpa", 128, 1.0, None), ("eager", 256, 9.0, None), ("sdpa", 256, 2.0, None),
    )  # fmt: skip
    assert found.use == ("sdpa",)
    assert "sdpa is fastest at 2 of 3 sizes." in found.sentences
    assert "At R=64 eager is faster." in found.sentences


def test_when_eager_is_best_nothing_is_recommended_over_it(tmp_path: Path) -> None:
    found = judge(tmp_path, ("eager", 64, 0.1, None), ("sdpa", 64, 0.2, None))
    assert found.use == ("eager",)
    assert "Nothing that ran here is clearly faster than plain eager attention." in found.sentences
    assert (found.speedup, found.memory) == (None, None)  # eager is not compared with itself


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    found = judge(
        tmp_path, ("eager", 64, 1.0, 9), ("sdpa", 64, 0.5, 3), ("eager", 96, "too_big", None), ("sdpa", 96, 1.0, 3),
        ("eager", 512, "oom", None), ("sdpa", 512, 2.0, 3),
    )  # fmt: skip
    assert "No room here at R=96 and R=512: eager." in found.sentences


def test_wrong_results_are_warned_of_and_never_win(tmp_path: Path) -> None:
    found = judge(tmp_path, ("eager", 64, 1.0, None), ("sdpa", 64, "inaccurate", None))
    assert found.use == ("eager",)
    assert "Do not use sdpa: its results are wrong at R=64 (up to 3 times the allowed error)." in found.sentences


def test_disturbed_timings_are_warned_of_where_they_are_many(tmp_path: Path) -> None:
    cells = [("eager", R, 1.0, None) for R in range(1, 6)]
    assert "Other work disturbed 2 of 5 timings here" in judge(tmp_path, *cells, disturbed=2).sentences[-1]
    assert not any("disturbed" in sentence for sentence in judge(tmp_path, *cells, disturbed=1).sentences)


def test_nothing_ran(tmp_path: Path) -> None:
    found = judge(tmp_path, ("flash_attn", 64, "unsupported", None))
    assert found == Verdict("nothing ran", (), ("Nothing was measured here: why unsupported.",))


def test_without_eager_no_speed_up_is_claimed(tmp_path: Path) -> None:
    found = judge(tmp_path, ("sdpa", 64, 1.0, None), ("flex", 64, 2.0, None))
    assert found.use == ("sdpa",)
    assert found.speedup is None
    assert not any("eager" in sentence for sentence in found.sentences)


def test_one_backend_alone(tmp_path: Path) -> None:
    assert judge(tmp_path, ("sdpa", 64, 1.0, None)).sentences[0] == "Only sdpa ran here."
