"""Warm-up, samples, forecasts, the machine's state and the progress line, without waiting for any of them."""

from __future__ import annotations

import gc
import json
from dataclasses import dataclass, field, replace

import pytest
from misbehaving import TINY, cell

from benchmarks.instrument import clock, machine
from benchmarks.instrument.findings import Finding
from benchmarks.instrument.forecast import FIRST_GUESS, Forecast
from benchmarks.instrument.machine import State
from benchmarks.instrument.progress import Progress


@dataclass
class Scripted:
    """A clock that reads its times off a list."""

    times: list[float]
    asked: list[int] = field(default_factory=list)

    def sample(self, call, n):
        self.asked.append(n)
        return clock.Samples([self.times.pop(0) if len(self.times) > 1 else self.times[0] for _ in range(n)])


def test_warm_up_ends_when_two_blocks_agree():
    scripted = Scripted([10.0, 5.0, 3.0, 2.0, 1.95, 77.0])
    assert clock.warm_up(scripted, lambda: None, most=60.0) == 1.95
    assert scripted.asked == [1, 1, 1, 1, 1]


@pytest.mark.parametrize(("known", "times", "blocks"), [(1.9, [2.0, 2.0, 2.0, 77.0], 1), (2.0, [5.0] * 6 + [77.0], 2)])
def test_what_another_process_took_stands_for_a_block(known, times, blocks):
    """Of three calls, an eighth of the time for warming up."""
    scripted = Scripted(list(times))
    assert clock.warm_up(scripted, lambda: None, most=50.0, last=known) == times[0]
    assert scripted.asked == [3] * blocks


def test_warm_up_takes_quick_calls_in_blocks():
    scripted = Scripted([1e-3])
    clock.warm_up(scripted, lambda: None, most=1.0)
    assert scripted.asked == [1, 10]


def test_warm_up_ends_when_its_time_is_up():
    scripted = Scripted([float(2**n) for n in range(64)])
    clock.warm_up(scripted, lambda: None, most=0.0)
    assert scripted.asked == [1]


def test_samples_are_taken_without_garbage_collection():
    seen = []
    samples = clock.timed(clock.HostClock(), lambda: seen.append(gc.isenabled()), 5)
    assert seen == [False] * 5
    assert gc.isenabled()
    assert len(samples.seconds) == 5
    assert samples.host is None
    assert min(samples.seconds) > 0


@pytest.mark.parametrize(
    ("busy", "stolen", "ours", "said"),
    [(500, 0, 480, []), (500, 0, 200, ["other processes took 30%"]), (900, 100, 900, ["the hypervisor took 10%"])],
)
def test_disturbances(busy, stolen, ours, said):
    before = State(0, 0, 0, 0, {"load1": 0.1})
    after = State(busy, stolen, 1000, ours, {"load1": 0.2})
    state, disturbances = machine.between((before, after))
    assert [text[: len(start)] for text, start in zip(disturbances, said, strict=True)] == said
    assert state["before"] == {"load1": 0.1}
    assert state["after"]["steal"] == stolen / 1000


def test_blocks_are_judged_together_without_what_lies_between_them():
    quiet, busy = ((State(0, 0, 0, 0, {}), State(100, 0, 100, ours, {})) for ours in (100, 60))
    assert machine.between(quiet)[1] == []
    state, (said,) = machine.between(quiet, busy)
    assert (state["after"]["others"], said) == (0.2, "other processes took 20% of the CPUs' time")


def test_a_tick_or_two_disturb_nobody():
    """In a block of a few hundredths of a second, what one reading is off would be a third of it."""
    before = State(0, 0, 0, 0, {})
    assert machine.between((before, State(6, 0, 6, 4, {})))[1] == []
    assert machine.between((before, State(6, 0, 6, 3, {})))[1] == ["other processes took 50% of the CPUs' time"]


def test_an_unreadable_machine_disturbs_nobody():
    nothing = State(None, None, None, 0, {})
    assert machine.between((nothing, nothing))[1] == []


def test_the_machine_can_be_read_here():
    state = machine.state([], "cpu")
    assert state.ours > 0
    assert machine.free_memory() > 0
    assert machine.cores() >= 1
    assert machine.processor()


def test_progress_counts_cells_and_weighs_time_by_work(tmp_path, monkeypatch):
    file = tmp_path / "progress.json"
    monkeypatch.setenv("AXIALBENCH_PROGRESS", str(file))
    now = 100.0
    monkeypatch.setattr("benchmarks.instrument.progress.time.monotonic", lambda: now)
    progress = Progress("msa_row", {"small": 1.0, "big": 2.0, "bigger": 1.0}, most=60.0)
    assert json.loads(file.read_text())["left"] is None
    now = 110.0
    progress.step("small")
    state = json.loads(file.read_text())
    assert state == {"module": "msa_row", "done": 1, "cells": 3, "left": pytest.approx(30.0), "doing": "small"}
    now = 155.0
    progress.step("big")
    assert json.loads(file.read_text())["left"] == pytest.approx(5.0)


def test_the_forecast_learns_from_the_biggest_problem_so_far():
    forecast = Forecast({"float32": 1e9})
    small, big = (Finding([cell("eager", problem=replace(TINY, S=S))]) for S in (3, 30))
    assert forecast.seconds(big) == pytest.approx(big.flops / (FIRST_GUESS * 1e9))
    small.samples = [0.3, 0.2]
    forecast.learn(small)
    assert forecast.seconds(big) == pytest.approx(2.0)
    assert forecast.seconds(Finding([cell("sdpa")])) == pytest.approx(small.flops / (FIRST_GUESS * 1e9))
    small.samples = [1e-6]
    forecast.learn(small)
    assert forecast.seconds(big) == pytest.approx(2.0)
