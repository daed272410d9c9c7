"""The command line of ``python -m benchmarks frontier``."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.frontier.limits import AXES, PATIENCE, Limit, asking, limit
from benchmarks.instrument import choice, journal
from benchmarks.instrument.effort import parse_memory
from benchmarks.instrument.machine import cores
from benchmarks.instrument.sweep import memory_limit, size
from benchmarks.instrument.workers import WorkerFailedError, WorkerProcess

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = 1
LINE = 140
"""Columns where there is no terminal."""
NOTE = (
    "Inputs included; predicted, nothing was allocated. Kernels that allocate inside themselves (bfloat16 products, "
    "SDPA on a CPU) need somewhat more."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--memory", type=amount, help="what a call may need, 24GB (default: 80 %% of what is free)")
    choice.add_arguments(parser)
    parser.add_argument(
        "--backend", action="append", metavar="NAME",
        help="a backend, or MODULE:KERNEL; may be repeated (default: all of ours that build no code)",
    )  # fmt: skip
    parser.add_argument("--device", choices=("cpu", "cuda"), help="(cuda if it works)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the limits here")


def amount(text: str) -> int:
    """Bytes. Raises ArgumentTypeError."""
    try:
        return parse_memory(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(given: argparse.Namespace) -> int:
    """0; 2 if nothing can be predicted."""
    from rich.console import Console

    console = Console()
    console = console if console.is_terminal else Console(width=LINE)
    memory = given.memory or memory_limit(dict(os.environ))
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    worker = WorkerProcess({"device": given.device, "threads": cores(), "limit": memory}, environ)
    found: list[Limit] = []
    try:
        said = worker.ask({"do": "hello"}, PATIENCE)
        with console.status("predicting") as status:
            for one in limits(given, worker, memory):
                found.append(one)
                status.update(f"{one.problem.operation} {one.backend} {one.direction}: largest {one.axis}")
    except WorkerFailedError as error:
        console.print(f"Nothing can be predicted: {error}", markup=False)
        return 2
    finally:
        worker.stop()
    console.print(table(found, memory))
    for sentence in (*dict.fromkeys(notes(found)), NOTE):
        console.print(sentence, markup=False)
    if given.json:
        record = {"schema": SCHEMA, "record": "frontier", "memory": memory, "device": said["device"],
                  "torch": said["torch"], "limits": [x.as_dict() for x in found]}  # fmt: skip
        journal.write_atomically(given.json, json.dumps(record))
    return 0 if any(x.largest is not None for x in found) else 2


def limits(given: argparse.Namespace, worker: WorkerProcess, memory: int) -> Iterator[Limit]:
    """Every limit that was asked for, as it is found."""
    for cell in choice.cells(given, given.backend or choice.usual(given.device), "frontier"):
        for axis in AXES:
            if getattr(cell.problem, axis):
                yield limit(cell, axis, memory, asking(worker, cell))


def table(found: Iterable[Limit], memory: int) -> Table:
    """A row for each backend and direction, in a section for each problem."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=f"The largest sizes that fit {size(memory)}")
    for heading in ("problem", "backend", "direction", *(f"largest {axis}" for axis in AXES)):
        shown.add_column(heading, justify="right" if heading.startswith("largest") else "left")
    for problem, of_problem in groupby(found, key=lambda x: x.problem):
        shown.add_section()
        first = problem.key
        for (backend, direction), of_row in groupby(of_problem, key=lambda x: (x.backend, x.direction)):
            sizes = {x.axis: "unknown" if x.largest is None else f"{x.largest:,}" for x in of_row}
            shown.add_row(*map(Text, (first, backend, direction, *(sizes.get(axis, "") for axis in AXES))))
            first = ""
    return shown


def notes(found: Iterable[Limit]) -> Iterator[str]:
    """What the table leaves out: why a backend has no limit, or one that is not memory's."""
    for x in found:
        if x.largest is None or " needs " not in x.reason:
            yield f"{x.backend} {x.direction}: {x.reason}"
