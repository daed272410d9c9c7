"""The instrument's own checks: does it measure what it says, on this device?

Each answers a question with yes, no, or None where a CPU, or this machine, cannot tell.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from benchmarks.gpu_check.parts import Task
from benchmarks.instrument import anchor, gpu, machine, memory
from benchmarks.instrument.clock import Clock, CudaClock, HostClock
from benchmarks.instrument.inputs import seeded
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.specimen import call_of, inputs_of
from benchmarks.instrument.worker import stopwatch

AGREEMENT = 0.05
"""How far event time and host time of a long kernel may be apart."""
COLDER = 1.1
"""How many times longer a call must take where the cache was flushed."""
CPU_BURNER = """
import time
end = time.monotonic() + 20
while time.monotonic() < end:
    pass
"""
DEVICE_BURNER = """
import sys, time, torch
x, end = torch.ones(2048, 2048, device=sys.argv[1]), time.monotonic() + 60
while time.monotonic() < end:
    torch.mm(x, x)
    print(float(x[0, 0]), flush=True)
"""


@dataclass(frozen=True)
class Answer:
    """What a check found; ``ok`` is None where it cannot be told here."""

    question: str
    ok: bool | None
    words: str
    numbers: dict[str, Any] = field(default_factory=dict)


def main(task: Task) -> None:
    """A record a check. One that raises is a failure, and no end of the others."""
    clock: Clock = CudaClock() if task.device == "cuda" else HostClock()
    for check in CHECKS:
        if task.left < 0:
            task.write(record="left out", question=check.__name__)
            continue
        try:
            found = check(clock, task.device, task.tiny)
        except Exception as error:
            found = Answer(check.__name__, False, f"{type(error).__name__}: {error}")
        task.write(record="check", **asdict(found))


def long_call(device: str, tiny: bool) -> Callable[[], Any]:
    """Matrix products that take about 50 ms together."""
    import torch

    x = torch.randn(64 if tiny else 4096, 64 if tiny else 4096, device=device) / 64
    y = torch.empty_like(x)
    stopwatch(partial(torch.mm, x, x, out=y), device)
    once = stopwatch(partial(torch.mm, x, x, out=y), device)[0]
    times = math.ceil((0.001 if tiny else 0.05) / once)

    def call() -> None:
        for _ in range(times):
            torch.mm(x, x, out=y)

    return call


def clock_agrees_with_host(clock: Clock, device: str, tiny: bool) -> Answer:
    """Launches are a small part of a call this long, so that both clocks must tell the same time."""
    call = long_call(device, tiny)
    by_clock, by_host = [], []
    for _ in range(5):
        by_clock += clock.sample(call, 1).seconds
        by_host.append(stopwatch(call, device)[0])
    measured, host = min(by_clock), min(by_host)
    return Answer(
        "Does the clock agree with the host's, for a long call?", abs(measured - host) < AGREEMENT * host,
        f"{1000 * measured:.3f} ms by the clock, {1000 * host:.3f} ms by the host's",
        {"clock": measured, "host": host},
    )  # fmt: skip


class Busy:
    """In place of the clock's flush: keeps the device busy as long as that, and leaves the cache as it is."""

    def __init__(self, device: str) -> None:
        import torch

        self.x = torch.ones(512, 512, device=device)

    def zero_(self) -> None:
        """Work on 2 MB."""
        for _ in range(8):
            self.x @ self.x


