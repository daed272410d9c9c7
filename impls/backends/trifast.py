"""trifast: a Triton kernel for triangle attention with pair bias, which reads one bias for all rows and merges nothing.

It knows squares of edges alone, ``q, k, v (B, H, n, n, c)`` with ``bias (B, H, n, n)`` and ``mask (B, n, n)``, True
where a key is hidden. Its answer for rows without a valid key is not ours, and a bias of -inf can make it NaN: the
adapter sees to both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.util import find_spec

import torch
from torch import Tensor

from impls.cuda import LARGEST_GRID, LARGEST_INDEX, Capability, on_cuda
from impls.interface import Backend, Traits
from impls.masks import hide
from impls.problem import CoreProblem
from impls.rows import rows_without_keys

PACKAGES = ("trifast", "triton", "einops", "platformdirs")
WIDTHS = (16, 32, 64, 128)
LOWEST = -(2.0**15)
"""What smaller numbers in the bias, -inf among them, count as: above the kernel's own number for hidden keys in every
dtype, and small enough that the logarithm which its backward pass adds to a row's maximum is not rounded away."""


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    from trifast import triangle_attention

    assert bias is not None, "shape_limits lets no problem without a bias through"
    *batch, n, H, _, c = q.shape
    bias = bias.expand(*batch, 1, H, n, n).reshape(-1, H, n, n)
    mask = None if mask is None else mask.expand(*batch, n, n).reshape(-1, n, n)
    empty = rows_without_keys(bias.unsqueeze(1), mask)
    hidden = torch.zeros(bias.shape[0], n, n, dtype=torch.bool, device=q.device) if mask is None else ~mask
    q, k, v = (x.reshape(-1, n, H, n, c) for x in (q, k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, hide(k, mask), hide(v, mask)))
    o = triangle_attention(q, k, v, bias.clamp(min=LOWEST), hidden).transpose(1, 2)
    return o.masked_fill(empty, 0).reshape(*batch, n, H, n, c)


def limits(p: CoreProblem) -> Iterator[str]:
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        yield f"{', '.join(missing)} not installed (pip install trifast)"
    yield from shape_limits(p)
    yield from on_cuda(no_rules, oldest=(8, 0))(p)


def shape_limits(p: CoreProblem) -> Iterator[str]:
    rows = p.batch[-1:]
    if rows != (p.Q,) or p.Q != p.K:
        yield (
            f"{p.Q} queries and {p.K} keys in {rows[0] if rows else 'no'} rows: takes a square of edges alone, as many "
            "rows as queries and keys; use chunked or sdpa"
        )
    if p.bias_shape is None:
        yield "takes a pair bias alone: use sdpa, or flash_attn for a key mask"
    elif len(p.bias_shape) > 3 and p.bias_shape[-4] > 1:
        yield f"bias of shape {p.bias_shape}: takes one bias for all rows, of length 1 there; use chunked"
    if p.H_kv != p.H:
        yield "keys and values of one head for all: takes as many as queries have; expand them, or use chunked"
    if p.dtype == "float64":
        yield "float64: takes float32, float16 and bfloat16; use sdpa_math or chunked"
    if p.c not in WIDTHS:
        yield f"c={p.c}: a head is {', '.join(map(str, WIDTHS))} wide; use chunked or sdpa"
    heads = math.prod(p.batch[:-1]) * p.H
    if heads > LARGEST_GRID:
        yield f"batch x heads of {heads:,}: at most {LARGEST_GRID:,}, the CUDA grid; split the batch"
    if heads * p.Q**2 * p.c > LARGEST_INDEX:
        yield f"q of {heads * p.Q**2 * p.c:,} elements: its indices have 32 bits, at most 2^31; split the batch"


def no_rules(p: CoreProblem, capability: Capability) -> tuple[str, ...]:
    return ()


BACKENDS = (
    Backend(
        "trifast",
        "trifast's Triton kernel for triangle attention with pair bias (CUDA)",
        attend,
        limits=limits,
        traits=Traits(compiles=True, fake=False, kernels=("trifast::triangle_attention",)),
    ),
)
