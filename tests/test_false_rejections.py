"""The record of false rejections is of these kernels, large enough, and empty; and rejections are counted."""

from __future__ import annotations

import json

import false_rejections
import pytest
from false_rejections import RECORD, tried
from mutants import MUTANTS
from right_kernels import RIGHT

from impls.interface import Backend
from impls.problem import DTYPES

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_right_kernel_was_rejected_in_ten_thousand_problems(dtype: str) -> None:
    rows = [row for row in map(json.loads, RECORD.read_text().splitlines()) if row["dtype"] == dtype]
    assert {row["kernel"] for row in rows} == set(RIGHT)
    assert all(row["problems"] >= 10_000 and row["rejected"] == 0 and row["largest_ratio"] <= 1 for row in rows)
    assert sum(row["tried"] - row["not_judged"] for row in rows) > 10_000


def test_rejections_are_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = Backend("right", "", RIGHT["upcast"]), Backend("wrong", "", MUTANTS["zeros"].attend)
    monkeypatch.setattr(false_rejections, "KERNELS", (right, wrong))
    rows = tried("float32", problems=10, each=1, seed=0)
    assert [(row["kernel"], row["tried"]) for row in rows] == [("right", 5), ("wrong", 5)]
    assert rows[0]["rejected"] == 0
    assert rows[1]["rejected"] >= 4 - rows[1]["not_judged"]  # zeros are right where no key is valid
    assert "wrong: kind=values" in capsys.readouterr().out
