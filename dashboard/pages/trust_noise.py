"""The smallest change of a cell's time that can be told from noise: by its own rounds, and by its history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.stats import t as student

from dashboard.detect import LATEST_Z, NEIGHBOURHOOD, SMALLEST, robust_deviation
from dashboard.statistics import quantile

QUANTILE, FALSE_ALARMS, POWER = 0.25, 0.02, 0.9
"""As of a comparison in pairs (benchmarks/compare/paired.py): what a round comes to; both kinds of error."""
COMMITS = NEIGHBOURHOOD // 2 + 1
"""So many commits a history has at least before its last can be a suspect (dashboard/detect.py)."""


def by_rounds(samples: Sequence[float], round_of: Sequence[int]) -> float:
    """The change (0.05: 5 %) that two sweeps like this one show in POWER of cases; NaN with fewer than two rounds.

    Samples of one round resemble each other, so a round is one observation, the lower quartile of its log seconds. Of n
    rounds with the standard deviation s, two sweeps differ by e = s sqrt(2 / n) for no reason; a change is found, at
    FALSE_ALARMS, if it is (t(1 - FALSE_ALARMS / 2) + t(POWER)) e, with Student's t of 2 (n - 1) degrees of freedom.
    What differs from process to process and from day to day comes on top.
    """
    rounds = sorted(set(round_of))
    if len(rounds) < 2 or len(round_of) != len(samples) or min(samples) <= 0:
        return math.nan
    logs, of = np.log(samples), np.asarray(round_of)
    levels = [quantile(np.sort(logs[of == number]), QUANTILE) for number in rounds]
    return math.expm1(_errors(len(rounds)) * float(np.std(levels, ddof=1)) * math.sqrt(2 / len(rounds)))


@cache
def _errors(rounds: int) -> float:
    """How many standard errors a difference has that is found."""
    freedom = 2 * (rounds - 1)
    return float(student.ppf(1 - FALSE_ALARMS / 2, freedom) + student.ppf(POWER, freedom))


def by_history(seconds: Sequence[float]) -> float:
    """How far from those before it a next commit must lie to be suspect at once; NaN with fewer than COMMITS commits.

    LATEST_Z standard deviations of one commit, and SMALLEST at least, as ``detect.latest`` has it.
    """
    logs = np.log(seconds)[-NEIGHBOURHOOD:]
    if len(logs) < COMMITS:
        return math.nan
    deviation = max(robust_deviation(logs), robust_deviation(np.diff(logs)) / math.sqrt(2))
    return math.expm1(max(LATEST_Z * deviation, SMALLEST))
