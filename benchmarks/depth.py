"""Depth: how far rounding carries a whole stack of blocks from float64, in units of eager's own drift.

A block is the attention of an Evoformer block (algorithm 6, lines 2, 3, 8 and 9): rows, columns and both triangles,
each gated and added to what it was given. Only the error is measured.
"""

from typing import Any

from benchmarks import axes
from benchmarks.instrument.problems import Problem
from benchmarks.suite import Readings, Series, sweep


def setup_cache() -> Readings:
    return sweep(__name__)


class OverBlocks(Series):
    operations, axis, version = {"evoformer": "evoformer"}, "blocks", "1"
    level = "stack"

    def problem(self, params: dict[str, Any]) -> Problem:
        centre: dict[str, Any] = dict(axes.STACK)
        return Problem("evoformer", self.level, params["dtype"], blocks=params["blocks"], **centre)

    def error_depth_forward(self, readings: Readings, *values: Any) -> float | None:
        return self._read(readings, values, "forward")["error"]

    def error_depth_training(self, readings: Readings, *values: Any) -> float | None:
        return self._read(readings, values, "training")["error"]
