"""``compare`` put to the test on live processes: identical code, and a slowdown that is really computed.

``python -m benchmarks.compare.trials --slowdown 0.05 --busy``: each call of the head's backends computes on for 5 % of
the time that it took, while with ``--busy`` another process works on another core. Every cell is a trial.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import axes
from benchmarks.compare.duel import Duel
from benchmarks.compare.paired import LOOKS
from benchmarks.compare.revisions import Side, side
from benchmarks.instrument.cells import Cell
from benchmarks.instrument.problems import Problem

BACKENDS = ("eager", "sdpa", "sdpa_math", "sdpa_flash", "chunked")
SIZE = 40
PLANT = """

_call = Backend.__call__


def _slower(self, q, k, v, bias=None, mask=None):
    from time import perf_counter

    begun = perf_counter()
    o = _call(self, q, k, v, bias, mask)
    until = perf_counter() + {slowdown} * (perf_counter() - begun)
    while perf_counter() < until:
        sum(range(8))
    return o


Backend.__call__ = _slower
"""


def cells(number: int) -> list[Cell]:
    """So many cells: every operation over every backend, forward, in float32 and then in bfloat16."""
    found = []
    for dtype in axes.DTYPES:
        for operation, centre in axes.CENTRE.items():
            sizes: dict[str, Any] = {**centre, "R": SIZE}
            problem = Problem(operation, "core", dtype, **sizes)
            problem = replace(problem, S=SIZE) if problem.S else problem
            found += [Cell("trials", operation, {"backend": name}, problem, "forward") for name in BACKENDS]
    return found[:number]


def planted(into: Path, slowdown: float) -> tuple[Side, Side]:
    """HEAD twice, the second slower by about ``slowdown``."""
    base, head = side("base", "HEAD", into), side("head", "HEAD", into)
    if slowdown:
        with (head.folder / "impls" / "interface.py").open("a") as file:
            file.write(PLANT.format(slowdown=slowdown))
        head = replace(head, commit="planted", subject=f"every call computes {slowdown:.0%} longer")
    return base, head


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Another process that computes all the while, on the last core; the trials keep to the others."""
    if not wanted:
        yield
        return
    *own, last = sorted(os.sched_getaffinity(0))
    other = multiprocessing.Process(target=_spin, args=(last,), daemon=True)
    other.start()
    os.sched_setaffinity(0, own)
    try:
        yield
    finally:
        os.sched_setaffinity(0, [*own, last])
        other.kill()


def _spin(core: int) -> None:
    os.sched_setaffinity(0, [core])
    while True:
        sum(range(10**6))


def main() -> None:
    """Run the trials and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slowdown", type=float, default=0.0)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--busy", action="store_true")
    given = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, busy(given.busy):
        duel = Duel(
            planted(Path(folder), given.slowdown), cells(given.trials), seconds=given.seconds, pairs=LOOKS[-1],
            margin=0.02, threads=1, device="cpu", progress=lambda said: print(said, end="\r", flush=True),
        )  # fmt: skip
        duel.run()
    found = [outcome for key, outcome in duel.outcomes.items() if not key.startswith("anchor")]
    print(f"\n{len(found)} trials in {time.monotonic() - begun:.0f} s")
    for outcome in found:
        if outcome.estimate:
            ratio = f"{outcome.estimate.ratio:.4f} ({outcome.estimate.low:.4f} to {outcome.estimate.high:.4f})"
            print(f"{outcome.verdict:8} {ratio} {outcome.estimate.launches} pairs  {outcome.name}")
        else:
            print(f"untimed  {outcome.name}: {outcome.changes or outcome.proofs}")
    counts = Counter(outcome.verdict for outcome in found if outcome.estimate)
    ratios = [outcome.estimate.ratio for outcome in found if outcome.estimate]
    print(
        ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common()), f"; median {statistics.median(ratios):.4f}"
    )


if __name__ == "__main__":
    main()
