"""What kernels for NVIDIA GPUs have in common: which device they need, which dtypes, and how large a grid may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from impls.problem import CoreProblem

Capability = tuple[int, int]
Limits = Callable[[CoreProblem], Iterable[str]]
Rules = Callable[[CoreProblem, Capability], Iterable[str]]

LARGEST_GRID = 65_535
LARGEST_INDEX = 2**31
HALF = ("bfloat16", "float16")

_assumed: ContextVar[Capability | None] = ContextVar("assumed", default=None)


@contextmanager
def assuming(capability: Capability) -> Iterator[None]:
    """Within it, limits answer as on a GPU of this compute capability, so that they can be read where there is none."""
    token = _assumed.set(capability)
    yield
    _assumed.reset(token)


def capability_here() -> Capability | None:
    """The compute capability of the GPU that PyTorch finds, or of the one that is assumed."""
    if assumed := _assumed.get():
        return assumed
    return torch.cuda.get_device_capability() if torch.cuda.is_available() else None


def on_cuda(rules: Rules, oldest: Capability) -> Limits:
    """The limits of a CUDA kernel: ``rules(problem, compute capability)``, asked only where such a device is there."""

    def limits(p: CoreProblem) -> Iterator[str]:
        if p.device != "cuda":
            yield f"needs CUDA: there is no kernel for {p.device}; move the tensors to a GPU, or use eager or chunked"
        elif (capability := capability_here()) is None:
            yield "needs CUDA, which PyTorch does not find on this machine"
        elif capability < oldest:
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
    if p.bias_shape is not None and rows_wrap(p.bias_shape, p.Q, p.K):
        yield f"a bias of {p.Q:,} x {p.K:,}: rows past 2^32 / K are silently wrong (pytorch#187227); use chunked"


def rows_wrap(bias_shape: tuple[int, ...], Q: int, K: int) -> bool:
    """Whether the offset of a row of the bias exceeds the 32 bits that the CUTLASS kernel has for it."""
    return len(bias_shape) > 1 and bias_shape[-2] > 1 and Q * K > 2**32


def flash_index_limit(p: CoreProblem) -> Iterator[str]:
    """For FlashAttention 2, whose backward pass has 32-bit indices into q, its lengths and widths rounded up."""
    padded = math.prod(p.batch) * p.H * -(-p.Q // 128) * 128 * max(p.c, 32)
    if p.training and padded > LARGEST_INDEX:
        yield f"its backward pass would index {padded:,} elements of q, at most 2^31: split the batch, or use chunked"
