"""What is there: the device, its driver, and the packages."""

from __future__ import annotations

import os
import platform
import shutil
from typing import Any

from benchmarks.gpu_check.parts import Task
from benchmarks.instrument import gpu, machine, origin

VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "PYTORCH_ALLOC_CONF",
             "PYTORCH_CUDA_ALLOC_CONF", "NVIDIA_TF32_OVERRIDE", "TORCH_CUDA_ARCH_LIST", "CUDA_HOME")  # fmt: skip
"""Environment variables that change what is measured."""


def main(task: Task) -> None:
    """One record."""
    software = machine.software()
    software.pop("impls")
    task.write(
        record="environment", commit=origin.git(origin.ROOT, "rev-parse", "HEAD"), dirty=origin.dirty(),
        instrument=origin.instrument(), os=f"{platform.system()} {platform.machine()}", cpu=machine.processor(),
        cores=machine.cores(), free_memory=machine.free_memory(), **software, **cuda(),
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
    )  # fmt: skip


def cuda() -> dict[str, Any]:
    """What PyTorch and ``nvidia-smi`` say of CUDA; ``cuda`` is whether PyTorch can use it."""
    import torch

    found: dict[str, Any] = {
        "cuda": torch.cuda.is_available(), "cuda_version": torch.version.cuda, "gpu": gpu.reading(),
        "driver": ", ".join(gpu.query(["driver_version"]) or ()), "nvcc": bool(shutil.which("nvcc")),
    }  # fmt: skip
    if not found["cuda"]:
        return found
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return found | {
        "cudnn": torch.backends.cudnn.version(),
        "built_for": torch.cuda.get_arch_list(),
        "device_name": properties.name,
        "capability": [properties.major, properties.minor],
        "multiprocessors": properties.multi_processor_count,
        "bytes": properties.total_memory,
        "l2_bytes": properties.L2_cache_size,
        "devices": torch.cuda.device_count(),
    }
