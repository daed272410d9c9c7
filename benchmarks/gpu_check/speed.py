"""A sweep at AlphaFold 2's real sizes: bfloat16, then float32, then what backends that build code take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks import axes
from benchmarks.gpu_check.parts import Task
from benchmarks.instrument import origin
from benchmarks.instrument.cells import Cell, Selection
from benchmarks.instrument.effort import Effort
from benchmarks.instrument.origin import Origin
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.sweep import Sweep

SIZES = {
    "msa_row": [{"S": 128, "R": 256}, {"S": 512, "R": 384}],
    "msa_column": [{"S": 128, "R": 256}, {"S": 512, "R": 384}],
    "msa_global_column": [{"S": 1024, "R": 256}, {"S": 5120, "R": 384}],
    "triangle_starting": [{"R": 256}, {"R": 384}],
    "triangle_ending": [{"R": 256}, {"R": 384}],
    "template_pointwise": [{"R": 256, "T": 4}, {"R": 384, "T": 4}],
}
"""Initial training and fine-tuning (AlphaFold 2 supplement, table 4; extra MSAs for global attention)."""
TINY = {"S": 3, "R": 18, "T": 2}
BUILT = ("msa_row", "triangle_starting")
"""The operations for which code is built, at the sizes of initial training, in bfloat16."""
SHARES = {"bfloat16": 0.4, "float32": 0.6, "built": 1.0}
"""Of the time that is left, for one sweep after the other."""


def main(task: Task) -> None:
    """One sweep after the other, into one journal; each leaves the cells out whose turn does not come, and says so."""
    os.environ["AXIALBENCH_PROGRESS"] = str(task.folder / "progress.json")
    environ = os.environ | {"AXIALBENCH_DEVICE": task.device}
    commit = origin.git(origin.ROOT, "rev-parse", "HEAD")
    date, _, subject = origin.git(origin.ROOT, "log", "-1", "--format=%cI%n%s").partition("\n")
    here = Origin(commit, date, subject, "gpu-check", None, {}, task.part, task.folder)
    for name, cells in sweeps(task.tiny).items():
        effort = Effort(
            "gpu-check", processes=1, rounds=2, seconds=0.1, samples=10, longest_call=1.0, warm_up=0.1,
            memory_repeats=1, checked_scores=2**21, compiling_processes=1, module_seconds=SHARES[name] * task.left,
        )  # fmt: skip
        Sweep(name, here, effort, environ).measure(cells, Selection())


def sweeps(tiny: bool) -> dict[str, list[Cell]]:
    """The cells of each sweep."""
    plain = [name for name in axes.BACKENDS if name not in axes.COMPILING]
    return {
        **{dtype: [cell for problem in problems(dtype, tiny) for cell in cells(problem, plain)]
           for dtype in ("bfloat16", "float32")},
        "built": [
            cell for problem in problems("bfloat16", tiny) for cell in cells(problem, axes.COMPILING)
            if problem.operation in BUILT and problem == first(problem.operation, tiny)
        ],
    }  # fmt: skip


def problems(dtype: str, tiny: bool) -> Iterator[Problem]:
    """Every operation at its sizes."""
    for operation, sizes in SIZES.items():
        for size in sizes[:1] if tiny else sizes:
            smaller: dict[str, Any] = {name: TINY[name] if tiny else n for name, n in size.items()}
            yield replace(Problem(operation, "core", dtype, mask="none", **axes.CENTRE[operation]), **smaller)


def first(operation: str, tiny: bool) -> Problem:
    """The operation's first problem, in bfloat16."""
    return next(problem for problem in problems("bfloat16", tiny) if problem.operation == operation)


def cells(problem: Problem, backends: tuple[str, ...] | list[str]) -> Iterator[Cell]:
    """``problem`` over ``backends``, in both directions."""
    for backend in backends:
        for direction in axes.DIRECTIONS:
            yield Cell("gpu_check", "AlphaFold2", {"problem": problem.key, "backend": backend}, problem, direction)
