"""Stacks of blocks in the reader: their drift is their number, and the verdict is about nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboard import demo, history
from dashboard.build import in_short
from dashboard.payload import site_data
from dashboard.verdict import Verdict, verdict

SWEEP = {"schema": 1, "record": "sweep", "sweep": "s", "commit": "a" * 40, "commit_date": "2026-01-01T00:00:00+00:00"}


def judge(tmp_path: Path, *cells: tuple[str, int, str, float | None]) -> Verdict:
    """The verdict on stacks (backend, blocks, status, error)."""
    path = tmp_path / "machine" / "journal" / "aaaaaaaa-env.jsonl"
    path.parent.mkdir(parents=True)
    records = [SWEEP] + [
        {
            "schema": 1, "record": "cell", "sweep": "s", "module": "depth", "series": "OverBlocks",
            "params": {"blocks": blocks, "dtype": "float32", "backend": backend}, "direction": "forward",
            "problem": {"operation": "evoformer", "level": "stack", "blocks": blocks, "scores": blocks},
            "status": status, "reason": "" if status == "ok" else f"why {status}", "seconds": None, "error": error,
        }
        for backend, blocks, status, error in cells
    ]  # fmt: skip
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return verdict(history.load(tmp_path).cells.to_dict("records"))


def test_the_deepest_stack_is_told_nearest_first(tmp_path: Path) -> None:
    found = judge(tmp_path, ("eager", 48, "ok", 1.02), ("sdpa", 48, "ok", 0.98), ("sdpa", 4, "ok", 1.9))
    drifts = "After 48 blocks, in units of eager's drift from float64: sdpa 0.980×, eager 1.02×."
    assert found == Verdict("no backend drifts much further than eager", (), (drifts,), "blocks=48")


def test_who_drifts_away_is_warned_of(tmp_path: Path) -> None:
    found = judge(tmp_path, ("eager", 48, "ok", 1.0), ("half", 48, "inaccurate", 9e3), ("nan", 48, "inaccurate", None))
    assert found.answer == "do not use half or nan"
    assert found.sentences[0].endswith("eager 1.00×, half 9000×.")
    assert "half and nan went beyond it" in found.sentences[1]


def test_nothing_known(tmp_path: Path) -> None:
    found = judge(tmp_path, ("eager", 48, "not_run", None))
    assert (found.answer, found.sentences) == ("nothing ran", ("Nothing was measured here: why not_run.",))


def test_depths_are_different_problems_and_come_last(tmp_path: Path) -> None:
    demo.write(tmp_path, demo.COMMITS[:1], modules=["depth", "msa_row"])
    read = history.load(tmp_path)
    own = read.cells[read.cells["level"] == "stack"]
    assert set(own["blocks"]) == {4, 48}
    assert own.groupby("point")["backend"].nunique().eq(len(demo.BACKENDS)).all()
    assert own["seconds"].isna().all()
    assert own.loc[own["status"] == "ok", "error"].between(0.9, 1.1).all()
    assert in_short(site_data(read).page)[-1]["title"] == "Depth: stacked Evoformer blocks, bfloat16, training"


@pytest.mark.parametrize(("error", "status"), [(1.5, "ok"), (3.0, "inaccurate")])
def test_without_a_journal_asv_knows_the_drift(tmp_path: Path, error: float, status: str) -> None:
    name = "depth.OverBlocks.error_depth_training"
    params = [["48"], ["'float32'"], ["'eager'"]]
    (tmp_path / "m").mkdir()
    listed = {name: {"param_names": ["blocks", "dtype", "backend"]}, "version": 2}
    (tmp_path / "benchmarks.json").write_text(json.dumps(listed))
    stored = {
        "version": 2, "env_name": "env", "commit_hash": "b" * 40, "date": 1767261600000,
        "result_columns": ["result", "params"], "results": {name: [[error], params]},
    }  # fmt: skip
    (tmp_path / "m" / "bbbbbbbb-env.json").write_text(json.dumps(stored))
    (cell,) = history.load(tmp_path).cells.to_dict("records")
    described = {name: cell[name] for name in ("operation", "level", "blocks", "error", "status", "direction")}
    assert described == {
        "operation": "evoformer", "level": "stack", "blocks": 48, "error": error, "status": status,
        "direction": "training",
    }  # fmt: skip
