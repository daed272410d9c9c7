"""Exponents: planted ones are found again, with intervals that hold them as often as they say."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dashboard import demo, history, scaling

SIZES = (64, 128, 256, 384, 512, 768)


def test_a_power_law_has_its_exponent_and_nothing_beside_it() -> None:
    found = scaling.fit(SIZES, [3e-9 * n**1.5 for n in SIZES])
    assert found.slope == pytest.approx(1.5)
    assert found.high - found.low == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("points", "noise"), [(3, 0.05), (6, 0.05), (6, 0.3)])
def test_intervals_hold_the_exponent_as_often_as_they_say(points: int, noise: float) -> None:
    """Of 1,000 with scattered points, 95 %: between 92 and 98 is what chance allows."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(1000):
        sizes = SIZES[:points]
        found = scaling.fit(sizes, [n**2 * math.exp(rng.normal(0, noise)) for n in sizes])
        held += found.low <= 2 <= found.high
    assert 920 <= held <= 980


def test_with_two_sizes_the_samples_own_intervals_count() -> None:
    found = scaling.fit([10, 1000], [1.0, 100.0], [0.1, 0.1])
    assert found.slope == pytest.approx(1.0)
    assert found.high - found.slope == pytest.approx(0.1 * math.sqrt(2) / math.log(100))


def test_points_off_a_line_widen_the_interval() -> None:
    bent = [1e-4 + 1e-9 * n**2 for n in SIZES]
    assert scaling.fit(SIZES, bent, [0.001] * 6).high - scaling.fit(SIZES, bent, [0.001] * 6).low > 0.3


@pytest.mark.parametrize("sizes", [[64], [64, 64], []])
def test_one_size_has_no_exponent(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="two sizes or more"):
        scaling.fit(sizes, [1.0] * len(sizes))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The exponents of a generated history of one commit."""
    folder = tmp_path_factory.mktemp("results")
    demo.write(folder, demo.COMMITS[:1], noise=0.01)
    return scaling.exponents(history.frame(folder))


START = 0.02
"""What the generated start-up, a hundredth of the shortest call, can take off an exponent."""
PLANTED = [
    ("msa_row", "S", 1, 1),
    ("msa_row", "R", 2, 1),
    ("msa_row", "N_head", 1, 1),
    ("msa_column", "S", 2, 2),
    ("msa_global_column", "S", 1, 1),
    ("triangle_ending", "R", 3, 2),
]
"""Operation, axis, and how the generated scores and outputs grow with it."""


@pytest.mark.parametrize(("operation", "axis", "scores", "outputs"), PLANTED)
def test_planted_exponents_are_found(found: pd.DataFrame, operation: str, axis: str, scores: int, outputs: int) -> None:
    """Generated times grow with the scores, sdpa's generated memory with its outputs."""
    own = found[(found["operation"] == operation) & (found["axis"] == axis) & (found["dtype"] == "float32")]
    times = own[(own["backend"] == "eager") & (own["quantity"] == "seconds")]
    assert set(times["direction"]) == {"forward", "training"}
    assert times["exponent"].between(scores - 0.05, scores + 0.05).all()
    assert ((times["low"] - START < scores) & (scores < times["high"] + START)).all()
    assert np.allclose(times["work"], scores)
    of_bytes = own[(own["backend"] == "sdpa") & (own["quantity"] == "bytes")]
    assert np.allclose(of_bytes["exponent"], outputs, atol=1e-3)


def test_theory_is_that_of_cost_at_the_same_sizes(found: pd.DataFrame) -> None:
    of_bytes = found[(found["quantity"] == "bytes") & (found["axis"] == "R") & (found["operation"] == "msa_row")]
    forward = of_bytes[of_bytes["direction"] == "forward"]
    assert np.allclose(forward["least"], 1)  # the output alone
    training = of_bytes[of_bytes["direction"] == "training"]
    assert training["least"].between(1, 2, inclusive="neither").all()  # and the bias's gradient, which grows with R^2


def test_commit_by_commit_the_exponents_are_those_of_each_commit(tmp_path: Path) -> None:
    demo.write(tmp_path, demo.COMMITS, modules=["msa_row", "triangle"], dtypes=["float32"])
    cells = history.frame(tmp_path)
    found, number = scaling.exponents(cells), 0
    for what, of_commits in scaling.over_commits(cells):
        same = found
        for name in ("operation", "series", "backend", "direction", "axis", "quantity"):
            same = same[same[name] == what[name]]
        assert list(of_commits["commit"]) == list(same["commit"])
        assert all(sizes == what["sizes"] for sizes in same["sizes"])
        for name in ("exponent", "low", "high"):
            assert np.allclose(of_commits[name], same[name])
        number += len(same)
    assert number == len(found) > 100


def test_other_sizes_are_another_series(tmp_path: Path) -> None:
    demo.write(tmp_path, demo.COMMITS[:3], modules=["msa_column"], dtypes=["float32"])
    cells = history.frame(tmp_path)
    first, *_ = dict.fromkeys(cells["commit"])
    cells = cells[(cells["commit"] != first) | (cells["S"] != 1024)]
    of_eager = [
        (what["sizes"], len(found)) for what, found in scaling.over_commits(cells)
        if (what["backend"], what["axis"], what["quantity"], what["direction"]) == ("eager", "S", "bytes", "forward")
    ]  # fmt: skip
    assert sorted(of_eager) == [([128, 512], 1), ([128, 512, 1024], 2)]


def test_stacks_and_single_sizes_have_none(found: pd.DataFrame) -> None:
    assert "evoformer" not in set(found["operation"])
    assert found["sizes"].map(len).min() >= 2


def test_the_table_names_every_series(found: pd.DataFrame) -> None:
    lines = scaling.as_text(found).splitlines()
    assert len(lines) == len(found) + 1
    assert any("msa_row" in line and "chunked" in line and "64,128,256,512" in line for line in lines)


def test_a_record_without_numbers_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.write(tmp_path, demo.COMMITS[:1], modules=["depth"])
    assert scaling.main(["--results", str(tmp_path)]) == 1
    assert "--effort full" in capsys.readouterr().out
