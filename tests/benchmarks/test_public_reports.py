"""Faults of measuring that others reported, each with its kind. ``docs/public-reports.md`` lists them all.

A GPU that runs by its own clock is played where there is none.
"""

from __future__ import annotations

import gc
import statistics
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from misbehaving import ALONE, TINY, cell

import impls
from benchmarks.instrument import clock, journal, worker
from benchmarks.instrument.cells import Selection
from benchmarks.instrument.clock import CudaClock, HostClock
from benchmarks.instrument.worker import Worker
from dashboard.statistics import spread

NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
CUDA = pytest.param("cuda", marks=NEEDS_CUDA)
FLUSH, COLD, WARM = 50e-6, 10e-6, 5e-6


@dataclass
class Gpu:
    """A device that works through a queue by its own clock, and calls that are faster where the cache is warm.

    ``launch`` is what the host needs to launch a call; ``idle`` collects how long the device had nothing to do.
    """

    launch: float = 1e-6
    work: float = 0.0
    now: float = 0.0
    free: float = 0.0
    warm: bool = False
    idle: list[float] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        start = max(self.free, self.now)
        self.idle.append(start - self.free)
        self.free = start + seconds

    def zero_(self) -> None:
        """The flush."""
        self.run(FLUSH)
        self.warm = False

    def call(self) -> None:
        self.now += self.launch
        self.run(self.work + (WARM if self.warm else COLD))
        self.warm = True

    def synchronize(self) -> None:
        self.now = max(self.now, self.free)

    def event(self, enable_timing: bool) -> Event:
        return Event(self)


@dataclass
class Event:
    """A mark in the queue."""

    gpu: Gpu
    at: float = 0.0

    def record(self) -> None:
        self.at = max(self.gpu.free, self.gpu.now)

    def elapsed_time(self, end: Event) -> float:
        return 1000 * (end.at - self.at)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Gpu], CudaClock]:
    """The clock for CUDA, reading a played device."""

    def clock_on(gpu: Gpu) -> CudaClock:
        for module in (clock, worker):
            monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: gpu.now))
        monkeypatch.setattr(torch.cuda, "Event", gpu.event)
        monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronize)
        reading = object.__new__(CudaClock)
        reading.flush = gpu  # type: ignore[assignment]
        return reading

    return clock_on


# Time


def test_the_cache_is_cold_and_its_flush_is_not_counted(on) -> None:
    """meta-pytorch/tritonbench#519, #527."""
    gpu = Gpu()
    assert on(gpu).sample(gpu.call, 5).seconds == pytest.approx([COLD] * 5)


def test_a_slow_launch_is_not_counted_and_is_told(on) -> None:
    """triton-lang/triton#1893, #6066: 20 us of the host before a kernel of 5 us. What outlasts the flush shows."""
    quick, slow, slowest = Gpu(), Gpu(launch=20e-6), Gpu(launch=80e-6)
    assert on(quick).sample(quick.call, 5).seconds == pytest.approx([COLD] * 5)
    hidden = on(slow).sample(slow.call, 5)
    assert (hidden.seconds, hidden.host) == (pytest.approx([COLD] * 5), pytest.approx([20e-6] * 5))
    shown = on(slowest).sample(slowest.call, 5)
    assert shown.host is not None
    assert all(host > seconds > COLD for host, seconds in zip(shown.host, shown.seconds, strict=True))


def test_what_runs_later_is_waited_for(on) -> None:
    """1ytic/warp-rnnt#9: a launch returns at once, whatever it launched."""
    gpu = Gpu(work=3.5e-3)
    assert on(gpu).sample(gpu.call, 3).seconds == pytest.approx([gpu.work + COLD] * 3)
    gpu.synchronize()
    assert worker.stopwatch(gpu.call, "cuda")[0] == pytest.approx(gpu.launch + gpu.work + WARM)
    assert worker.stopwatch(gpu.call, "cpu")[0] == pytest.approx(gpu.launch)


def test_the_device_is_kept_busy_until_the_call_begins(on) -> None:
    """ROCm/vllm#928: clocks that fall in a pause. Between the flush and the call there is none."""
    gpu = Gpu(launch=20e-6)
    on(gpu).sample(gpu.call, 5)
    assert len(gpu.idle) == 10
    assert gpu.idle[1::2] == [0.0] * 5


