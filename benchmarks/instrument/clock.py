"""Time of one call, by the clock of the device it runs on."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

AGREEMENT = 0.1
"""Two blocks of warm-up agree when their medians differ by less than this share."""


@dataclass(frozen=True)
class Samples:
    """Seconds a call, in the order taken; ``host`` is what the host needed to launch each (CUDA only)."""

    seconds: list[float]
    host: list[float] | None = None

    @property
    def launch_bound(self) -> bool:
        """Whether the host needs at least as long to launch a call as the device to do it: then that was measured.

        By its quickest launch: where many launches are queued the host waits for the device, which is none of its time.
        """
        return self.host is not None and min(self.host) >= statistics.median(self.seconds)


class HostClock:
    """``time.perf_counter`` around each call."""

    def sample(self, call: Callable[[], Any], n: int) -> Samples:
        """``n`` calls, one sample each. What a call returns is freed after the clock has stopped."""
        seconds = []
        for _ in range(n):
            start = time.perf_counter()
            result = call()
            seconds.append(time.perf_counter() - start)
            del result
        return Samples(seconds)


class CudaClock:
    """CUDA events around each call, the L2 cache flushed before it.

    The flush also keeps the device busy while the host launches the call, so that the events enclose device time alone;
    where the host needs longer than the device, ``host`` shows it.
    """

    def __init__(self) -> None:
        import torch

        l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self.flush = torch.empty(max(2 * l2, 2**26), dtype=torch.uint8, device="cuda")

    def sample(self, call: Callable[[], Any], n: int) -> Samples:
        """``n`` calls, one sample each."""
        import torch

        events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        host = []
        torch.cuda.synchronize()
        for _ in range(n):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.flush.zero_()
            begun = time.perf_counter()
            start.record()
            result = call()
            end.record()
            host.append(time.perf_counter() - begun)
            del result
            events.append((start, end))
        torch.cuda.synchronize()
        return Samples([start.elapsed_time(end) / 1000 for start, end in events], host)


Clock = HostClock | CudaClock


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection inside, but all of it before."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def warm_up(clock: Clock, call: Callable[[], Any], most: float, last: float | None = None) -> float:
    """Call until the medians of two blocks agree, or for ``most`` seconds; the last median, in seconds a call.

    ``last`` is the seconds of a call before these, in another process perhaps: it stands for a block.
    """
    with quiet():
        started = time.perf_counter()
        last = last or clock.sample(call, 1).seconds[0]
        n = max(1, min(10, int(most / 8 / max(last, 1e-6))))
        while time.perf_counter() - started < most:
            median = statistics.median(clock.sample(call, n).seconds)
            if abs(median - last) < AGREEMENT * last:
                return median
            last = median
        return last


def timed(clock: Clock, call: Callable[[], Any], n: int) -> Samples:
    """``n`` samples with the garbage collector off."""
    with quiet():
        return clock.sample(call, n)
