"""Error rates of the test behind ``compare``, on recorded pairs of identical code.

``python -m benchmarks.compare.replay FILE.csv.gz ...``: columns ``launch``, ``wl`` (what was run), ``worker`` (1
started second) and ``ns``. Of every kind of call, launches are drawn at random, the sides' roles swapped evenly, a
slowdown multiplied into one of them, and the sequential comparison run on them as ``compare`` runs it.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.compare.paired import LOOKS, Launch, discoveries, estimate, verdict

MARGIN = 0.02


def recorded(path: Path) -> dict[str, list[Launch]]:
    """By kind of call, the launches of a recording."""
    seconds: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            seconds[row["wl"], row["launch"]][row["worker"]].append(int(row["ns"]) / 1e9)
    launches: dict[str, list[Launch]] = defaultdict(list)
    for (kind, _), sides in seconds.items():
        launches[kind].append(Launch(tuple(sides["0"]), tuple(sides["1"]), "head"))
    return launches


def slowed(launch: Launch, slowdown: float) -> Launch:
    """The head's seconds times 1 + ``slowdown``."""
    return replace(launch, head=tuple(x * (1 + slowdown) for x in launch.head))


def swapped(launch: Launch) -> Launch:
    """Head and base exchanged: base started second."""
    return Launch(launch.head, launch.base, "base")


def compared(launches: Sequence[Launch]) -> tuple[str, float]:
    """Verdict and ratio of the sequential comparison of one cell."""
    for n in LOOKS:
        found = estimate(launches[:n])
        said = verdict(found, real=bool(discoveries({"": found.p})), margin=MARGIN)
        if said != "unclear":
            break
    return said, found.ratio


def trial(launches: Sequence[Launch], slowdown: float, rng: random.Random) -> tuple[str, float]:
    """One comparison of launches drawn without replacement."""
    drawn = rng.sample(launches, LOOKS[-1])
    return compared([slowed(x if n % 2 else swapped(x), slowdown) for n, x in enumerate(drawn)])


def summary(launches: Sequence[Launch], slowdown: float, trials: int, rng: random.Random) -> str:
    """How often each verdict fell."""
    found = [trial(launches, slowdown, rng) for _ in range(trials)]
    counts = Counter(said for said, _ in found)
    shares = ", ".join(f"{verdict} {100 * n / trials:.1f} %" for verdict, n in counts.most_common())
    return f"{shares}; median ratio {statistics.median(ratio for _, ratio in found):.4f}"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", nargs="+", type=Path)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--slowdowns", type=float, nargs="+", default=[0.0, 0.02, 0.05])
    given = parser.parse_args()
    rng = random.Random(0)
    for path in given.recording:
        for kind, launches in recorded(path).items():
            for slowdown in given.slowdowns:
                print(f"{path.name} {kind} +{slowdown:.0%}: {summary(launches, slowdown, given.trials, rng)}")


if __name__ == "__main__":
    main()
