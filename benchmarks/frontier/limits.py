"""How far a backend gets along an axis before memory runs out: bisection over predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.instrument.cells import Cell
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.sweep import size
from benchmarks.instrument.workers import WorkerFailedError, WorkerProcess

AXES = ("S", "R")
MOST = 2**24
"""Nobody has more sequences or residues: here the search ends."""
PATIENCE = 120.0
UNKNOWN = "its memory cannot be predicted: it does not run on fake tensors, and gives no closed form"


class UnpredictedError(Exception):
    """There is no prediction; the message says why."""


Need = Callable[[Problem], int]
"""From a problem to the bytes that a call on it needs, inputs included. Raises UnpredictedError."""


@dataclass(frozen=True)
class Limit:
    """How far ``backend`` gets along ``axis`` from ``problem``, its other sizes kept.

    Attributes:
        largest: the largest size that fits; 0 if none does, None if there is no prediction.
        needs: bytes needed there, inputs included.
        reason: why not one more, or why there is no prediction.
    """

    problem: Problem
    backend: str
    direction: str
    axis: str
    largest: int | None
    needs: int | None
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"problem": self.problem.as_dict()}


def limit(cell: Cell, axis: str, memory: int, need: Need) -> Limit:
    """How far ``cell`` gets along ``axis`` within ``memory`` bytes. Takes what is needed to grow with the size."""
    needs: dict[int, int] = {}
    refused: dict[int, str] = {}

    def fits(n: int) -> bool:
        sizes: dict[str, Any] = {axis: n}
        try:
            needs[n] = need(replace(cell.problem, **sizes))
        except UnpredictedError as error:
            refused[n] = str(error)
            return False
        return needs[n] <= memory

    def of(largest: int | None, reason: str) -> Limit:
        return Limit(cell.problem, cell.backend, cell.direction, axis, largest, needs.get(largest or 0), reason)

    start = getattr(cell.problem, axis)
    if fits(start):
        good, bad = start, 2 * start
        while bad <= MOST and fits(bad):
            good, bad = bad, 2 * bad
        if bad > MOST:
            return of(good, f"the search ends at {axis}={good}")
    elif start in refused:
        return of(None, refused[start])
    else:
        good, bad = 0, start
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return of(good, f"{axis}={bad}: {refused[bad]}" if bad in refused else f"{axis}={bad} needs {size(needs[bad])}")


def asking(worker: WorkerProcess, cell: Cell) -> Need:
    """What ``worker`` predicts for the backend and direction of ``cell``."""

    def need(problem: Problem) -> int:
        order = {"do": "ask", "problem": asdict(problem), "backend": cell.backend, "direction": cell.direction}
        try:
            said = worker.ask(order, PATIENCE)
        except WorkerFailedError as failure:
            raise UnpredictedError(f"{failure.status}: {failure}") from None
        if "unsupported" in said:
            raise UnpredictedError(said["unsupported"])
        if said["predicted_bytes"] is None:
            raise UnpredictedError(UNKNOWN)
        return int(said["predicted_bytes"]) + problem.input_bytes

    return need
