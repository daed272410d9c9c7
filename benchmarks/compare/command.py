"""The command line of ``python -m benchmarks compare``."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import axes
from benchmarks.compare import report
from benchmarks.compare.duel import Duel
from benchmarks.compare.paired import LOOKS
from benchmarks.compare.report import Comparison
from benchmarks.compare.revisions import Side, side
from benchmarks.instrument import choice, journal, origin
from benchmarks.instrument.sweep import WrongImplsError
from benchmarks.instrument.workers import WorkerFailedError

LINE = 140
"""Columns where there is no terminal."""
SMALL = {"S": 32, "R": 64}
"""Small: calls of milliseconds, of which many fit into the time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("base", help="a commit, branch or tag; . for the working tree as it is")
    parser.add_argument("head", nargs="?", default=".", help="what to hold against it (default: the working tree)")
    choice.add_arguments(parser, **SMALL)
    parser.add_argument("--backend", action="append", choices=axes.BACKENDS, help="a backend; may be repeated (all)")
    parser.add_argument("--seconds", type=float, default=20, help="most timed seconds a cell (default: 20)")
    parser.add_argument("--pairs", type=int, choices=LOOKS, default=LOOKS[-1], help="most pairs of processes (16)")
    parser.add_argument("--margin", type=float, default=0.02, help="a smaller difference counts as same (0.02)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each side (default: 1, for less noise)")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="(cuda if it works)")
    parser.add_argument("--backends", nargs=2, metavar=("BASE", "HEAD"),
                        help="compare two backends of one revision, in one process")  # fmt: skip
    parser.add_argument("--base-python", metavar="FILE", help="base's interpreter: another torch, say")
    parser.add_argument("--head-python", metavar="FILE", help="head's interpreter")
    parser.add_argument(
        "--machine",
        type=origin.machine_name,
        default="local",
        help="where in results/ the record goes (default: local)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the whole record here as well")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a table for a pull request")


def main(given: argparse.Namespace) -> int:
    """0; 1 if something became slower, hungrier, less accurate or stopped working; 2 if nothing can be compared."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=LINE)
    with tempfile.TemporaryDirectory(prefix="axialbench-") as folder:
        try:
            sides = both(given, Path(folder))
        except ValueError as error:
            console.print(str(error), markup=False)
            return 2
        backends = (given.backends[1],) if given.backends else tuple(given.backend or choice.usual(given.device))
        with console.status("starting") as status:
            duel = Duel(
                sides, list(choice.cells(given, backends, "compare")),
                seconds=given.seconds, pairs=given.pairs, margin=given.margin,
                threads=given.threads, device=given.device, progress=status.update,
            )  # fmt: skip
            records = origin.ROOT / "results" / given.machine / "comparisons"
            try:
                duel.run(after=lambda: write(found(duel, given), records))
            except KeyboardInterrupt:
                console.print("Interrupted: what the finished pairs say:")
            except (WorkerFailedError, WrongImplsError) as error:
                console.print(f"Cannot compare: {error}", markup=False)
                return 2
    comparison = found(duel, given)
    console.print(report.table(comparison))
    for said in report.notes(comparison):
        console.print(said, markup=False)
    if duel.software:
        console.print(f"Record: {write(comparison, records).relative_to(origin.ROOT)}", markup=False)
    if given.json:
        journal.write_atomically(given.json, json.dumps(comparison.as_dict()))
    if given.markdown:
        journal.write_atomically(given.markdown, report.markdown(comparison))
    return 1 if comparison.worse else 0


def write(comparison: Comparison, folder: Path) -> Path:
    """The record, whole; named after the sides, and their versions of torch where these differ."""
    versions = [said["torch"] for said in comparison.software.values()]
    names = [comparison.sides[role].name for role in ("base", "head")] + versions * (len(set(versions)) > 1)
    path = folder / ("-".join(names).replace(" ", "-") + ".json")
    journal.write_atomically(path, json.dumps(comparison.as_dict()))
    return path


def both(given: argparse.Namespace, folder: Path) -> tuple[Side, Side]:
    """The sides. Raises ValueError for an unknown revision."""
    options: dict[str, Any]
    sides = []
    for role, revision, python in (("base", given.base, given.base_python), ("head", given.head, given.head_python)):
        options = {"python": python} if python else {}
        if given.backends:
            revision, options["backend"] = given.base, given.backends[role == "head"]
        sides.append(side(role, revision, folder, **options))
    if given.backends:
        sides = [sides[0], replace(sides[1], folder=sides[0].folder)]
    return sides[0], sides[1]


def found(duel: Duel, given: argparse.Namespace) -> Comparison:
    """What is known by now."""
    duel.look()
    return Comparison(
        duel.sides, tuple(duel.outcomes.values()), given.margin, given.threads, duel.software, tuple(duel.states)
    )
