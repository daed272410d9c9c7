"""``python -m benchmarks``: ``run`` measures through ``asv run``, with a progress line; ``compare`` holds two revisions
against each other in pairs; ``frontier`` predicts the largest sizes that fit; ``gpu-check`` looks a CUDA machine over;
``rebuild`` rewrites asv's files."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import axes, efficiency
from benchmarks.compare import command as compare
from benchmarks.compare import kernel
from benchmarks.frontier import command as frontier
from benchmarks.gpu_check import command as gpu_check
from benchmarks.instrument import journal, origin
from benchmarks.instrument.cells import Cell, beside, left_out
from benchmarks.instrument.effort import EFFORTS
from benchmarks.instrument.machine import has_gpu
from benchmarks.instrument.rebuild import rebuild
from benchmarks.instrument.workers import how_it_ended
from benchmarks.suite import series_of

LOG = origin.ROOT / ".asv" / "run.log"
EVERY = 15
"""Seconds between two progress lines where there is no terminal."""
RESUME = "What was measured is in the journal; the same command takes up where it stopped."
SETUP_FAILED = re.compile(r"Setting up (\w+):\d+ +failed$.*?setup_cache failed \(exit status (-?\d+)\)", re.M | re.S)


def main() -> int:
    """Run the command line; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure a commit, with a progress line")
    run.add_argument("--effort", choices=list(EFFORTS), default=os.environ.get("AXIALBENCH_EFFORT") or "quick")
    run.add_argument(
        "--machine", type=origin.machine_name, default="local",
        help="the machine's name in results/ (default: local, which git ignores)",
    )  # fmt: skip
    run.add_argument("--commits", default="HEAD", help="what asv run takes: HEAD, NEW, a range (default: HEAD)")
    kernel.add_arguments(run)
    comparing = commands.add_parser("compare", help="two revisions, or two backends, measured in pairs")
    compare.add_arguments(comparing)
    frontier.add_arguments(commands.add_parser("frontier", help="the largest sizes that fit a given memory, predicted"))
    gpu_check.add_arguments(commands.add_parser("gpu-check", help="look a CUDA machine over, in 8 minutes"))
    efficiency.add_arguments(
        commands.add_parser("efficiency", help="where a sweep's time goes; its numbers are not kept")
    )
    commands.add_parser("rebuild", help="write asv's files of results anew from the journals")
    given = parser.parse_args()
    if given.command == "rebuild":
        for path in rebuild(origin.ROOT / "results"):
            print(path.relative_to(origin.ROOT))
        return 0
    if given.command == "compare":
        return compare.main(given)
    if given.command == "frontier":
        return frontier.main(given)
    if given.command == "efficiency":
        return efficiency.main(given)
    if given.command == "gpu-check":
        return gpu_check.main(given)
    if given.backend:
        return kernel.main(given)
    return measure(given.effort, given.machine, given.commits)


