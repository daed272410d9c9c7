"""Medians, quartiles and the interval of a median, for a handful of samples: one handful, or a million of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


class Spread(NamedTuple):
    """Where samples lie; all in the samples' unit. ``low`` to ``high`` is the interval of the median."""

    median: Any
    low: Any
    high: Any
    q25: Any
    q75: Any


def spread(samples: npt.ArrayLike, rounds: Sequence[int] = ()) -> Spread:
    """Median, its interval and the quartiles of ``samples (*, n)``; ``rounds`` says in which round each was taken.

    The interval is the distribution-free 95 % interval of a median (order statistics), widened until it holds the
    median of every round: samples of one round are not independent, so that the order statistics alone claim too much.
    With fewer than six samples it is their whole range.
    """
    values = np.asarray(samples, dtype=float)
    ordered = np.sort(values, axis=-1)
    n = ordered.shape[-1]
    low, high = ordered[..., _rank(n)], ordered[..., n - 1 - _rank(n)]
    if len(rounds) == n:
        for number in dict.fromkeys(rounds):
            of_round = np.flatnonzero(np.asarray(rounds) == number)
            median = quantile(np.sort(values[..., of_round], axis=-1), 0.5)
            low, high = np.minimum(low, median), np.maximum(high, median)
    return Spread(quantile(ordered, 0.5), low, high, quantile(ordered, 0.25), quantile(ordered, 0.75))


def quantile(ordered: Numbers, p: float) -> Any:
    """The ``p`` quantile of sorted values along the last axis, interpolated linearly."""
    n = ordered.shape[-1]
    at = p * (n - 1)
    below = int(at)
    above = min(below + 1, n - 1)
    return ordered[..., below] + (ordered[..., above] - ordered[..., below]) * (at - below)


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
