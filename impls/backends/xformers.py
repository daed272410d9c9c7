"""xFormers' memory-efficient attention: heads behind lengths, one additive bias of full shape in aligned storage."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import torch
from jaxtyping import Float
from torch import Tensor

from impls.cuda import HALF, Capability, cutlass_limits, grid_limits, on_cuda
from impls.interface import Backend, Traits
from impls.layout import bias_or_mask, over_one_batch_axis, readable, recording, with_open_rows
from impls.masks import hide
from impls.problem import CoreProblem

ALIGNMENT = 8  # elements: 16 bytes of float16, and enough for float32


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    return over_one_batch_axis(call, q, k, v, bias, mask)


def call(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    from xformers.ops import memory_efficient_attention

    scores = (*q.shape[:-1], k.shape[-2])
    q, k, v = (readable(x.transpose(1, 2)) for x in (recording(q, bias), hide(k, mask), hide(v, mask)))
    both = bias_or_mask(None if bias is None else bias.to(q.dtype), mask)
    if both is None:
        return memory_efficient_attention(q, k, v).transpose(1, 2)
    both, empty = with_open_rows(both)
    o = memory_efficient_attention(q, k, v, attn_bias=aligned(additive(both, q.dtype), scores))
    return o.transpose(1, 2).masked_fill(empty, 0)


def additive(both: Tensor, dtype: torch.dtype) -> Tensor:
    """A bias as it is; a bool mask as 0 and -inf."""
    return both if both.dtype != torch.bool else both.new_zeros((), dtype=dtype).masked_fill(~both, -torch.inf)


def aligned(bias: Float[Tensor, "#N #H #Q #K"], scores: tuple[int, ...]) -> Float[Tensor, "N H Q K"]:
    """``bias`` expanded to the shape of the scores, with dense keys and all other strides multiples of ALIGNMENT.

    A view of ``bias`` if that has such strides, else of a copy whose rows are padded. Broadcast axes have stride 0.
    """
    expanded = bias.expand(scores)
    if readable(expanded) is expanded and not any(stride % ALIGNMENT for stride in expanded.stride()[:-1]):
        return expanded
    K = scores[-1]
    padded = bias.new_zeros(*bias.shape[:-1], K + -K % ALIGNMENT)
    padded[..., :K] = bias
    return padded[..., :K].expand(scores)


def limits(p: CoreProblem) -> Iterator[str]:
    try:
        version("xformers")
    except PackageNotFoundError:
        yield "xformers is not installed (pip install --no-deps xformers)"
    yield from on_cuda(rules, oldest=(5, 0))(p)


def rules(p: CoreProblem, capability: Capability) -> Iterator[str]:
    yield from cutlass_limits(p, capability)
    if capability > (9, 0) and (p.dtype not in HALF or p.bias_shape is not None or p.mask):
        yield "on GPUs newer than Hopper it takes no bias, no mask and no float32; use sdpa_efficient"
    yield from grid_limits(p)


BACKENDS = (
    Backend(
        "xformers",
        "xFormers' memory_efficient_attention (CUDA)",
        attend,
        limits=limits,
        traits=Traits(
            deterministic=False,
            fake=False,
            score_sized="when a bias meets a mask that varies along the batch: the two become one tensor of that size; "
            "and the gradient of any bias, before it is summed",
            kernels=("aten::_efficient_attention_forward", "aten::_flash_attention_forward", "xformers_flash"),
        ),
    ),
)
