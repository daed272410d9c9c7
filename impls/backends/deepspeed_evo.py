"""DeepSpeed's DS4Sci_EvoformerAttention: a key mask and a pair bias, added to the logits one after the other.

Its kernel takes ``q, k, v (B, N, L, H, c)`` and biases of exactly (B, N, 1, 1, L) and (B, 1, H, L, L), in q's dtype. By
its source (0.19.8) it makes NaN of a block of keys at -inf, reads the gradient of its output as dense along c, and
fills at most 64 columns of its output: the adapter and the limits see to that. It launches on the default stream.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from impls.cuda import LARGEST_INDEX, Capability, grid_limits, half_only, on_cuda
from impls.interface import Backend, Traits
from impls.layout import readable
from impls.masks import hide, on_keys
from impls.problem import CoreProblem
from impls.rows import EXPANDED, entries_of_bias, over_rows, rows_without_keys

SHORTEST = 17
WIDEST = 64
LOWEST = -(2.0**15)
"""What smaller numbers in the bias, -inf among them, count as: above HIDDEN in every dtype."""
HIDDEN = -1e30
"""What is added to the logits of masked keys, or the lowest number of the dtype if that is higher. The kernel
multiplies logits by log2(e) before it takes the maximum off, so that the lowest float32 would overflow."""
BUILD = 'python -c "from deepspeed.ops.op_builder import EvoformerAttnBuilder as B; B().load()"'


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    return over_rows(call, q, k, v, bias, mask)


def call(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    from deepspeed.ops.deepspeed4science import DS4Sci_EvoformerAttention

    B, _, H, L, _ = q.shape
    hidden = None if mask is None else hiding(mask, q.dtype)
    pair = None if bias is None else bias.to(q.dtype).clamp(min=LOWEST).expand(B, 1, H, L, L)
    q, k, v = (readable(x.transpose(-2, -3)) for x in (q, hide(k, mask), hide(v, mask)))
    o = DS4Sci_EvoformerAttention(q, k, v, [hidden, pair])
    if o.requires_grad:
        o.register_hook(torch.Tensor.contiguous)
    o = o.transpose(-2, -3)
    return o if bias is None and mask is None else o.masked_fill(rows_without_keys(bias, mask), 0)


def hiding(mask: Bool[Tensor, "B N K"], dtype: torch.dtype) -> Float[Tensor, "B N 1 1 K"]:
    """The mask as a bias, with every key allowed in rows that allow none."""
    hidden = ~mask & mask.any(-1, keepdim=True)
    return on_keys(hidden.to(dtype) * max(HIDDEN, torch.finfo(dtype).min))


def limits(p: CoreProblem) -> Iterator[str]:
    if not installed():
        yield "deepspeed is not installed (pip install deepspeed nvidia-cutlass)"
    yield from shape_limits(p)
    unfit = list(on_cuda(rules, oldest=(7, 0))(p))
    yield from unfit
    if installed() and not unfit:
        yield from trouble_loading()


def shape_limits(p: CoreProblem) -> Iterator[str]:
    yield from half_only(p)
    if p.Q != p.K:
        yield f"{p.Q} queries and {p.K} keys: takes as many of one as of the other; use chunked or sdpa"
    if p.Q < SHORTEST:
        yield f"{p.Q} queries: takes at least {SHORTEST}; use chunked or sdpa"
    if p.c % 8 or p.c > WIDEST:
        yield f"c={p.c}: a head's width is a multiple of 8 up to {WIDEST}; use sdpa_efficient or chunked"
    if p.H_kv != p.H:
        yield "keys and values of one head for all: takes as many as queries have; expand them, or use chunked"
    yield from grid_limits(p)
    largest = max(entries_of_bias(p) * p.H * p.Q * p.K if p.bias_shape else 0, math.prod(p.batch) * p.H * p.Q)
    if largest > LARGEST_INDEX:
        yield f"{largest:,} elements: its indices into bias and rows have 32 bits, at most 2^31; split the batch"


def rules(p: CoreProblem, capability: Capability) -> Iterator[str]:
    if p.dtype == "bfloat16" and capability < (8, 0):
        yield "bfloat16 needs a GPU of compute capability 8.0 or newer; use float16"


@cache
def installed() -> bool:
    try:
        version("deepspeed")
    except PackageNotFoundError:
        return False
    return True


@cache
def trouble_loading() -> tuple[str, ...]:
    """Why the kernel cannot be loaded. It is never built here: that takes minutes, in the midst of a measurement."""
    try:
        from deepspeed.ops.op_builder import EvoformerAttnBuilder

        if not built():
            return (f"deepspeed {version('deepspeed')} builds its kernel on first use, for minutes: once, run {BUILD}",)
        EvoformerAttnBuilder().load()
    except Exception as error:
        return (f"deepspeed {version('deepspeed')} cannot load its kernel: {error}",)
    return ()


def built() -> bool:
    """Whether DeepSpeed was installed with the kernel (DS_BUILD_EVOFORMER_ATTN=1), or has built it before."""
    from deepspeed.git_version_info import installed_ops
    from torch.utils.cpp_extension import get_default_build_root

    folder = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root())
    return bool(installed_ops.get("evoformer_attn")) or any(folder.glob("**/evoformer_attn/evoformer_attn*.so"))


BACKENDS = (
    Backend(
        "deepspeed_evo",
        "DeepSpeed's DS4Sci_EvoformerAttention: a key mask and a pair bias (CUDA)",
        attend,
        limits=limits,
        traits=Traits(deterministic=False, fake=False, score_sized=EXPANDED, kernels=("EvoformerFusedAttention",)),
    ),
)
