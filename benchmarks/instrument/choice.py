"""What a command measures that is no asv series: operations, sizes and backends from the command line."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks import axes
from benchmarks.instrument.cells import Cell
from benchmarks.instrument.machine import has_gpu
from benchmarks.instrument.problems import Problem

SHORT = {"triangle": ("triangle_starting", "triangle_ending"), "template": ("template_pointwise",)}
OPERATIONS = (*axes.CENTRE, *SHORT)
SIZES = ("S", "R", "T", "N_head")


def add_arguments(parser: argparse.ArgumentParser, **smaller: int) -> None:
    """Options that choose problems; without sizes, each operation's centre, or ``smaller``."""
    parser.add_argument("--op", action="append", choices=OPERATIONS, help="an operation; may be repeated (all)")
    parser.add_argument("--direction", action="append", choices=axes.DIRECTIONS, help="forward, training (both)")
    parser.add_argument("--dtype", action="append", choices=axes.DTYPES, help="(float32)")
    parser.add_argument("--level", choices=("core", "module"), default="core", help="core (default), or whole modules")
    for name in SIZES:
        centres = sorted({centre[name] for centre in axes.CENTRE.values() if name in centre})
        usual = smaller.get(name) or " or ".join(map(str, centres))
        parser.add_argument(f"--{name}", type=positive, default=smaller.get(name), help=f"(default: {usual})")


def positive(text: str) -> int:
    """A size. Raises ArgumentTypeError for anything but a whole number from 1 on."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; expected a whole number from 1 on")
    return int(text)


def cells(given: argparse.Namespace, backends: Iterable[str], series: str) -> Iterator[Cell]:
    """The cells that ``given`` chooses, under the name of ``series``."""
    operations = [name for op in given.op or axes.CENTRE for name in SHORT.get(op, (op,))]
    for operation, dtype, backend, direction in itertools.product(
        dict.fromkeys(operations), given.dtype or ["float32"], backends, given.direction or axes.DIRECTIONS
    ):
        mask = "padding" if given.level == "module" else "none"
        problem = Problem(operation, given.level, dtype, mask=mask, **axes.CENTRE[operation])
        sizes = {name: getattr(given, name) for name in SIZES if getattr(problem, name) and getattr(given, name)}
        yield Cell(series, operation, {"backend": backend}, replace(problem, **sizes), direction)


def usual(device: str | None) -> list[str]:
    """The backends that build no code and may run on ``device`` (None: a GPU, if there seems to be one)."""
    cuda = device == "cuda" or (device is None and has_gpu())
    left_out = {*axes.COMPILING, *(() if cuda else axes.CUDA_ONLY)}
    return [name for name in axes.BACKENDS if name not in left_out]


def name(cell: Cell) -> str:
    """The cell without its sizes: ``"msa_row chunked training"``."""
    level = " module" if cell.problem.level == "module" else ""
    dtype = "" if cell.problem.dtype == "float32" else f" {cell.problem.dtype}"
    return f"{cell.problem.operation}{level} {cell.backend} {cell.direction}{dtype}"
