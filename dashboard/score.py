"""How good is the detector? ``python -m dashboard.score``, on histories whose changes are known.

Without arguments: on generated ones, with white, drifting, two-mode and spiky noise and planted steps. With ``--data
FILE``: on ``{"name": {"values": [...], "annotations": {"who": [index, ...]}, "consensus": [index, ...]}}``, JSON,
perhaps gzipped, such as the series of SAP HANA that five people marked. An alarm within 5 points of a mark is right.
``--replay`` instead appends point after point to every series that nobody marked, and counts what is ever confirmed.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dashboard.detect import SHORTEST, changes

WITHIN = 5
REPLAYED = 500
"""A replay sees the last so many points: enough for every test, and a hundred times faster."""
NOISES = ("white", "drifting", "two-mode", "spiky")


@dataclass(frozen=True)
class Series:
    """A history, the changes that most agree on, and all that anybody marked."""

    values: Sequence[float]
    consensus: Sequence[int]
    marks: Sequence[int] = ()


@dataclass
class Score:
    """Alarms that are right, wrong, missing, and that nobody at all marked."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    unmarked: int = 0
    points: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, series: Series, alarms: Iterable[int]) -> None:
        """Count one series in."""
        left = set(series.consensus)
        for alarm in alarms:
            near = [mark for mark in left if abs(mark - alarm) <= WITHIN]
            if near:
                left.discard(min(near, key=lambda mark: abs(mark - alarm)))
                self.right += 1
            else:
                self.wrong += 1
                self.unmarked += not any(abs(mark - alarm) <= WITHIN for mark in (*series.marks, *series.consensus))
        self.missed += len(left)
        self.points += len(series.values)

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.right + self.missed)

    @property
    def f1(self) -> float:
        return 2 * self.right / max(1, 2 * self.right + self.wrong + self.missed)

    @property
    def false_alarms(self) -> float:
        """Alarms that nobody marked, per 1000 points."""
        return 1000 * self.unmarked / max(1, self.points)

    def __str__(self) -> str:
        return (
            f"precision {self.precision:.2f}, recall {self.recall:.2f}, F1 {self.f1:.2f}; "
            f"{self.false_alarms:.2f} alarms that nobody marked per 1000 points ({self.points} points)"
        )


def confirmed(values: Sequence[float]) -> list[int]:
    """The confirmed changes."""
    return [change.index for change in changes(values) if change.tier == "confirmed"]


def score(histories: Iterable[Series]) -> Score:
    """Of the confirmed changes."""
    total = Score()
    for series in histories:
        total.add(series, confirmed(series.values))
    return total


def replayed(values: Sequence[float], first: int = 30) -> list[int]:
    """What is ever confirmed while a history grows point by point; the same change counts once."""
    alarms: list[int] = []
    for n in range(first, len(values) + 1):
        start = max(0, n - REPLAYED)
        for index in confirmed(values[start:n]):
            if index > SHORTEST + 1 and not any(abs(start + index - alarm) <= WITHIN for alarm in alarms):
                alarms.append(start + index)
    return alarms


def read(path: Path) -> list[Series]:
    """The marked histories in a file."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [
        Series(x["values"], x["consensus"], [mark for marks in x["annotations"].values() for mark in marks])
        for x in json.loads(text).values()
    ]


def generated(noise: str, seed: int, points: int = 400, steps: Sequence[float] = (0.03, -0.04, 0.06)) -> Series:
    """A history with a step up or down every hundred points, in noise of 1 % of a kind."""
    rng = np.random.default_rng(seed)
    level = np.zeros(points)
    places = [int(points * (n + 1) / (len(steps) + 1)) + int(rng.integers(-20, 20)) for n in range(len(steps))]
    for place, step in zip(places, steps, strict=True):
        level[place:] += step
    white = rng.normal(0, 0.01, points)
    if noise == "drifting":
        white += np.cumsum(rng.normal(0, 0.0007, points))
    if noise == "two-mode":
        white += np.where(rng.random(points) < 0.3, 0.02, 0)
    if noise == "spiky":
        white += np.where(rng.random(points) < 0.03, rng.exponential(0.5, points), 0)
    return Series([float(x) for x in np.exp(level + white)], places)


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="marked histories")
    parser.add_argument("--replay", action="store_true", help="grow the histories of --data that nobody marked")
    given = parser.parse_args()
    if given.replay and given.data:
        unmarked = [series for series in read(given.data) if not series.marks]
        alarms, points = 0, 0
        for series in unmarked:
            alarms, points = alarms + len(replayed(series.values)), points + len(series.values)
            print(f"{alarms} confirmed in {points} commits", end="\r", flush=True)
        print(
            f"{alarms} confirmed in {points} commits of {len(unmarked)} series: {1000 * alarms / points:.2f} per 1000"
        )
    elif given.data:
        print(score(read(given.data)))
    else:
        for noise in NOISES:
            steady = score(generated(noise, seed, steps=()) for seed in range(20))
            print(f"{noise}: {score(generated(noise, seed) for seed in range(20))}; without steps: {steady}")


if __name__ == "__main__":
    main()
