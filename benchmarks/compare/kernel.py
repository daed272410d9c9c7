"""``python -m benchmarks run --backend my_package.my_module:my_kernel``: anybody's kernel beside ours, in one sweep.

The kernel is a callable with the core call's signature, or an ``impls.Backend``. It is measured as every cell is, but
never becomes one of asv's series: the journal goes to a folder of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.instrument import choice, journal
from benchmarks.instrument.cells import Selection
from benchmarks.instrument.effort import EFFORTS
from benchmarks.instrument.findings import MEASURED
from benchmarks.instrument.origin import Origin
from benchmarks.instrument.sweep import Sweep, size
from benchmarks.instrument.workers import WorkerFailedError

if TYPE_CHECKING:
    from rich.table import Table

Record = dict[str, Any]
FAILED = ("crashed", "oom", "timeout")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``run`` takes besides, for a kernel."""
    parser.add_argument(
        "--backend", action="append", metavar="MODULE:KERNEL",
        help="do not measure a commit: put this kernel (or registered backend; may be repeated) beside ours",
    )  # fmt: skip
    choice.add_arguments(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="with --backend: write the records here")


def main(given: argparse.Namespace) -> int:
    """0; 1 if a kernel that was named is wrong, or failed; 2 if it cannot be measured at all."""
    from rich.console import Console

    console = Console()
    console = console if console.is_terminal else Console(width=140)
    backends = dict.fromkeys([*choice.usual(None), *given.backend])
    cells = list(choice.cells(given, backends, "kernel"))
    effort = replace(EFFORTS[given.effort], name=f"this {given.effort}")  # whatever sizes were asked for
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryDirectory(prefix="axialbench-") as folder:
        here = Origin("", "", "", "none", None, {}, "kernel", Path(folder))
        try:
            Sweep("kernel", here, effort, environ).measure(cells, Selection())
        except KeyboardInterrupt:
            console.print("Interrupted: what was finished:")
        except WorkerFailedError as error:
            console.print(f"Nothing can be measured: {error}", markup=False)
            return 2
        records = list(journal.read(here.journal))
    of_cells = [record for record in records if record["record"] == "cell"]
    console.print(table(of_cells))
    for record in of_cells:
        if record["reason"] and record["params"]["backend"] in given.backend:
            console.print(f"{record['cell']}: {record['status']}: {record['reason']}", markup=False)
    if given.json:
        journal.write_atomically(given.json, json.dumps(records))
        console.print(f"Records: {given.json}", markup=False)
    theirs = {record["status"] for record in of_cells if record["params"]["backend"] in given.backend}
    if theirs & {"inaccurate", *FAILED}:
        return 1
    return 0 if "ok" in theirs else 2


def table(records: list[Record]) -> Table:
    """A row a cell: time, speed-up over eager, memory, error."""
    from rich.table import Table
    from rich.text import Text

    eager = {
        problem(record): statistics.median(record["seconds"]["samples"])
        for record in records
        if record["params"]["backend"] == "eager" and record["status"] == "ok"
    }
    shown = Table()
    for heading in ("problem", "backend", "status", "time", "x eager", "bytes beyond inputs", "error / budget"):
        words = heading in ("problem", "backend", "status")
        shown.add_column(heading, justify="left" if words else "right", no_wrap=heading != "problem")
    last = ""
    for record in sorted(records, key=lambda record: (problem(record), record["params"]["backend"])):
        if problem(record) != last:
            shown.add_section()
        cells = [problem(record) if problem(record) != last else "", record["params"]["backend"], record["status"]]
        last = problem(record)
        if record["status"] in MEASURED:
            seconds = statistics.median(record["seconds"]["samples"])
            faster = eager.get(last, float("nan")) / seconds
            error = "not finite" if record["error"] is None else f"{record['error']:.2g}"
            cells += [f"{1000 * seconds:.3g} ms", f"{faster:.2f}", size(record["bytes"]), error]
        shown.add_row(*(Text(cell) for cell in cells))
    return shown


def problem(record: Record) -> str:
    """The cell without its backend."""
    words = record["cell"].split()
    return " ".join(word for word in words if word != record["params"]["backend"])
