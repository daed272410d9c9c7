"""Sweeps at AlphaFold 2's real sizes, each in bfloat16 and float32; then over the backends that build code."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
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
SHARES = {
    "initial bfloat16": 0.25, "initial float32": 0.33, "final bfloat16": 0.45, "final float32": 0.7, "built": 1.0,
}  # fmt: skip
"""Of the time that is left, for one sweep after the other: at the sizes of initial training, and of fine-tuning."""


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
    found = {
        f"{stage} {dtype}": [*cells(problems(stage, dtype, tiny), plain)]
        for stage in ("initial", "final")
        for dtype in ("bfloat16", "float32")
    }
    built = [problem for problem in problems("initial", "bfloat16", tiny) if problem.operation in BUILT]
    return found | {"built": [*cells(built, axes.COMPILING)]}


def problems(stage: str, dtype: str, tiny: bool) -> Iterator[Problem]:
    """Every operation at its size in a ``stage`` of training, ``initial`` or ``final``."""
    for operation, sizes in SIZES.items():
        size = sizes[("initial", "final").index(stage)]
        smaller: dict[str, Any] = {name: TINY[name] if tiny else n for name, n in size.items()}
        yield replace(Problem(operation, "core", dtype, mask="none", **axes.CENTRE[operation]), **smaller)


def cells(problems: Iterable[Problem], backends: Iterable[str]) -> Iterator[Cell]:
    """``problems`` over ``backends``, in both directions."""
    for problem, backend, direction in itertools.product(problems, backends, axes.DIRECTIONS):
        yield Cell("gpu_check", "AlphaFold2", {"problem": problem.key, "backend": backend}, problem, direction)
