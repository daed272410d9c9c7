"""Kernels with a fault that somebody once reported, each small: right on a plain problem, wrong where the report says.

``docs/public-reports.md`` lists the reports; those whose kind of fault is among the ``mutants`` are not written again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from mutants import Attend, WrongGradients, plus, product, right
from torch import Tensor

from impls.masks import hide, on_keys

WRAP = 2**12
"""Where indices wrap around in these kernels, in place of 2^31 or 2^32."""


@dataclass(frozen=True)
class Fault:
    """A kernel with the fault of ``report``, and the family of cases, in one dtype, that must reject it."""

    report: str
    family: str
    dtype: str
    attend: Attend


FAULTS: list[Fault] = []


def fault(report: str, family: str, dtype: str = "float32") -> Callable[[Attend], Attend]:
    def register(attend: Attend) -> Attend:
        FAULTS.append(Fault(report, family, dtype, attend))
        return attend

    return register


# Masks and values that are not finite


@fault("google/flax#982", "msa_column", "float16")
def masking_constant_overflows(q, k, v, bias, mask):
    """-1e10 is -inf in float16, and a row of -inf has no softmax."""
    logits = plus(product(q, hide(k, mask)), bias)
    if mask is not None:
        logits = torch.where(on_keys(mask), logits, torch.tensor(-1e10).to(logits.dtype))
    return logits.softmax(-1).to(v.dtype) @ hide(v, mask)


@fault("pytorch/pytorch#109517", "values lowest_row")
def lowest_row_divided_by_nothing(q, k, v, bias, mask):
    """A row at the lowest number takes the path of a row without keys, and is divided by its empty sum."""
    o = right(q, k, v, bias, mask)
    if bias is None:
        return o
    lowest = (bias <= torch.finfo(q.dtype).min).expand(*q.shape[:-1], k.shape[-2]).all(-1, keepdim=True)
    return o / (~lowest).to(o.dtype)


# Bias and its gradient


@fault("aqlaboratory/openfold-3#228", "bias_axes")
def bias_of_the_first_sequence(q, k, v, bias, mask):
    """Right where the bias has length 1 along S; what else it has there is never looked at."""
    if bias is not None and bias.dim() > 3:
        bias = bias[..., :1, :, :, :]
    return right(q, k, v, bias, mask)


@fault("pytorch/pytorch#191612", "values", "float16")
def float32_bias_read_as_half(q, k, v, bias, mask):
    """The bits of a float32 bias, taken two bytes at a time."""
    if bias is not None and bias.dtype != q.dtype and q.element_size() == 2:
        bits = bias.detach().contiguous().view(q.dtype)[..., : bias.shape[-1]].nan_to_num(0, 0, 0)
        bias = bias + (bits.to(bias.dtype) - bias).detach()
    return right(q, k, v, bias, mask)


@fault("pytorch/pytorch#158212", "lengths")
def blocks_of_keys_taken_whole(q, k, v, bias, mask):
    """A block of 128 keys is skipped or taken: right for masks whose edges are the blocks' edges."""
    if mask is None or mask.shape[-1] < 128:
        return right(q, k, v, bias, mask)
    blocks = [block.any(-1, keepdim=True).expand(block.shape) for block in mask.split(128, -1)]
    return right(q, k, v, bias, torch.cat(blocks, -1))


# Shapes, strides and limits


def as_if_contiguous(x: Tensor) -> Tensor:
    strides = [math.prod(x.shape[axis + 1 :]) for axis in range(x.dim())]
    return x + (x.detach().as_strided(x.shape, strides) - x).detach()


@fault("pytorch/pytorch#112577", "layouts heads_last")
def strides_ignored(q, k, v, bias, mask):
    """With a mask, k and v are read in the order of memory."""
    return (
        right(q, k, v, bias, mask) if mask is None else right(q, as_if_contiguous(k), as_if_contiguous(v), bias, mask)
    )


@fault("pytorch/pytorch#191937", "layouts expanded", "bfloat16")
def last_of_expanded_keys_lost(q, k, v, bias, mask):
    """Keys of stride 0 along the heads, and one key left over after blocks of 32."""
    K = k.shape[-2]
    if k.stride(-3) == 0 and K % 32 == 1 and K > 1:
        hidden = torch.arange(K) < K - 1
        mask = hidden if mask is None else mask & hidden
    return right(q, k, v, bias, mask)


