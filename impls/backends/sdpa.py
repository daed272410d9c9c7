"""PyTorch's scaled_dot_product_attention: its own choice of kernel, and each kernel by itself.

A forced kernel never falls back to another: what it cannot do, ``limits`` says beforehand. The rules for CUDA are those
of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, and wrong answers that were reported to PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from impls.cuda import (
    Capability,
    cutlass_limits,
    flash_index_limit,
    grid_limits,
    half_only,
    heads_limit,
    on_cuda,
    rows_wrap,
)
from impls.interface import Backend, Traits
from impls.layout import bias_or_mask, over_one_batch_axis, readable, recording, with_open_rows
from impls.masks import hide
from impls.problem import CoreProblem

ALL_BUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def automatic(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """Whatever PyTorch chooses; cuDNN with a bias or mask is left out, for the reasons in ``cudnn_rules``."""
    if q.is_cuda and bias is not None and rows_wrap(tuple(bias.shape), q.shape[-2], k.shape[-2]):
        return forced(SDPBackend.MATH, q, k, v, bias, mask)
    if q.is_cuda and not (bias is None and mask is None):
        return forced(ALL_BUT_CUDNN, q, k, v, bias, mask)
    return over_one_batch_axis(call, q, k, v, bias, mask)


def forced(
    kernels: SDPBackend | list[SDPBackend],
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None,
) -> Tensor:  # fmt: skip
    with sdpa_kernel(kernels):
        return over_one_batch_axis(call, q, k, v, bias, mask)


def call(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    if bias is not None and not torch.is_grad_enabled():
        bias = bias.detach()  # kernels without a gradient of the bias refuse one that could have it
    if bias is not None and q.dtype == torch.float64:
        bias = bias.double()  # the CPU flash kernel is silently wrong with a float32 bias beside float64
    if bias is not None and q.is_cuda:
        bias = bias.to(q.dtype)  # a kernel may read a float32 bias as half-precision numbers: pytorch#191612
        q = recording(q, bias)  # pytorch#188302
    q, k, v = (readable(x) for x in (q, hide(k, mask), hide(v, mask)))
    both = bias_or_mask(bias, mask)
    if both is None:
        return F.scaled_dot_product_attention(q, k, v)
    if not q.is_cuda:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=readable(both))
    both, empty = with_open_rows(both)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=readable(both)).masked_fill(empty, 0)


def flash_limits(p: CoreProblem) -> Iterable[str]:
    if p.device != "cpu":
        return on_cuda(flash_rules, oldest=(8, 0))(p)
    if p.bias_grad:
        return ["the CPU kernel has no gradient of the bias: use sdpa_math or chunked, or detach the bias"]
    return []


def flash_rules(p: CoreProblem, capability: Capability) -> Iterator[str]:
    yield from half_only(p)
    if p.bias_shape is not None or p.mask:
        yield "takes neither bias nor mask on CUDA: use sdpa_efficient, or flash_attn for a key mask alone"
    if p.c > 256:
        yield f"c={p.c}: a head is at most 256 wide; use sdpa_efficient or sdpa_math"
    if p.training and 192 < p.c <= 224 and capability in ((8, 6), (8, 7), (8, 9), (12, 0), (12, 1)):
        yield f"c={p.c}: no backward for widths of 193 to 224 on this GPU; use sdpa_efficient"
    yield from grid_limits(p)
    yield from flash_index_limit(p)


def efficient_rules(p: CoreProblem, capability: Capability) -> Iterator[str]:
    yield from cutlass_limits(p, capability)
    yield from heads_limit(p)


def cudnn_rules(p: CoreProblem, capability: Capability) -> Iterator[str]:
    yield from half_only(p)
    if p.c % 8 or p.c > 128:
        yield f"c={p.c}: a head's width must be a multiple of 8 up to 128; use sdpa_efficient"
    if p.K == 1:
        yield "one key: takes two or more; use sdpa_efficient"
    yield from grid_limits(p)
    if p.bias_grad:
        yield "has no gradient of the bias: use sdpa_efficient or sdpa_math"
    if p.training and p.K % 128 == 64 and (p.mask or p.bias_shape is not None):
        yield f"K={p.K}: its dq can be NaN where K % 128 is 64 and there is a mask or bias (pytorch#196678)"
    if torch.are_deterministic_algorithms_enabled():
        yield "is not deterministic, which torch.use_deterministic_algorithms forbids: use sdpa_math"


MASK_AND_BIAS = "when a bias meets a mask that varies along the batch: the two become one tensor of the logits' size"

BACKENDS = (
    Backend(
        "sdpa",
        "scaled_dot_product_attention, by the kernel that PyTorch chooses",
        automatic,
        traits=Traits(
            deterministic=False, score_sized=f"{MASK_AND_BIAS}; always where PyTorch chooses the math kernel"
        ),
    ),
    Backend(
        "sdpa_math",
        "scaled_dot_product_attention, plain kernel",
        partial(forced, SDPBackend.MATH),
        traits=Traits(score_sized="always: logits and weights", kernels=("aten::_scaled_dot_product_attention_math",)),
    ),
    Backend(
        "sdpa_flash",
        "scaled_dot_product_attention, FlashAttention kernel",
        partial(forced, SDPBackend.FLASH_ATTENTION),
        limits=flash_limits,
        traits=Traits(
            deterministic=False, score_sized=MASK_AND_BIAS, kernels=("aten::_scaled_dot_product_flash_attention",)
        ),
    ),
    Backend(
        "sdpa_efficient",
        "scaled_dot_product_attention, memory-efficient kernel (CUDA)",
        partial(forced, SDPBackend.EFFICIENT_ATTENTION),
        limits=on_cuda(efficient_rules, oldest=(5, 0)),
        traits=Traits(
            deterministic=False,
            score_sized=f"{MASK_AND_BIAS}; the bias's gradient; a bias or mask with K not a multiple of 16 (padded)",
            kernels=("aten::_scaled_dot_product_efficient_attention",),
        ),
    ),
    Backend(
        "sdpa_cudnn",
        "scaled_dot_product_attention, cuDNN kernel (CUDA)",
        partial(forced, SDPBackend.CUDNN_ATTENTION),
        limits=on_cuda(cudnn_rules, oldest=(8, 0)),
        traits=Traits(
            deterministic=False, score_sized=MASK_AND_BIAS, kernels=("aten::_scaled_dot_product_cudnn_attention",)
        ),
    ),
)