@NEEDS_CUDA
def test_a_real_device_is_read_likewise() -> None:
    """The four above on a GPU: cold, without the flush, whether calls follow each other or pauses."""
    x = torch.ones(2**22, device="cuda")
    reading = CudaClock()

    def milliseconds(call: Callable[[], object]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)

    def median(call: Callable[[], object]) -> float:
        return statistics.median(milliseconds(call) for _ in range(50))

    def with_a_pause() -> float:
        time.sleep(0.02)
        return reading.sample(x.sum, 1).seconds[0]

    reading.sample(x.sum, 20)
    cold, warm = 1000 * statistics.median(reading.sample(x.sum, 50).seconds), median(x.sum)
    assert cold < warm + median(reading.flush.zero_)
    paused = 1000 * statistics.median(with_a_pause() for _ in range(50))
    assert paused < 1.5 * cold, f"{cold:.4f} ms one after the other, {paused:.4f} ms with pauses"


def test_times_come_from_one_clock_and_from_no_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """meta-pytorch/attention-gym#150, NVIDIA/cudnn-frontend#824: there is nothing to fall back from, or to mix."""

    def cannot_attach(*arguments: object, **options: object) -> None:
        raise RuntimeError("the profiler cannot attach")

    monkeypatch.setattr(torch.profiler, "profile", cannot_attach)
    found = working("cpu").time(TINY, "eager", "forward", 4)
    assert len(found["seconds"]) == 4
    assert min(found["seconds"]) > 0


def test_a_call_longer_than_its_time_is_sampled_all_the_same(sweep_over, tmp_path: Path) -> None:
    """linkedin/Liger-Kernel#1479: one sample, whose quantiles are all the same. Here one in every round."""
    sweep = sweep_over(tmp_path, replace(ALONE, seconds=1e-9, patience=60.0))
    sweep.measure([cell("eager")], Selection())
    (record,) = (r for r in journal.read(sweep.origin.journal) if r["record"] == "cell")
    assert record["status"] == "ok", record["reason"]
    samples = record["seconds"]["samples"]
    assert len(samples) == ALONE.rounds > 1
    found = spread(samples, record["seconds"]["rounds"])
    assert (found.low, found.high) == (min(samples), max(samples))


def test_two_modes_are_no_difference() -> None:
    """newton-physics/newton#2534: a device that runs at one of two rates. Intervals overlap until all rounds agree."""

    def measured(rounds: list[float]):
        samples = [mode * factor for mode in rounds for factor in (0.999, 1.0, 1.001)]
        return spread(samples, [number for number in range(len(rounds)) for _ in range(3)])

    before, after = measured([22.5, 22.5, 25.5, 22.5]), measured([25.5, 25.5, 22.5, 25.5])
    assert after.median / before.median > 1.1
    assert after.low < before.high
    slower = measured([1.3 * mode for mode in (22.5, 25.5, 22.5, 25.5)])
    assert slower.low > before.high


# Memory


def working(device: str) -> Worker:
    """A worker in this process, without the limits of one of its own."""
    found = object.__new__(Worker)
    found.device, found.clock = device, CudaClock() if device == "cuda" else HostClock()
    found.limit, found.cold = 0, False
    found.forget()
    return found


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_scratch_memory_of_the_first_call_is_not_counted(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytorch/pytorch#124326: a peak that holds the workspace of an autotuner."""
    calls: list[int] = []

    def tuning_itself(q, k, v, bias, mask):
        calls.append(1)
        if len(calls) == 1:
            torch.zeros(2**24, device=q.device)
        return impls.get("eager").attend(q, k, v, bias, mask)

    backends = {"eager": impls.get("eager"), "tuning": impls.Backend("tuning", "", tuning_itself)}
    monkeypatch.setattr("benchmarks.instrument.specimen.backend_called", backends.__getitem__)
    plain, tuning = (working(device).prove(TINY, name, "forward", 2, 2**20)["bytes"] for name in ("eager", "tuning"))
    assert len(calls) == 3
    assert plain == tuning
    assert max(tuning) < 2**24


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_nothing_is_left_of_earlier_problems(device: str) -> None:
    """intel/intel-xpu-backend-for-triton#5735: 20 problems in one process."""
    here, alive = working(device), []
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    for R in range(8, 28):
        problem = replace(TINY, R=R)
        here.prove(problem, "eager", "training", 1, 2**20)
        here.time(problem, "eager", "training", 2)
        alive.append([weakref.ref(x) for x in here.prepare(problem).tensors()])
    gc.collect()
    assert [any(ref() is not None for ref in refs) for refs in alive] == [False] * 19 + [True]
    here.forget()
    gc.collect()
    assert not any(ref() is not None for ref in alive[-1])
    assert device == "cpu" or torch.cuda.memory_allocated() == before