def cache_is_cold(clock: Clock, device: str, tiny: bool) -> Answer:
    """A tensor that fits the cache is read slower after the flush than without; and the flush is not counted."""
    import torch

    question, n = "Is the cache cold, and its flush not counted?", 5 if tiny else 50
    if not isinstance(clock, CudaClock):
        x = torch.ones(2**17, device=device)
        return Answer(question, None, "a CPU's cache is not flushed", {"seconds": clock.sample(x.sum, n).seconds})
    l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    x = torch.ones(l2 // 16, device=device)
    clock.sample(x.sum, n)
    cold = statistics.median(clock.sample(x.sum, n).seconds)
    flush = statistics.median(clock.sample(clock.flush.zero_, n).seconds)
    kept, clock.flush = clock.flush, Busy(device)  # type: ignore[assignment]
    try:
        warm = statistics.median(clock.sample(x.sum, n).seconds)
    finally:
        clock.flush = kept
    return Answer(
        question, COLDER * warm < cold < warm + flush,
        f"{1e6 * cold:.1f} us cold, {1e6 * warm:.1f} us warm; the flush takes {1e6 * flush:.1f} us",
        {"cold": cold, "warm": warm, "flush": flush, "bytes": x.nbytes},
    )  # fmt: skip


def slow_launches_are_told(clock: Clock, device: str, tiny: bool) -> Answer:
    """A call on one number is bound by its launch, matrix products of 50 ms are not."""
    import torch

    question, one = "Is a call that is bound by its launch told from one that is not?", torch.ones(1, device=device)

    def many_launches() -> None:
        for _ in range(100):
            one.add(1)

    short, long = clock.sample(many_launches, 10), clock.sample(long_call(device, tiny), 3)
    ok = None if short.host is None else short.launch_bound and not long.launch_bound
    words = "on a CPU nothing is launched" if ok is None else f"short: {short.launch_bound}, long: {long.launch_bound}"
    return Answer(question, ok, words, {"short": asdict(short), "long": asdict(long)})


def memory_repeats(clock: Clock, device: str, tiny: bool) -> Answer:
    """The same bytes five times of five, for three backends and both directions; and how far the prediction was off."""
    import impls

    problem = Problem("msa_row", "core", "float32", N_head=4, c=32, R=16 if tiny else 256, S=4 if tiny else 32)
    found: dict[str, dict[str, Any]] = {}
    for name in ("eager", "sdpa", "chunked"):
        for direction in ("forward", "training"):
            backend, inputs = impls.get(name), inputs_of(problem, seeded(problem, device))
            call = call_of(problem, backend, direction, inputs)
            call(inputs.cotangent)
            sizes = [memory.measured(call, inputs.cotangent)[0] for _ in range(5)]
            predicted = memory.predicted(problem, backend, direction, device)
            found[f"{name} {direction}"] = {"bytes": sizes, "predicted": predicted}
    unequal = [name for name, one in found.items() if len(set(one["bytes"])) > 1]
    words = f"different: {', '.join(unequal)}" if unequal else f"{len(found)} calls, five times the same"
    return Answer("Is memory the same whenever it is measured?", not unequal, words, found)


@contextmanager
def burning(program: str, *arguments: str, n: int = 1, ready: bool = False) -> Iterator[None]:
    """``n`` processes that run ``program``; ``ready``: from when each has printed a line."""
    started = [
        subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(n)
    ]
    try:
        for process in started if ready else ():
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def other_processes_are_noticed(clock: Clock, device: str, tiny: bool) -> Answer:
    """A block beside which every core is kept busy is marked as disturbed."""
    before = machine.state([], device)
    with burning(CPU_BURNER, n=machine.cores()):
        time.sleep(0.3 if tiny else 1.0)
        _, disturbances = machine.between((before, machine.state([], device)))
    told = any("other processes" in text for text in disturbances)
    words = "; ".join(disturbances) or "nothing was noticed"
    return Answer("Is a disturbed block noticed?", told if before.total is not None else None, words)


def device_is_shared(clock: Clock, device: str, tiny: bool) -> Answer:
    """How much slower the anchors are while another process computes on the device: no state of it shows that."""
    n = 5 if tiny else 30
    calls = {name: anchor.anchor(name, device) for name in anchor.ANCHORS}

    def quartiles() -> dict[str, float]:
        return {name: statistics.quantiles(clock.sample(call, n).seconds, n=4)[0] for name, call in calls.items()}

    quartiles()
    alone, before = quartiles(), gpu.reading() if device == "cuda" else {}
    with burning(DEVICE_BURNER, device, ready=True):
        beside = quartiles()
        held = gpu.held_down(before, gpu.reading()) if device == "cuda" else []
    slower = {name: beside[name] / alone[name] for name in calls}
    words = ", ".join(f"{name} takes {ratio:.2f} times as long" for name, ratio in slower.items())
    return Answer("What does another process on the device cost?", None, "; ".join([words, *held]),
                  {"alone": alone, "beside": beside})  # fmt: skip


CHECKS: tuple[Callable[[Clock, str, bool], Answer], ...] = (
    clock_agrees_with_host, cache_is_cold, slow_launches_are_told, memory_repeats, other_processes_are_noticed,
    device_is_shared,
)  # fmt: skip
