"""Cells: one backend on one problem in one direction, and where in the suite it stands. Which of them are measured."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks import axes
from benchmarks.instrument.effort import Effort, listed
from benchmarks.instrument.problems import Problem


@dataclass(frozen=True)
class Cell:
    """One backend on one problem in one direction, as it stands in one series of one module."""

    module: str
    series: str
    params: dict[str, Any]
    problem: Problem
    direction: str

    @property
    def backend(self) -> str:
        """The backend's name."""
        return str(self.params["backend"])

    @property
    def key(self) -> str:
        """Identity of the measurement: cells of several series that ask the same have the same key."""
        return f"{self.problem.key} {self.backend} {self.direction}"

    @property
    def place(self) -> str:
        """Where the cell stands in its module: ``"OverR(256, 'float32', 'sdpa') forward"``."""
        return f"{self.series}({', '.join(map(repr, self.params.values()))}) {self.direction}"

    @property
    def benchmarks(self) -> list[str]:
        """asv's names of the benchmarks that read this cell, ``"msa_row.OverR.seconds_forward(256, ...)"``."""
        params = ", ".join(map(repr, self.params.values()))
        quantities = ("seconds", "bytes", "error", "seconds_compile", "error_depth")
        return [f"{self.module}.{self.series}.{quantity}_{self.direction}({params})" for quantity in quantities]


@dataclass(frozen=True)
class Selection:
    """What the environment asks to measure: names, or None for all of them.

    ``operations`` are operations or modules of the suite; ``benchmarks`` are asv's ``-b`` patterns.
    """

    operations: frozenset[str] | None = None
    backends: frozenset[str] | None = None
    dtypes: frozenset[str] | None = None
    directions: frozenset[str] | None = None
    benchmarks: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Selection:
        """The selection that the variables of ``effort`` ask for. Raises ValueError for an unknown name."""
        return cls(
            listed("AXIALBENCH_OPS", (*axes.CENTRE, *axes.MODULES), environ),
            listed("AXIALBENCH_BACKENDS", axes.BACKENDS, environ),
            listed("AXIALBENCH_DTYPES", axes.DTYPES, environ),
            listed("AXIALBENCH_DIRECTIONS", axes.DIRECTIONS, environ),
            tuple(filter(None, environ.get("AXIALBENCH_BENCH", "").split("\n"))),
        )

    def has(self, cell: Cell) -> bool:
        """Whether ``cell`` is to be measured."""
        return (
            (self.operations is None or bool(self.operations & {cell.problem.operation, cell.module}))
            and (self.backends is None or cell.backend in self.backends)
            and (self.dtypes is None or cell.problem.dtype in self.dtypes)
            and (self.directions is None or cell.direction in self.directions)
            and (
                not self.benchmarks
                or any(re.search(pattern, name) for pattern in self.benchmarks for name in cell.benchmarks)
            )
        )

    def as_dict(self) -> dict[str, list[str]] | None:
        """For the journal: what is selected, or None if all is."""
        chosen = {name: sorted(value) for name, value in vars(self).items() if value}
        return chosen or None


def beside(measured: Iterable[Cell], cells: Iterable[Cell]) -> list[Cell]:
    """Those of ``cells`` that pose a problem of ``measured``: with those that were left out of it, whatever for.

    A sweep of them writes down for every backend why it has no number where another has one.
    """
    problems = {cell.problem for cell in measured}
    return [cell for cell in cells if cell.problem in problems]


def left_out(cell: Cell, effort: Effort) -> str:
    """Why ``effort`` does not measure ``cell``; empty if it does.

    Quick effort keeps to ``axes.QUICK``, takes whole modules and bfloat16 at the smallest R only, and has code built at
    one centre.
    """
    if effort.name != "quick":
        return ""
    problem, building = cell.problem, f"quick effort builds code for {' '.join(axes.QUICK_COMPILED)} at the centre only"
    if problem.blocks:
        if problem.blocks not in axes.QUICK["blocks"]:
            return f"quick effort stacks {' and '.join(map(str, axes.QUICK['blocks']))} blocks"
        return building if cell.backend in axes.COMPILING else ""
    centre = axes.CENTRE[problem.operation]
    sizes = {name: getattr(problem, name) for name in centre if name != "c"}
    for name, size in sizes.items():
        if size not in (*axes.QUICK[name], centre[name]):
            kept = sorted({*axes.QUICK[name], centre[name]})
            return f"quick effort measures {name} = {' and '.join(map(str, kept))}"
    smallest = min(axes.QUICK["R"])
    if problem.dtype != "float32" and (sizes["R"] > smallest or problem.level == "module"):
        return f"quick effort measures {problem.dtype} at the core, at R = {smallest}"
    if problem.level == "module" and sizes["R"] > smallest:
        return f"quick effort measures whole modules at R = {smallest}"
    built = (problem.operation, problem.level, cell.direction) == axes.QUICK_COMPILED
    if cell.backend in axes.COMPILING and not (built and all(centre[name] == size for name, size in sizes.items())):
        return building
    return ""
