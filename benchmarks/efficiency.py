"""``python -m benchmarks efficiency``: the share of a sweep's time that timed calls take, and where the rest goes."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import axes
from benchmarks.instrument import journal, origin
from benchmarks.instrument.cells import Selection
from benchmarks.instrument.effort import EFFORTS
from benchmarks.instrument.origin import Origin
from benchmarks.instrument.sweep import Sweep
from benchmarks.suite import series_of

if TYPE_CHECKING:
    from rich.table import Table

TARGET = 0.7
"""What timed calls should take at full effort."""
WORDS = {
    "hello": "starting workers",
    "rates": "the rate of a matrix product",
    "anchor": "anchors",
    "ask": "asking what can be done, predicting memory",
    "prove": "proving right, measuring memory",
    "warm": "warming up",
    "time": "around the timed calls, and discarded ones",
    "rest": "giving memory back",
    "forget": "freeing a problem",
}
"""What the orders to the workers are for."""
BUILDING, NO_ORDER = "building code", "no order: planning, the journal, the machine's state"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--effort", choices=list(EFFORTS), default="quick", help="(quick; the target is for full)")
    parser.add_argument("--op", choices=list(dict.fromkeys((*axes.MODULES, *axes.CENTRE))), default="msa_row",
                        help="a module of the suite, or an operation (default: msa_row)")  # fmt: skip


def main(given: argparse.Namespace) -> int:
    """Measure an operation's cells with this tree's ``impls``, and tell what took how long; 0. No number is kept.

    Which cells, the variables of ``instrument.effort`` say, as for a sweep.
    """
    from rich.console import Console

    environ, selection = os.environ | {"PYTHONPATH": str(origin.ROOT)}, Selection.from_environment()
    with tempfile.TemporaryDirectory(prefix="axialbench-") as folder:
        here = Origin("", "", "", "none", None, {}, "efficiency", Path(folder))
        for module in axes.MODULES:
            cells = [cell for series in series_of(module) for cell in series.cells()]
            ours = [cell for cell in cells if given.op in (cell.module, cell.problem.operation)]
            if chosen := [cell for cell in ours if selection.has(cell)]:
                Sweep(module, here, EFFORTS[given.effort], environ).measure(chosen, selection)
        done = [record for record in journal.read(here.journal) if record["record"] == "done"]
    console = Console()
    console.print(table(spent(done), f"{given.op}, {given.effort} effort"))
    console.print(f"The aim is {TARGET:.0%} at full effort, on a machine that does nothing else.")
    return 0


def spent(done: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds of these sweeps' wall time, by what they were spent on: timed calls first, the rest by size."""
    wall, timed, building = (
        sum(record[name] for record in done) for name in ("wall_seconds", "timed_seconds", "building_seconds")
    )
    orders = {words: sum(record["orders"].get(order, 0.0) for record in done) for order, words in WORDS.items()}
    rest = {**orders, BUILDING: building, NO_ORDER: wall - sum(orders.values())}
    rest[WORDS["prove"]] -= building
    rest[WORDS["time"]] -= timed
    return {"timed calls": timed, **dict(sorted(rest.items(), key=lambda item: -item[1]))}


def table(found: dict[str, float], title: str) -> Table:
    """Seconds and shares, for a terminal."""
    from rich.table import Table

    wall = sum(found.values())
    share = found["timed calls"] / wall
    shown = Table("spent on", title=f"{title}: {share:.0%} of {wall:.0f} s in timed calls")
    for heading in ("seconds", "share"):
        shown.add_column(heading, justify="right")
    for words, seconds in found.items():
        shown.add_row(words, f"{seconds:.1f}", f"{seconds / wall:.1%}")
    return shown
