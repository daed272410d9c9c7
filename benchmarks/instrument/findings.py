"""What is found out about a measurement, from the first question to the lines of the journal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from benchmarks.axes import DTYPES
from benchmarks.instrument.cells import Cell
from benchmarks.instrument.problems import Problem

MEASURED = ("ok", "inaccurate")
OPEN = ("", *MEASURED)
"""Statuses of a measurement that is still to be timed."""


@dataclass
class Finding:
    """What is known about one measurement: a cell that may stand in several series."""

    cells: list[Cell]
    status: str = ""
    reason: str = ""
    predicted_bytes: int | None = None
    compiles: bool = False
    bytes: int | None = None
    compile_seconds: float | None = None
    error: float | None = None
    errors: dict[str, dict[str, float | None]] = field(default_factory=dict)
    kernels: list[str] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    disturbances: list[str] = field(default_factory=list)
    first_seconds: float = 0.0
    call_seconds: float = 0.0
    samples: list[float] = field(default_factory=list)
    host: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)
    discarded: list[dict[str, Any]] = field(default_factory=list)
    copies: int = 1

    @property
    def cell(self) -> Cell:
        """One of the cells: they ask the same."""
        return self.cells[0]

    @property
    def order(self) -> dict[str, Any]:
        """What to tell a worker about it."""
        cell = self.cell
        return {"problem": asdict(cell.problem), "backend": cell.backend, "direction": cell.direction}

    @property
    def flops(self) -> int:
        """Work of one call."""
        return self.cell.problem.flops(self.cell.direction)

    def end(self, status: str, reason: str) -> None:
        """Give up on it."""
        self.status, self.reason = status, reason

    def judge(self) -> None:
        """``ok`` or ``inaccurate``, from the errors."""
        for name, found in self.errors.items():
            if found["error"] is None:
                self.error = None
                return self.end("inaccurate", f"{name} is not finite")
        ratios = {name: found["error"] / found["budget"] for name, found in self.errors.items()}  # type: ignore[operator]
        worst = max(ratios, key=ratios.__getitem__)
        self.error = float(f"{ratios[worst]:.4g}")
        if self.error > self.cell.problem.allowed:
            off = "times its error budget off" if self.cell.problem.timed else "times as far from float64 as eager's"
            return self.end("inaccurate", f"{worst} is {self.error:.3g} {off}")
        return self.end("ok", "")

    def records(self, sweep: str, device: str) -> Iterable[dict[str, Any]]:
        """The journal's lines: one for each series."""
        for cell in self.cells:
            record: dict[str, Any] = {
                "record": "cell", "sweep": sweep, "time": now().isoformat(timespec="seconds"), "cell": cell.key,
                "module": cell.module, "series": cell.series, "params": cell.params, "direction": cell.direction,
                "status": self.status, "reason": self.reason, "predicted_bytes": self.predicted_bytes,
                "problem": cell.problem.as_dict() | {"device": device, "flops": self.flops},
            }  # fmt: skip
            if self.status in MEASURED:
                record |= {
                    "seconds": {
                        "samples": self.samples, "rounds": self.rounds, "processes": self.processes,
                        "host": self.host or None, "discarded": self.discarded, "copies": self.copies,
                    } if cell.problem.timed else None,
                    "compile_seconds": self.compile_seconds, "bytes": self.bytes, "error": self.error,
                    "errors": self.errors, "kernels": self.kernels, "state": self.state,
                    "disturbed": bool(self.disturbances), "disturbances": self.disturbances,
                }  # fmt: skip
            yield record


def reading(record: dict[str, Any]) -> dict[str, Any]:
    """The part of a journal's record that asv's benchmarks return."""
    return {
        "status": record["status"],
        "reason": record["reason"],
        "samples": (record.get("seconds") or {}).get("samples"),
        **{name: record.get(name) for name in ("bytes", "error", "compile_seconds")},
    }


def merge(cells: Iterable[Cell]) -> list[Finding]:
    """One finding for all cells with the same key."""
    found: dict[str, Finding] = {}
    for cell in cells:
        found.setdefault(cell.key, Finding([])).cells.append(cell)
    return list(found.values())


def by_problem(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings of one problem together, dtype by dtype, small problems first: they tell what big ones will take."""
    groups: dict[Problem, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.cell.problem, []).append(finding)
    order = sorted(groups, key=lambda p: (DTYPES.index(p.dtype), p.flops("forward"), p.key))
    return [groups[problem] for problem in order]


def rounded(seconds: float) -> float:
    """Five digits: more than any clock here can tell."""
    return float(f"{seconds:.5g}")


def now() -> datetime:
    """The time, UTC."""
    return datetime.now(UTC)
