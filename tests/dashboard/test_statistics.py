"""Medians and their intervals."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dashboard.statistics import spread


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20, 101])
def test_median_and_quartiles_are_numpys(n: int) -> None:
    samples = [random.Random(n).gauss(5, 1) for _ in range(n)]
    found = spread(samples)
    assert [found.q25, found.median, found.q75] == pytest.approx(np.quantile(samples, [0.25, 0.5, 0.75]))


def test_few_samples_give_their_whole_range() -> None:
    assert spread([3.0, 1.0, 2.0, 5.0, 4.0])[1:3] == (1.0, 5.0)


def test_order_statistics_of_the_published_table() -> None:
    """For n = 20 the 95 % interval of a median runs from the 6th smallest to the 6th largest."""
    assert spread([float(i) for i in range(1, 21)])[1:3] == (6.0, 15.0)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    rng = random.Random(1)
    held = 0
    for _ in range(2000):
        found = spread([rng.expovariate(1.0) for _ in range(15)])
        held += found.low <= np.log(2) <= found.high
    assert held / 2000 >= 0.945


def test_rounds_that_disagree_widen_the_interval() -> None:
    samples = [1.0, 1.01, 1.02, 1.0, 1.01, 1.02, 1.0, 1.01, 1.02, 1.0, 1.01, 1.02, 2.0, 2.01, 2.02]
    rounds = [i // 3 for i in range(15)]
    assert spread(samples).high < 2.0
    assert spread(samples, rounds).high == 2.01
    assert spread(samples, rounds).low <= 1.01


def test_many_at_once_are_each_described_as_alone() -> None:
    rng = random.Random(4)
    many = [[rng.expovariate(1.0) for _ in range(20)] for _ in range(50)]
    rounds = [i // 5 for i in range(20)]
    together = spread(many, rounds)
    for i, samples in enumerate(many):
        assert tuple(column[i] for column in together) == tuple(spread(samples, rounds))
