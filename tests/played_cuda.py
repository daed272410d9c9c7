"""CUDA played by the CPU: what asks for a GPU gets tensors of the CPU, and PyTorch's calls for CUDA their counterparts.

So the code for CUDA runs here, line by line; what a real device does differently is not shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode

from impls import interface

GB = 2**30
PROPERTIES = SimpleNamespace(
    name="Played GPU", major=9, minor=0, multi_processor_count=132, total_memory=80 * GB, L2_cache_size=2**20
)


class Event:
    """A mark in time: the CPU has done everything that came before it."""

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing, "an event without timing has no elapsed_time"
        self.at: float | None = None

    def record(self) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        assert self.at is not None
        assert end.at is not None
        return 1000 * (end.at - self.at)


class OnTheCpu(TorchFunctionMode):
    """``device="cuda"`` makes tensors on the CPU."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if str(given.get("device", "")).startswith("cuda"):
            given["device"] = "cpu"
        return func(*args, **given)


def no_device(device: Any = None) -> None:
    """A call whose effect nothing here needs."""


@contextmanager
def played_cuda() -> Iterator[None]:
    """Within it, PyTorch seems to find one GPU of compute capability 9.0."""
    calls = {
        "is_available": lambda: True, "Event": Event, "synchronize": no_device, "empty_cache": no_device,
        "current_device": lambda: 0, "device_count": lambda: 1, "get_device_name": lambda device=None: PROPERTIES.name,
        "get_device_properties": lambda device: PROPERTIES, "get_device_capability": lambda device=None: (9, 0),
        "get_arch_list": lambda: ["sm_90"], "mem_get_info": lambda device=None: (79 * GB, 80 * GB),
        "memory_allocated": lambda device=None: 5 * GB, "max_memory_allocated": lambda device=None: 6 * GB,
        "reset_peak_memory_stats": no_device,
    }  # fmt: skip
    with ExitStack() as stack:
        for name, call in calls.items():
            stack.enter_context(patch.object(torch.cuda, name, call))
        stack.enter_context(OnTheCpu())
        stack.callback(interface._reasons.cache_clear)  # what backends said of a GPU that is not there
        yield
