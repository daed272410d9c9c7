"""What kernels for NVIDIA GPUs have in common: which device they need, which dtypes, and how large a grid may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import torch

from impls.problem import CoreProblem

Capability = tuple[int, int]
Limits = Callable[[CoreProblem], Iterable[str]]
Rules = Callable[[CoreProblem, Capability], Iterable[str]]

LARGEST_GRID = 65_535
LARGEST_INDEX = 2**31
HALF = ("bfloat16", "float16")


def on_cuda(rules: Rules, oldest: Capability) -> Limits:
    """The limits of a CUDA kernel: ``rules(problem, compute capability)``, asked only where such a device is there."""

    def limits(p: CoreProblem) -> Iterator[str]:
        if p.device != "cuda":
            yield f"needs CUDA: there is no kernel for {p.device}; move the tensors to a GPU, or use eager or chunked"
        elif not torch.cuda.is_available():
            yield "needs CUDA, which PyTorch does not find on this machine"
        elif (capability := torch.cuda.get_device_capability()) < oldest:
            yield "needs a GPU of compute capability {}.{} or newer; this one has {}.{}".format(*oldest, *capability)
        else:
            yield from rules(p, capability)

    return limits


def half_only(p: CoreProblem) -> Iterator[str]:
    """For kernels that take float16 and bfloat16 alone."""
    if p.dtype not in HALF:
        yield f"{p.dtype}: takes float16 and bfloat16 only; convert q, k and v, or use chunked"


def grid_limits(p: CoreProblem) -> Iterator[str]:
    """For kernels whose grid has one index for the batch and one for the heads."""
    batch = math.prod(p.batch)
    if batch > LARGEST_GRID:
        yield f"batch of {batch:,}: at most {LARGEST_GRID:,}, the CUDA grid; split the batch"
    yield from heads_limit(p)


def heads_limit(p: CoreProblem) -> Iterator[str]:
    """For kernels whose grid has an index for the heads."""
    if p.H > LARGEST_GRID:
        yield f"{p.H:,} heads: at most {LARGEST_GRID:,}, the CUDA grid; split the heads"


def cutlass_limits(p: CoreProblem, capability: Capability) -> Iterator[str]:
    """For the CUTLASS kernel that xFormers and PyTorch's memory-efficient attention share."""
    if p.dtype == "float64":
        yield "float64: takes float32, float16 and bfloat16; use sdpa_math or chunked"
    if p.dtype == "bfloat16" and capability < (8, 0):
        yield "bfloat16 needs a GPU of compute capability 8.0 or newer; use float16"
    multiple = 8 if p.dtype in HALF else 4
    if p.c % multiple:
        yield f"c={p.c}: a head's width must be a multiple of {multiple} in {p.dtype}; use sdpa_math"


def flash_index_limit(p: CoreProblem) -> Iterator[str]:
    """For FlashAttention 2, whose backward pass has 32-bit indices into q, its lengths and widths rounded up."""
    padded = math.prod(p.batch) * p.H * -(-p.Q // 128) * 128 * max(p.c, 32)
    if p.training and padded > LARGEST_INDEX:
        yield f"its backward pass would index {padded:,} elements of q, at most 2^31: split the batch, or use chunked"