@fault("flashinfer-ai/flashinfer#3125", "batches")
def batch_past_the_grid_unwritten(q, k, v, bias, mask):
    """A launch with too large a grid fails quietly past 65,535."""
    o = right(q, k, v, bias, mask)
    return o if o.dim() != 4 else torch.cat([o[:65_535], 0 * o[65_535:]])


@fault("pytorch/pytorch#187227", "lengths")
def rows_of_the_bias_wrap_around(q, k, v, bias, mask):
    """The offset of a row, its number times K, is kept in too few bits."""
    if bias is None or bias.shape[-1] == 1:
        return right(q, k, v, bias, mask)
    rows, K = bias.shape[-2:]
    offsets = torch.arange(rows) * K % WRAP
    flat = torch.nn.functional.pad(bias.flatten(-2), (0, K))
    return right(q, k, v, flat[..., offsets[:, None] + torch.arange(K)], mask)


def wrapped(x: Tensor) -> Tensor:
    """``x`` by offsets that wrap around, for inputs whose values are not too far apart in memory."""
    offsets = sum(
        (torch.arange(n) * stride).view(-1, *(1,) * (x.dim() - 1 - axis))
        for axis, (n, stride) in enumerate(zip(x.shape, x.stride(), strict=True))
    )
    memory = torch.empty(0, dtype=x.dtype).set_(x.detach().untyped_storage())[x.storage_offset() :]
    return x + (memory[offsets % WRAP] - x).detach()


@fault("thu-ml/SageAttention#386", "layouts packed")
def offsets_wrap_around(q, k, v, bias, mask):
    """Index times stride in too few bits: the strides of a fused projection are three times as large."""
    return right(wrapped(q), wrapped(k), wrapped(v), bias, mask)


def nan_in_dq(where: Callable[..., bool]) -> Callable[..., tuple[Tensor | None, ...]]:
    def change(dq, dk, dv, dbias, inputs, do):
        return (dq * torch.nan if where(*inputs) else dq), dk, dv, dbias

    return change


@fault("Dao-AILab/flash-attention#334", "lengths")
def one_query_one_key_nan(q, k, v, bias, mask):
    wrong = nan_in_dq(lambda q, k, v, bias, mask: q.shape[-2] == k.shape[-2] == 1)
    return WrongGradients.apply(wrong, q, k, v, bias, mask)


# Precision and architecture


@fault("pytorch/pytorch#196678", "values deep", "bfloat16")
def deep_logits_at_half_a_block_nan(q, k, v, bias, mask):
    """A padded half of a block of 128 keys has logits of 0, far above a true maximum of -120."""
    wrong = nan_in_dq(
        lambda q, k, v, bias, mask: mask is not None and k.shape[-2] % 128 == 64 and bool(product(q, k).amax() < -88)
    )
    return WrongGradients.apply(wrong, q, k, v, bias, mask)


@fault("NVIDIA/cudnn-frontend#1072", "values deep", "bfloat16")
def one_query_with_negative_lse_nan(q, k, v, bias, mask):
    def change(dq, dk, dv, dbias, inputs, do):
        q, k = inputs[:2]
        broken = q.shape[-2] == 1 and bool(product(q, k).amax() < -88)
        return dq, *((dk * torch.nan, dv * torch.nan) if broken else (dk, dv)), dbias

    return WrongGradients.apply(change, q, k, v, bias, mask)


@fault("deepspeedai/DeepSpeed#5052", "lengths", "bfloat16")
def blocks_of_zeros(q, k, v, bias, mask):
    """Every second block of 64 queries is never written."""
    written = torch.arange(q.shape[-2]) // 64 % 2 == 0
    return right(q, k, v, bias, mask) * written[:, None]


@fault("aqlaboratory/openfold#468", "msa_row")
def built_for_another_gpu(q, k, v, bias, mask):
    """Nothing runs, nothing is said: the output holds what the memory held."""
    generator = torch.Generator().manual_seed(0)
    return right(q, k, v, bias, mask) * 0 + torch.randn(q.shape, generator=generator).to(q.dtype)
