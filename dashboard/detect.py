"""Change points of one series: where its level moved for good, against noise that drifts, jumps and spikes.

Two detectors, on log values drawn in towards a running median, and a change that both find is ``confirmed``:

* segmentation: far too many change points by optimal partitioning (PELT, Killick et al. 2012), pruned from below while
  the weakest fails its test, Student's t between its two neighbourhoods, widened for the correlation of neighbours.
  Neighbourhoods, and not whole segments: where a level drifts, long segments make any step significant;
* kernel change points (Arlot et al. 2019), which see changes in distribution and know no drift.

The segmentation alone, with a lower bar, and a last few points far from those before, make a ``suspect``: to measure
again. ``dashboard/score.py`` holds both against marked histories; docs/measuring.md has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import ruptures

SHORTEST = 4
"""Points a level has at least."""
NEIGHBOURHOOD = 20
"""Points on either side of a change that are tested."""
CONFIRMED_T, SUSPECT_T = 6.5, 5.0
SMALLEST = 0.01
"""Changes of less than 1 % are not told."""
PENALTY_SEGMENTS, PENALTY_KERNEL = 3.0, 1.0
"""What a change point costs, in log(number of points): in variances, and in kernel similarity."""
APART = 3
"""Points by which the detectors may differ about one change."""
KERNEL_REACH = 2000
"""The kernel's memory grows with the square of the points it sees: it sees the last so many."""
RUNNING, SPIKE = 7, 3.0
"""Points of the running median, and how many standard deviations from it a value may lie."""
LATEST_Z = 6.0

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A change of level: ``index`` is the new level's first point; ``tier`` is "confirmed" or "suspect".

    ``ratio`` is the new level over the old one, both medians of the neighbourhood.
    """

    index: int
    ratio: float
    tier: str


def changes(values: Sequence[float]) -> list[Change]:
    """The changes of a series in order of time. Values must be positive; NaN and infinities are passed over."""
    array = np.asarray(values, dtype=float)
    kept = np.flatnonzero(np.isfinite(array) & (array > 0))
    logs = np.log(array[kept])
    suspects = segments(logs, SUSPECT_T)
    certain = segments(logs, CONFIRMED_T) if suspects else []
    by_kernel = kernel_changes(logs) if certain else []
    found = dict.fromkeys(suspects, "suspect")
    for i in certain:
        if any(abs(i - j) <= APART for j in by_kernel):
            found = {j: tier for j, tier in found.items() if abs(i - j) > APART} | {i: "confirmed"}
    newest = latest(logs)
    if newest is not None and not any(abs(newest - j) <= APART for j in found):
        found[newest] = "suspect"
    return [Change(int(kept[i]), ratio(logs, i), found[i]) for i in sorted(found)]


def ratio(logs: Values, i: int) -> float:
    """The level from point ``i`` on over the level before it."""
    before, after = logs[max(0, i - NEIGHBOURHOOD) : i], logs[i : i + NEIGHBOURHOOD]
    return float(np.exp(np.median(after) - np.median(before)))


def calmed(logs: Values) -> Values:
    """Spikes drawn in to SPIKE standard deviations from a running median."""
    if len(logs) <= RUNNING:
        return logs
    padded = np.pad(logs, RUNNING // 2, mode="reflect")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, RUNNING), axis=1)
    limit = SPIKE * robust_deviation(logs - middle)
    return np.asarray(middle + np.clip(logs - middle, -limit, limit))


def robust_deviation(x: Values) -> float:
    """The standard deviation, from the median distance to the median."""
    return max(1.4826 * float(np.median(np.abs(x - np.median(x)))), 1e-9)


def segments(logs: Values, threshold: float) -> list[int]:
    """Change points that pass the t-test at ``threshold``, weakest pruned first."""
    if len(logs) < 2 * SHORTEST + 1:
        return []
    calm = calmed(logs)
    deviation = robust_deviation(np.diff(calm)) / np.sqrt(2)
    cuts = partition("linear", (calm - calm.mean()) / deviation, PENALTY_SEGMENTS)
    strengths = [strength(calm, *ends) for ends in triples(cuts, len(calm))]
    while cuts and min(strengths) < threshold:
        weakest = int(np.argmin(strengths))
        del cuts[weakest], strengths[weakest]
        ends = triples(cuts, len(calm))
        for i in range(max(0, weakest - 1), min(len(cuts), weakest + 1)):
            strengths[i] = strength(calm, *ends[i])
    return cuts


def partition(kernel: str, series: Values, penalty: float) -> list[int]:
    """Optimal partitioning: the first points of all segments but the first."""
    found = ruptures.KernelCPD(kernel=kernel, min_size=SHORTEST).fit(series[:, None])
    return [int(i) for i in found.predict(pen=penalty * np.log(len(series)))][:-1]


def triples(cuts: list[int], length: int) -> list[tuple[int, int, int]]:
    """For every cut: where the segment before it begins, the cut, and where the segment after it ends."""
    ends = [0, *cuts, length]
    return list(zip(ends, cuts, ends[2:], strict=False))


def strength(calm: Values, begin: int, cut: int, end: int) -> float:
    """Student's t between the neighbourhoods of a cut, widened for autocorrelation; 0 for changes below SMALLEST."""
    before, after = calm[max(begin, cut - NEIGHBOURHOOD) : cut], calm[cut : min(end, cut + NEIGHBOURHOOD)]
    difference = abs(after.mean() - before.mean())
    if difference < SMALLEST:
        return 0.0
    rest = np.concatenate([before - before.mean(), after - after.mean()])
    deviation = max(np.sqrt((rest**2).sum() / max(len(rest) - 2, 1)), 1e-4)
    wider = np.sqrt((1 + correlation(rest)) / (1 - correlation(rest)))
    return float(difference / (deviation * wider * np.sqrt(1 / len(before) + 1 / len(after))))


def correlation(x: Values) -> float:
    """Of neighbours, between 0 and 0.9."""
    centred = x - x.mean()
    square = float((centred**2).sum())
    return float(np.clip((centred[1:] * centred[:-1]).sum() / square, 0, 0.9)) if square > 0 and len(x) >= 8 else 0.0


def kernel_changes(logs: Values) -> list[int]:
    """Changes of distribution, with a Gaussian kernel as wide as the median distance."""
    seen = calmed(logs)[-KERNEL_REACH:]
    if len(seen) < 2 * SHORTEST + 1 or np.ptp(seen) == 0:
        return []
    return [i + len(logs) - len(seen) for i in partition("rbf", seen, PENALTY_KERNEL)]


def latest(logs: Values) -> int | None:
    """The first of the last points, too few for a level, that all lie far off on the same side of those before."""
    for n in range(SHORTEST - 1, 0, -1):
        before, last = logs[-n - NEIGHBOURHOOD : -n], logs[-n:]
        if len(before) < NEIGHBOURHOOD // 2:
            continue
        distance = last - np.median(before)
        far = max(LATEST_Z * max(robust_deviation(before), robust_deviation(np.diff(before)) / np.sqrt(2)), SMALLEST)
        if np.all(distance > far) or np.all(distance < -far):
            return len(logs) - n
    return None