def measure(effort: str, machine: str, commits: str) -> int:
    """``asv run``, its output kept in a log, a progress line instead; the exit status.

    asv reports failed cells with status 2: they are in the journal with their reasons, and no failure of the run. A
    module whose measuring was cut short is one.
    """
    from rich.console import Console

    console = Console(soft_wrap=not sys.stdout.isatty())
    for warning in origin.warnings(origin.dirty()):
        console.print(f"[bold red]{warning}[/]")
    cells = [cell for module in axes.MODULES for series in series_of(module) for cell in series.cells()]
    measured = [cell for cell in cells if not left_out(cell, EFFORTS[effort])]
    asv = [sys.executable, "-m", "asv"]
    LOG.parent.mkdir(exist_ok=True)
    begun = time.time()
    with tempfile.TemporaryDirectory() as folder, LOG.open("w") as log:
        progress = Path(folder) / "progress.json"
        environ = os.environ | {
            "AXIALBENCH_EFFORT": effort, "AXIALBENCH_BENCH": "\n".join(patterns(beside(measured, cells), cells)),
            "AXIALBENCH_PROGRESS": str(progress), "COLUMNS": "200",
        }  # fmt: skip
        readable = [cell for cell in measured if has_gpu() or cell.backend not in axes.CUDA_ONLY]
        selected = [word for pattern in patterns(readable, cells) for word in ("-b", pattern)]
        process = subprocess.Popen(
            [*asv, "run", commits, "--machine", machine, "--record-samples", "--show-stderr", *selected],
            cwd=origin.ROOT, env=environ, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            watch(process, progress, console)
        except KeyboardInterrupt:
            end(process)
            console.print(f"Interrupted. {RESUME}")
            return 130
    if process.returncode not in (0, 2):
        console.print(f"[bold red]asv run ended {how_it_ended(process.returncode)}[/]. {RESUME} The end of {LOG}:")
        console.print("\n".join(LOG.read_text().splitlines()[-20:]), markup=False, highlight=False)
        return process.returncode
    records = list(records_since(origin.ROOT / "results" / machine / "journal", begun))
    lost = cut_short(records, LOG.read_text())
    for sentence in lost:
        console.print(f"[bold red]{sentence}[/]")
    if lost:
        console.print(RESUME)
    summarize(records, origin.ROOT / "results" / machine / "journal", begun, console)
    return 1 if lost else 0


def patterns(chosen: list[Cell], cells: list[Cell]) -> list[str]:
    """Patterns for asv's ``-b`` that select exactly the benchmarks of ``chosen`` among those of ``cells``.

    They name the places of a series and the backends there; all places are ``.*``, for a command line has its limits.
    """
    places = {series: set(by_place) for series, by_place in backends_by_place(cells).items()}
    found = []
    for series, by_place in backends_by_place(chosen).items():
        by_backends: dict[str, set[str]] = {}
        for place, backends in by_place.items():
            by_backends.setdefault("|".join(backends), set()).add(place)
        for names, of_them in by_backends.items():
            where = ".*" if of_them == places[series] else f"({'|'.join(sorted(of_them))})"
            found.append(rf"^{series}\.\w+\({where}, ({names})\)$")
    return found


def backends_by_place(cells: list[Cell]) -> dict[str, dict[str, dict[str, None]]]:
    """By series, and by its parameters but the last, the backends: all as asv writes them."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for cell in cells:
        *place, backend = map(repr, cell.params.values())
        series = rf"{cell.module}\.{cell.series}"
        found.setdefault(series, {}).setdefault(", ".join(place), {})[backend] = None
    return found


def watch(process: subprocess.Popen[bytes], progress: Path, console: Any) -> None:
    """Show how far the run is until ``process`` ends: on a terminal in one line, elsewhere in a line now and then."""
    shown = time.monotonic()
    with console.status("setting up asv's environment (once)") as status:
        while process.poll() is None:
            if progress.is_file():
                text = line(json.loads(progress.read_text()))
                status.update(text)
                if not console.is_terminal and time.monotonic() > shown + EVERY:
                    console.print(text)
                    shown = time.monotonic()
            time.sleep(0.5)


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that the terminal has interrupted too, and interrupt it if it was not."""
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()


def line(state: dict[str, Any]) -> str:
    """The progress line."""
    number = axes.MODULES.index(state["module"]) + 1
    left = "" if state["left"] is None else f", about {state['left']:.0f} s left of it"
    doing = "reading the results into asv" if state["done"] == state["cells"] else state["doing"]
    return f"{state['module']} ({number}/{len(axes.MODULES)}): {state['done']}/{state['cells']} cells{left}  {doing}"


def records_since(folder: Path, begun: float) -> Iterator[journal.Record]:
    """What the journals in ``folder`` hold of sweeps that started at ``begun`` or later."""
    oldest = datetime.fromtimestamp(int(begun), UTC)
    for path in sorted(folder.glob("*.jsonl")):
        sweeps = set()
        for record in journal.read(path):
            if record["record"] == "sweep" and datetime.fromisoformat(record["started"]) >= oldest:
                sweeps.add(record["sweep"])
            if record["sweep"] in sweeps:
                yield record


def cut_short(records: list[journal.Record], log: str) -> list[str]:
    """Which modules were not measured to the end, and how their processes ended by asv's ``log``; in sentences."""
    finished = {record["sweep"] for record in records if record["record"] == "done"}
    cells = Counter(record["sweep"] for record in records if record["record"] == "cell")
    modules = {record["module"]: record["sweep"] for record in records if record["record"] == "sweep"}
    ends = {module: how_it_ended(int(code)) for module, code in SETUP_FAILED.findall(log)}
    lost = dict.fromkeys([*ends, *(module for module, sweep in modules.items() if sweep not in finished)])
    return [
        f"Measuring {module} was cut short after {cells[modules.get(module, '')]} cells: its process ended "
        f"{ends.get(module, 'too early')}. {LOG} says more."
        for module in lost
    ]


def summarize(records: list[journal.Record], folder: Path, begun: float, console: Any) -> None:
    """How many cells ended how, and how much of the time was spent in timed calls."""
    statuses = Counter(record["status"] for record in records if record["record"] == "cell")
    timed = sum(record["timed_seconds"] for record in records if record["record"] == "done")
    console.print(", ".join(f"{n} {status}" for status, n in statuses.most_common()))
    console.print(f"{time.time() - begun:.0f} s, {timed:.0f} s of them in timed calls. Log: {LOG}; journal: {folder}")


if __name__ == "__main__":
    sys.exit(main())
