"""Bytes beyond the inputs at the peak of one call: measured exactly, and predicted without allocating anything."""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any

from benchmarks.instrument.inputs import Inputs
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.specimen import Call, call_of, core_problem, inputs_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KERNELS = 16
COMPILED = re.compile(r"## Call CompiledFxGraph \w+ ##")


def measured(call: Call, cotangent: Tensor) -> tuple[int, list[str]]:
    """Peak bytes beyond what was allocated before one call, and the kernels that it ran, longest first.

    On the CPU the allocator's events are added up as PyTorch's profiler saw them; on CUDA the allocator counts.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    cuda = cotangent.is_cuda
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    with profile(activities=activities, profile_memory=not cuda) as profiled:
        outputs = call(cotangent)
        if cuda:
            torch.cuda.synchronize()
    if cuda:
        peak = torch.cuda.max_memory_allocated() - before
    del outputs
    assert profiled.profiler is not None
    events = profiled.profiler.kineto_results.events()
    if not cuda:
        peak = highest(event.nbytes() for event in in_order(events) if event.name() == "[memory]")
    return peak, longest(profiled.key_averages(), cuda)


def in_order(events: Any) -> list[Any]:
    """The profiler's events as they happened."""
    return sorted(events, key=lambda event: event.start_ns())


def highest(changes: Any) -> int:
    """The largest running sum."""
    total = peak = 0
    for change in changes:
        total += change
        peak = max(peak, total)
    return peak


def longest(averages: Any, cuda: bool) -> list[str]:
    """Names of the operators (CPU) or kernels (CUDA) that took the most time; of compiled graphs without their hash."""
    device, name = ("CUDA", "self_device_time_total") if cuda else ("CPU", "self_cpu_time_total")
    rows = [(getattr(row, name), row.key) for row in averages if row.device_type.name == device and row.key[0] != "["]
    return [COMPILED.sub("CompiledFxGraph", key) for time, key in sorted(rows, reverse=True)[:KERNELS] if time > 0]


def predicted(problem: Problem, backend: Any, direction: str, device: str) -> int | None:
    """What ``measured`` would find, from tensors without data; None for a backend that offers no way to know.

    Exact for backends that run under FakeTensorMode, up to single numbers and to what kernels copy inside themselves
    (a bfloat16 product on the CPU does). For others the backend's own closed form is used; in a module, what surrounds
    the core is added to it, which is an upper bound. A stack is small and takes long to go through: None.
    """
    import impls

    if problem.level == "stack":
        return None
    if backend.traits.fake:
        return faked(problem, backend, direction, device)
    if backend.bytes_beyond_inputs is None:
        return None
    core = backend.bytes_beyond_inputs(core_problem(problem, direction, device))
    if problem.level == "core":
        return int(core)
    around = impls.Backend(
        "around", "nothing but an output", lambda q, k, v, bias, mask: q + (k[..., :1, :] + v[..., :1, :])
    )
    return int(core) + faked(problem, around, direction, device)


def faked(problem: Problem, backend: Any, direction: str, device: str) -> int:
    """Peak bytes beyond the inputs of a call with fake tensors."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    def draw(*shape: int) -> Tensor:
        return torch.empty(shape, device=device, dtype=getattr(torch, problem.dtype))

    with FakeTensorMode():
        inputs = inputs_of(problem, draw)
        call = call_of(problem, backend, direction, inputs)
        with live_bytes(inputs) as counter:
            outputs = call(inputs.cotangent)
        del outputs
    return int(counter.peak)


def live_bytes(inputs: Inputs) -> Any:
    """A dispatch mode that counts the bytes of all storages alive, other than the inputs', and remembers the peak."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class LiveBytes(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.live = self.peak = 0
            self.known = {x.untyped_storage()._cdata for x in inputs.tensors()}

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            for x in tree_leaves(result):
                if hasattr(x, "untyped_storage"):
                    self.add(x.untyped_storage())
            return result

        def add(self, storage: torch.UntypedStorage) -> None:
            if storage._cdata in self.known:
                return
            self.known.add(storage._cdata)
            self.live += storage.nbytes()
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self.drop, storage._cdata, storage.nbytes())

        def drop(self, key: int, nbytes: int) -> None:
            self.known.discard(key)
            self.live -= nbytes

    return LiveBytes()
