"""The records of false rejections are of what is right here, large enough, and empty; and rejections are counted."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
from false_rejections import KERNELS, MODULES, Right, tried
from mutants import MUTANTS

from impls.conformance.judge import judge
from impls.interface import Backend

pytestmark = pytest.mark.usefixtures("one_thread")
ANSWERS = {"kernel": 10_000, "module": 500}
"""How many there must be in each dtype."""


@pytest.mark.parametrize(
    ("right", "dtype"),
    [pytest.param(right, dtype, id=f"{right.what}-{dtype}") for right in (KERNELS, MODULES) for dtype in right.dtypes],
)
def test_nothing_right_was_rejected(right: Right, dtype: str) -> None:
    rows = [row for row in map(json.loads, right.record.read_text().splitlines()) if row["dtype"] == dtype]
    assert {row[right.what] for row in rows} == set(right.judges)
    assert all(row["rejected"] == 0 and row["largest_ratio"] <= 1 for row in rows)
    assert sum(row["tried"] - row["not_judged"] for row in rows) > ANSWERS[right.what]


def test_rejections_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = partial(judge, Backend("wrong", "", MUTANTS["zeros"].attend))
    right = replace(KERNELS, judges={"right": KERNELS.judges["upcast"], "wrong": wrong})
    rows = tried(right, "float32", problems=10, each=1, seed=0)
    assert [(row["kernel"], row["tried"]) for row in rows] == [("right", 5), ("wrong", 5)]
    assert rows[0]["rejected"] == 0
    assert rows[1]["rejected"] >= 4 - rows[1]["not_judged"]  # zeros are right where no key is valid
    assert "wrong: kind=values" in capsys.readouterr().out
