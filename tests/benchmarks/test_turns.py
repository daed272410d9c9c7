"""Rounds that other work disturbed are taken again, a few times; and the CPUs that a measurement keeps to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from misbehaving import ALONE, TINY, cell

from benchmarks.instrument import affinity, journal, turns
from benchmarks.instrument.cells import Selection
from benchmarks.instrument.machine import State


def played(disturbed: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the machine's states say that other processes were at work in these rounds, counted as they are taken."""
    taken, ticks = iter(range(1000)), [0, 0]

    def state(pids: list[int], device: str) -> State:
        now = next(taken)
        if now % 2:  # after a round
            ticks[0] += 100
            ticks[1] += 50 if now // 2 in disturbed else 100
        return State(ticks[0], 0, ticks[0], ticks[1], {})

    monkeypatch.setattr(turns.machine, "state", state)


def measured(sweep_over, folder, effort, problem=TINY):
    sweep = sweep_over(folder, replace(effort, patience=60.0))
    sweep.measure([cell("eager", problem=problem), cell("sdpa", problem=problem)], Selection())
    began, eager, sdpa, done = journal.read(sweep.origin.journal)
    assert [eager["status"], sdpa["status"]] == ["ok", "ok"], [eager["reason"], sdpa["reason"]]
    return began, eager, sdpa, done


def test_a_disturbed_round_is_taken_again_and_leaves_no_mark(sweep_over, tmp_path, monkeypatch):
    played({1, 4}, monkeypatch)
    _, eager, sdpa, done = measured(sweep_over, tmp_path, replace(ALONE, rounds=4, retries=3))
    assert done["discarded_rounds"] == 2
    for record in (eager, sdpa):
        assert not record["disturbed"]
        seconds = record["seconds"]
        assert sorted(set(seconds["rounds"])) == [0, 1, 2, 3]
        assert len(seconds["rounds"]) == len(seconds["samples"])
        assert [(of["round"], of["process"]) for of in seconds["discarded"]] == [(1, 0), (3, 0)]
        for of in seconds["discarded"]:
            assert of["disturbances"] == ["other processes took 50% of the CPUs' time"]
            assert len(of["samples"]) >= 1
    counted = sum(sum(record["seconds"]["samples"]) for record in (eager, sdpa))
    assert done["timed_seconds"] == pytest.approx(counted, abs=0.006)  # rounded to 0.01


def test_what_is_disturbed_again_counts_with_its_mark_and_ends_the_retries(sweep_over, tmp_path, monkeypatch):
    played(set(range(100)), monkeypatch)
    before = affinity.allowed()
    began, eager, _, done = measured(sweep_over, tmp_path, replace(ALONE, rounds=4, retries=2))
    assert done["discarded_rounds"] == 1
    assert [of["round"] for of in eager["seconds"]["discarded"]] == [0]
    assert eager["disturbed"]
    assert eager["disturbances"] == ["other processes took 50% of the CPUs' time, in 4 of 4 rounds"]
    assert sorted(set(eager["seconds"]["rounds"])) == [0, 1, 2, 3]
    if before is not None:  # one thread, on one CPU; and this process is set free again
        assert len(began["cpus"]) == began["threads"] == 1
        assert set(began["cpus"]) <= set(before) == set(affinity.allowed())


@pytest.fixture
def burner() -> Iterator[None]:
    """A process that keeps every CPU of this one busy."""
    loop = "while True: pass"
    others = [subprocess.Popen([sys.executable, "-c", loop]) for _ in affinity.allowed() or [0]]
    yield
    for other in others:
        other.kill()
        other.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the machine's state is not known")
def test_a_busy_neighbour_is_noticed(sweep_over, tmp_path, burner):
    """One that really computes, beside rounds of half a second of calls longer than the scheduler's turns."""
    effort = replace(ALONE, rounds=2, seconds=1.0, samples=1000, retries=1)
    _, eager, _, done = measured(sweep_over, tmp_path, effort, replace(TINY, S=16, R=128))
    assert done["discarded_rounds"] == 1
    assert eager["disturbed"]
    assert "other processes took" in eager["disturbances"][0]
    assert len(eager["seconds"]["discarded"]) == 1


def test_the_least_busy_cpus_come_first(monkeypatch):
    readings = iter([{0: 100, 1: 100, 2: 100}, {0: 105, 1: 120, 2: 119}])
    monkeypatch.setattr(affinity, "idle_ticks", lambda: next(readings))
    assert affinity.least_busy([0, 1, 2], watch=0) == [1, 2, 0]
