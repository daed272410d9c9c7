"""The machine: what it is, without its name, and what else it was doing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.instrument import gpu

PACKAGES = (
    "torch", "jaxtyping", "numpy", "triton", "flash-attn", "flash-attn-3", "flash-attn-4", "xformers", "trifast",
    "cuequivariance-torch", "cuequivariance-ops-torch-cu12", "cuequivariance-ops-torch-cu13", "deepspeed",
)  # fmt: skip
"""Packages that backends use, whose versions are recorded."""

STEAL = 0.02
"""Share of the CPUs' time taken by the hypervisor above which a measurement counts as disturbed."""
OTHERS = 0.10
"""Share of the CPUs' time taken by other processes above which a measurement counts as disturbed."""
GRAIN = 2
"""Ticks, of a hundredth of a second, that must be missing beyond that: by so many two readings may be off."""


def software() -> dict[str, Any]:
    """Versions, and where ``impls`` was loaded from."""
    import torch

    import impls

    packages = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {
        "python": platform.python_version(), "torch": torch.__version__, "packages": packages,
        "impls": str(Path(impls.__file__).resolve()),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }  # fmt: skip


def hardware(device: str) -> dict[str, Any]:
    """The device's name and the bytes free on it."""
    if device == "cuda":
        import torch

        return {"device_name": torch.cuda.get_device_name(), "free_bytes": torch.cuda.mem_get_info()[0]}
    return {"device_name": processor(), "free_bytes": free_memory()}


def processor() -> str:
    """The CPU's model, as the system names it."""
    found = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return found.group(1) if found else platform.processor() or platform.machine()


def free_memory() -> int:
    """Bytes of memory that are available, to this control group where there is one."""
    found = re.search(r"^MemAvailable:\s*(\d+)", _text("/proc/meminfo"), re.MULTILINE)
    free = int(found.group(1)) * 1024 if found else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    limit, used = _text("/sys/fs/cgroup/memory.max").strip(), _text("/sys/fs/cgroup/memory.current").strip()
    return min(free, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else free


def cores() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_gpu() -> bool:
    """Whether this machine seems to have an NVIDIA GPU."""
    return shutil.which("nvidia-smi") is not None


def default_device() -> str:
    """``cuda`` where PyTorch can use it, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def end_with_parent() -> None:
    """Have the kernel end this process when its parent ends (Linux only)."""
    import ctypes
    import signal

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def end_first() -> None:
    """Have the kernel choose this process when memory runs out (Linux only)."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


@dataclass(frozen=True)
class State:
    """What the machine was doing at one moment: ticks of the CPUs that this process may use, load and clocks."""

    busy: int | None
    stolen: int | None
    total: int | None
    ours: int
    readings: dict[str, Any]


def state(workers: list[int], device: str) -> State:
    """The state now; ``workers`` are the processes whose CPU time is our own."""
    busy, stolen, total = _ticks()
    mhz = [float(x) for x in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _text("/proc/cpuinfo"), re.MULTILINE)]
    readings: dict[str, Any] = {
        "load1": float(_text("/proc/loadavg").split()[0]) if _text("/proc/loadavg") else None,
        "mhz": round(sum(mhz) / len(mhz), 1) if mhz else None,
    }
    if device == "cuda":
        readings |= gpu.reading()
    return State(busy, stolen, total, sum(_own_ticks(pid) for pid in (os.getpid(), *workers)), readings)


Span = tuple[State, State]
"""The states before and after a block."""


def between(*spans: Span) -> tuple[dict[str, Any], list[str]]:
    """For the journal, the states before and after these blocks; and what disturbed them, all taken together."""
    before, after = spans[0][0], spans[-1][1]
    disturbances = []
    steal = others = None
    if (total := _passed("total", spans)) and total > 0:
        stolen, busy, ours = (_passed(name, spans) or 0 for name in ("stolen", "busy", "ours"))
        steal, others = round(stolen / total, 4), round(max(0, busy - ours) / total, 4)
        if stolen - GRAIN > STEAL * total:
            disturbances.append(f"the hypervisor took {steal:.0%} of the CPUs' time")
        if busy - ours - GRAIN > OTHERS * total:
            disturbances.append(f"other processes took {others:.0%} of the CPUs' time")
    disturbances += gpu.held_down(before.readings, after.readings)
    return {"before": before.readings, "after": after.readings | {"steal": steal, "others": others}}, disturbances


def _passed(name: str, spans: Sequence[Span]) -> int | None:
    """Ticks that passed within ``spans``; None if they are not known."""
    ends = [getattr(state, name) for span in spans for state in span]
    return None if None in ends else sum(ends[1::2]) - sum(ends[::2])


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text()
    return ""


def _ticks() -> tuple[int | None, int | None, int | None]:
    """Busy, stolen and all ticks of the CPUs that this process may use."""
    if sys.platform != "linux":
        return None, None, None
    ours = os.sched_getaffinity(0)
    rows = [
        [int(x) for x in numbers.split()[:8]]
        for cpu, numbers in re.findall(r"^cpu(\d+) (.+)$", _text("/proc/stat"), re.MULTILINE)
        if int(cpu) in ours
    ]
    if not rows:
        return None, None, None
    # user, nice, system, idle, iowait, irq, softirq, steal
    sums = [sum(column) for column in zip(*rows, strict=True)]
    idle, stolen = sums[3] + sums[4], sums[7]
    return sum(sums) - idle - stolen, stolen, sum(sums)


def _own_ticks(pid: int) -> int:
    """Ticks that a process and its ended children have used."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(int(x) for x in fields[11:15])
