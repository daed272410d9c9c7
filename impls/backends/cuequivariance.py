"""NVIDIA's triangle attention of cuEquivariance, for any rows that share a pair bias: those of the MSA as well.

``triangle_attention`` turns to plain PyTorch, without an error, where there are at most 100 queries (200 for c < 32) or
where c does not fit its kernel. With ``return_aux`` it does not: it runs the kernel, or raises. It promises nothing for
rows without a valid key (NVIDIA/cuEquivariance#204) or for a bias of -inf: the adapter sees to both.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

from torch import Tensor

from impls.cuda import HALF, Capability, on_cuda
from impls.interface import Backend, Traits
from impls.layout import readable
from impls.masks import hide, on_keys
from impls.problem import CoreProblem
from impls.rows import EXPANDED, over_rows, rows_without_keys

PACKAGES = ("cuequivariance_torch", "cuequivariance_ops_torch")
INSTALL = "pip install cuequivariance-torch cuequivariance-ops-torch-cu12, or -cu13"
LOWEST = -(2.0**15)
"""What smaller numbers in the bias, -inf among them, count as: far above the kernel's -1e9 for masked keys, and exact
in float16, to which kernels for Blackwell convert the bias."""


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    return over_rows(call, q, k, v, bias, mask)


def call(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    from cuequivariance_torch import triangle_attention

    assert bias is not None, "shape_limits lets no problem without a bias through"
    scores = (*q.shape[:-1], k.shape[-2])
    empty = rows_without_keys(bias, mask)
    bias = bias.float().clamp(min=LOWEST).expand(scores[0], 1, *scores[2:])
    q, k, v = (readable(x) for x in (q, hide(k, mask), hide(v, mask)))
    if mask is not None:
        mask = on_keys(mask | ~mask.any(-1, keepdim=True))
    o, _, _ = triangle_attention(q, k, v, bias, mask, return_aux=True)
    return o.masked_fill(empty, 0)


def limits(p: CoreProblem) -> Iterator[str]:
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        yield f"{', '.join(missing)} not installed ({INSTALL})"
    yield from shape_limits(p)
    unfit = list(on_cuda(no_rules, oldest=(8, 0))(p))
    yield from unfit
    if not missing and not unfit:
        yield from trouble_loading()


def shape_limits(p: CoreProblem) -> Iterator[str]:
    if p.bias_shape is None:
        yield "takes a pair bias alone: use sdpa, or flash_attn for a key mask"
    if p.dtype == "float64":
        yield "float64: takes float32, float16 and bfloat16; use sdpa_math or chunked"
        return
    multiple, widest = (8, 128) if p.dtype in HALF else (4, 32)
    if p.c % multiple or p.c > widest:
        yield (
            f"c={p.c}: a head's width is a multiple of {multiple} up to {widest} in {p.dtype} (for another it would "
            "silently run plain PyTorch); use sdpa_efficient or chunked"
        )


def no_rules(p: CoreProblem, capability: Capability) -> tuple[str, ...]:
    return ()


@cache
def trouble_loading() -> tuple[str, ...]:
    try:
        for name in PACKAGES:
            importlib.import_module(name)
    except Exception as error:
        return (f"cuequivariance_ops_torch cannot be loaded: {error}",)
    return ()


BACKENDS = (
    Backend(
        "cuequivariance",
        "cuEquivariance's kernel for triangle attention with pair bias (CUDA)",
        attend,
        limits=limits,
        traits=Traits(
            deterministic=False, fake=False, score_sized=EXPANDED, kernels=("cuequivariance::triangle_attention",)
        ),
    ),
)
