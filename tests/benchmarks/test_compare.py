"""The paired comparison: its statistics on generated noise, and real processes with real differences between them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.compare import asv_trials, paired, replay, report
from benchmarks.compare.outcome import Outcome, Proof
from benchmarks.compare.paired import Estimate, Launch

ROOT = Path(__file__).parents[2]


def launches(n: int, slowdown: float, rng: random.Random, noise: float = 0.01) -> list[Launch]:
    """Pairs whose sides differ by ``noise`` from launch to launch; the side that starts second is 1 % faster."""
    found = []
    for i in range(n):
        second = ("base", "head")[i % 2]
        sides = []
        for side in ("base", "head"):
            level = 0.01 * (1 + rng.gauss(0, noise)) * (0.99 if side == second else 1)
            level *= 1 + slowdown if side == "head" else 1
            sides.append(tuple(level * (1 + abs(rng.gauss(0, 0.1))) for _ in range(20)))
        found.append(Launch(*sides, second))
    return found


def test_identical_code_is_hardly_ever_called_slower_and_five_percent_always() -> None:
    rng = random.Random(1)
    same = [replay.compared(launches(paired.LOOKS[-1], 0.0, rng))[0] for _ in range(300)]
    slower = [replay.compared(launches(paired.LOOKS[-1], 0.08, rng)) for _ in range(60)]
    assert same.count("slower") + same.count("faster") <= 9  # 2 % of 300, and three standard deviations of luck
    assert [said for said, _ in slower].count("slower") >= 57
    assert abs(sum(ratio for _, ratio in slower) / len(slower) - 1.08) < 0.01


def test_the_order_of_starting_is_no_difference() -> None:
    rng = random.Random(2)
    exact = launches(8, 0.0, rng, noise=1e-9)
    assert paired.estimate(exact).ratio == pytest.approx(1, abs=0.02)
    one_order = [launch for launch in exact if launch.second == "head"]
    with pytest.raises(ValueError, match="two in either order"):
        paired.estimate(one_order)


def test_false_discoveries_are_held_over_all_cells() -> None:
    """Benjamini and Hochberg: the largest n with p(n) <= q n / m takes all smaller ones with it."""
    q = paired.FALSE_DISCOVERIES
    p = {"a": 0.9 * q / 4, "b": 0.9 * 2 * q / 4, "c": 2.9 * q / 4, "d": 0.9}
    assert paired.discoveries(p) == {"a", "b", "c"}
    assert paired.discoveries({"a": 0.5 * q, "b": 1.0, "c": 1.0}) == set()


@pytest.mark.parametrize(
    ("ratio", "half", "real", "said"),
    [
        (1.05, 0.01, True, "slower"),
        (0.95, 0.01, True, "faster"),
        (1.05, 0.04, False, "unclear"),
        (1.005, 0.01, False, "same"),
        (1.005, 0.002, True, "same"),
    ],
)
def test_verdicts(ratio: float, half: float, real: bool, said: str) -> None:
    found = Estimate(8, ratio, ratio - half, ratio + half, 0.0, 0.03)
    assert paired.verdict(found, real=real, margin=0.02) == said


def test_what_needs_no_statistics_is_told_and_fails() -> None:
    proofs = {
        "base": Proof("ok", error=0.3, bytes=1000, kernels=["flash", "copy"]),
        "head": Proof("ok", error=0.6, bytes=1200, kernels=["math", "copy"]),
    }
    outcome = Outcome("cell", "cell", proofs, verdict="same")
    assert outcome.worse == ["more memory", "less accurate"]
    assert outcome.changes == [
        "memory 1,000 became 1,200 bytes", "error 0.3 became 0.6 of its budget",
        "no longer runs flash, now runs math",
    ]  # fmt: skip
    proofs["head"] = Proof("crashed", "the process ended by SIGSEGV")
    assert outcome.worse == ["ok became crashed"]


@pytest.mark.parametrize(
    ("detectable", "said"),
    [(0.042, "4.2%"), (1.0, "100.0%"), (2.13, "nothing below 3.1x"), (41.0, "nothing below 42x")],
)
def test_what_a_run_could_see_is_said_so_that_it_is_understood(detectable: float, said: str) -> None:
    assert report.could_see(detectable) == said


ASV = """\
All benchmarks:

| Change   | Before [372539ec] <main~1>   | After [1280e59b] <main>   | Ratio   | Benchmark (Parameter)       |
|----------|------------------------------|---------------------------|---------|-----------------------------|
|          | 44.6±10ms                    | 94.4±40ms                 | ~2.12   | trial.Trial.time_forward(0) |
| +        | 27.7±6ms                     | 53.7±10ms                 | 1.94    | trial.Trial.time_forward(1) |
"""  # as asv 0.6.6 writes it


def test_what_asv_makes_of_the_trials_is_read() -> None:
    found = asv_trials.verdicts(ASV)
    assert found == {0: ("", "~2.12"), 1: ("+", "1.94")}
    assert [asv_trials.said(one) for one in found.values()] == ["not reported", "slower"]


def compare(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "compare", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip


def test_unknown_revision_says_what_is_expected() -> None:
    done = compare("no-such-branch")
    assert done.returncode == 2
    assert "no revision 'no-such-branch'; expected a commit" in done.stdout


def test_two_backends_in_one_process_and_the_record(tmp_path: Path) -> None:
    """chunked takes less memory than eager, and another time: the direction is not asserted, the record is."""
    done = compare(
        ".", "--backends", "chunked", "eager", "--op", "msa_row", "--direction", "forward", "--R", "128",
        "--seconds", "3", "--pairs", "4",
        "--json", str(tmp_path / "record.json"), "--markdown", str(tmp_path / "table.md"),
        "--machine", "test-of-compare",
    )  # fmt: skip
    record = ROOT / "results" / "test-of-compare" / "comparisons" / "chunked-eager.json"
    try:
        assert done.returncode == 1, done.stdout + done.stderr
        found = json.loads((tmp_path / "record.json").read_text())
        assert json.loads(record.read_text())["outcomes"][-1]["cell"] == found["outcomes"][-1]["cell"]
    finally:
        record.unlink()
        record.parent.rmdir()
        record.parent.parent.rmdir()
    outcome = found["outcomes"][-1]
    assert "more memory" in outcome["worse"]
    assert outcome["estimate"]["launches"] == len(outcome["launches"]) >= 4
    assert {launch["second"] for launch in outcome["launches"]} == {"base", "head"}
    assert all(state["cpus"] is None or len(state["cpus"]) == 1 for state in found["states"])  # one thread, one CPU
    assert "msa_row eager forward" in (tmp_path / "table.md").read_text()
