"""The test behind a verdict: launches in pairs, looked at several times, over many cells.

Samples of one process resemble each other, so a launch is one observation: the difference of the two sides' 25th
percentiles of log time. The side that starts second is about 1 % faster, so the sides take turns at it, and the effect
of the order is estimated along with the difference. Looking at 4, 6, ..., 16 launches divides the error among the
looks (Bonferroni); over cells the false discovery rate is held (Benjamini & Hochberg 1995).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LOOKS = (4, 6, 8, 10, 12, 16)
"""Numbers of launches after which the comparison may stop: even, so that both sides started second equally often."""
QUANTILE = 0.25
FALSE_DISCOVERIES = 0.02
"""Share of differences, in either direction, that may be none."""
POWER = 0.9


@dataclass(frozen=True)
class Launch:
    """Seconds a call of both sides in one pair of processes, and which of them started second."""

    base: tuple[float, ...]
    head: tuple[float, ...]
    second: str

    @property
    def difference(self) -> float:
        """log(head / base)."""
        return low_quantile(self.head) - low_quantile(self.base)


@dataclass(frozen=True)
class Estimate:
    """head / base: the ``ratio``, the interval that all looks together miss in FALSE_DISCOVERIES of cases, ``p``.

    ``p`` counts the looks in. ``detectable`` is the smallest slowdown (0.05: 5 %) that as many launches with as much
    noise find in POWER of cases.
    """

    launches: int
    ratio: float
    low: float
    high: float
    p: float
    detectable: float


def low_quantile(seconds: Sequence[float]) -> float:
    """The 25th percentile of log seconds: below it the caches decide, above it the neighbours."""
    logs = [math.log(x) for x in seconds]
    return statistics.quantiles(logs, n=4, method="inclusive")[0] if len(logs) > 1 else logs[0]


def estimate(launches: Sequence[Launch]) -> Estimate:
    """Two-sided Student's t on the differences, the two orders apart.

    Raises ValueError with fewer than two launches in either order.
    """
    from scipy.stats import t as student

    by_order = [[x.difference for x in launches if x.second == side] for side in ("base", "head")]
    if min(map(len, by_order)) < 2:
        raise ValueError(f"{len(launches)} launches: an estimate takes two in either order")
    freedom = len(launches) - 2
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in by_order)
    error = math.sqrt(squares / freedom * sum(1 / len(group) for group in by_order)) / 2
    error = max(error, 1e-12)
    mean = statistics.mean(map(statistics.mean, by_order))
    wide = float(student.ppf(1 - FALSE_DISCOVERIES / 2 / len(LOOKS), freedom))
    p = float(2 * student.sf(abs(mean) / error, freedom)) * len(LOOKS)
    return Estimate(
        len(launches), math.exp(mean), math.exp(mean - wide * error), math.exp(mean + wide * error), min(1.0, p),
        math.expm1((wide + float(student.ppf(POWER, freedom))) * error),
    )  # fmt: skip


def discoveries(p: Mapping[str, float]) -> set[str]:
    """The keys whose differences are real, at a false discovery rate of FALSE_DISCOVERIES."""
    ordered = sorted(p, key=p.__getitem__)
    passed = [n for n, key in enumerate(ordered, 1) if p[key] <= FALSE_DISCOVERIES * n / len(p)]
    return set(ordered[: max(passed, default=0)])


def verdict(found: Estimate, *, real: bool, margin: float) -> str:
    """``faster`` or ``slower`` if the difference is real; ``same`` if it is within ``margin`` (0.02); or ``unclear``.

    A real difference below ``margin`` that the interval bounds there counts as ``same``.
    """
    inside = 1 / (1 + margin) < found.low and found.high < 1 + margin
    if inside:
        return "same"
    if not real:
        return "unclear"
    return "slower" if found.ratio > 1 else "faster"
