"""Medians, quartiles and the interval of a median, for a handful of samples. Plain Python: lists are short."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import comb
from typing import NamedTuple


class Spread(NamedTuple):
    """Where samples lie; all in the samples' unit. ``low`` to ``high`` is the interval of the median."""

    median: float
    low: float
    high: float
    q25: float
    q75: float


def spread(samples: Sequence[float], rounds: Sequence[int] = ()) -> Spread:
    """Median, its interval and the quartiles of ``samples``; ``rounds`` says in which round each was taken.

    The interval is the distribution-free 95 % interval of a median (order statistics), widened until it holds the
    median of every round: samples of one round are not independent, so that the order statistics alone claim too much.
    With fewer than six samples it is their whole range.
    """
    ordered = sorted(samples)
    rank = _rank(len(ordered))
    low, high = ordered[rank], ordered[-1 - rank]
    if len(rounds) == len(samples):
        by_round: dict[int, list[float]] = {}
        for sample, number in zip(samples, rounds, strict=True):
            by_round.setdefault(number, []).append(sample)
        medians = [quantile(sorted(taken), 0.5) for taken in by_round.values()]
        low, high = min(low, *medians), max(high, *medians)
    return Spread(quantile(ordered, 0.5), low, high, quantile(ordered, 0.25), quantile(ordered, 0.75))


def quantile(ordered: Sequence[float], p: float) -> float:
    """The ``p`` quantile of sorted values, interpolated linearly."""
    at = p * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


@cache
def _rank(n: int) -> int:
    """The largest k such that the k smallest and k largest of ``n`` can be cut off and 95 % remains; 0 if none can."""
    rank, tail = 0, 0.0
    while rank < n // 2:
        tail += comb(n, rank) / 2**n
        if tail > 0.025:
            break
        rank += 1
    return max(rank - 1, 0) if n else 0
