"""The memory frontier, drawn from the limits that the instrument predicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dashboard import frontier, scaling

PROBLEM = {
    "operation": "msa_row", "level": "core", "B": 1, "S": 128, "R": 256, "T": None, "N_head": 8, "c": 32,
    "blocks": None, "dtype": "float32", "mask": "none", "scores": 67108864,
}  # fmt: skip


def limit(backend: str, direction: str, axis: str, largest: int | None, **problem: Any) -> dict[str, Any]:
    return {
        "problem": PROBLEM | problem, "backend": backend, "direction": direction, "axis": axis, "largest": largest,
        "needs": largest and 23_999_999_999, "reason": "" if largest else "does not run on fake tensors",
    }  # fmt: skip


RECORD = {
    "schema": 1, "record": "frontier", "memory": 24_000_000_000, "device": "cpu", "torch": "2.13.0",
    "limits": [
        limit("eager", "forward", "S", 4159), limit("eager", "forward", "R", 1661),
        limit("eager", "training", "S", 2860), limit("eager", "training", "R", 1353),
        limit("chunked", "forward", "S", 18076), limit("chunked", "forward", "R", 18911),
        limit("compiled", "forward", "S", None), limit("compiled", "forward", "R", None),
        limit("eager", "forward", "R", 1234, operation="triangle_starting", S=None, N_head=4),
    ],
}  # fmt: skip


@pytest.fixture
def limits(tmp_path: Path) -> Path:
    path = tmp_path / "limits.json"
    path.write_text(json.dumps(RECORD))
    return path


def test_every_limit_is_a_point_of_its_problems_panel() -> None:
    spec = frontier.frontier(RECORD)
    assert spec is not None
    row, triangle = (of_problem["hconcat"] for of_problem in spec["vconcat"])
    points = {
        (x["backend"], x["direction"], axis): x["largest"]
        for axis, panel in zip("SR", row, strict=True) for x in panel["data"]["values"]
    }  # fmt: skip
    assert points == {(x["backend"], x["direction"], x["axis"]): x["largest"] for x in RECORD["limits"][:6]}
    assert [[x["largest"] for x in panel["data"]["values"]] for panel in triangle] == [[1234]]


def test_the_command_draws_it_and_says_what_is_left_out(
    limits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    out = tmp_path / "frontier.svg"
    assert scaling.main(["--frontier", str(limits), "--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines() == ["compiled forward: does not run on fake tensors", str(out)]
    text = "".join(ElementTree.parse(out).getroot().itertext())
    for shown in ("24.0\u00a0GB", "msa_row, S=128, R=256", "largest S (sequences)", "18,911", "training", "chunked"):
        assert shown in text
    assert "compiled" not in text


@pytest.mark.parametrize(
    ("record", "said"),
    [({"record": "comparison", "schema": 1}, "is no record of limits"),
     (RECORD | {"limits": [limit("compiled", "forward", "S", None)]}, "does not run on fake tensors")],
)  # fmt: skip
def test_what_cannot_be_drawn_is_an_error(
    record: dict[str, Any], said: str, limits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    limits.write_text(json.dumps(record))
    assert scaling.main(["--frontier", str(limits)]) == 2
    assert said in capsys.readouterr().err
