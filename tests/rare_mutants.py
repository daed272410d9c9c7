"""Wrong kernels that are right on most problems: beyond a size, in a layout, at a second call they are not."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from mutants import MUTANTS, Attend, first_keys, mutant, plus, product, right, softmax
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from impls.masks import hide, on_keys

__all__ = ["MUTANTS"]


# What outlives a call

_WORKSPACE: dict[object, Tensor] = {}


def workspace(key: object, x: Tensor) -> Tensor:
    """``x`` where the last one of its key lay."""
    return _WORKSPACE.setdefault((key, x.shape, x.dtype), torch.empty_like(x)).copy_(x.detach())


@mutant
def output_in_a_workspace(q, k, v, bias, mask):
    """Without gradients the caller's result is overwritten by the next call of the same shape."""
    o = right(q, k, v, bias, mask)
    return o if torch.is_grad_enabled() else workspace("o", o)


@mutant
def saved_in_a_workspace(q, k, v, bias, mask):
    """What the backward pass needs lies where the next forward pass puts its own."""
    order = itertools.count()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: workspace(next(order), x), lambda x: x.clone()):
        return right(q, k, v, bias, mask)


@mutant
def second_backward_halved(q, k, v, bias, mask):
    """The backward pass works in place on what the forward pass saved."""

    def used_up(x):
        value = x.clone()
        if x.is_floating_point():
            x.mul_(0.5)
        return value

    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.detach().clone(), used_up):
        return right(q, k, v, bias, mask)


# On paths that are seldom taken


@mutant
def nan_in_masked_values_without_gradients(q, k, v, bias, mask):
    if torch.is_grad_enabled():
        return right(q, k, v, bias, mask)
    return softmax(plus(product(q, k.nan_to_num(0, 0, 0)), bias), mask).to(v.dtype) @ v


@mutant
def bias_of_eight_heads(q, k, v, bias, mask):
    if bias is not None and bias.dim() > 2 and bias.shape[-3] > 8:
        bias = bias[..., torch.arange(bias.shape[-3]) % 8, :, :]
    return right(q, k, v, bias, mask)


def dbias_of_the_first_queries(number: Callable[[int], int]) -> Attend:
    """Of so many of Q, if it has to be summed over them, and Q is more than a block of 32."""

    def attend(q, k, v, bias, mask):
        Q = q.shape[-2]
        if bias is None or bias.dim() < 2 or bias.shape[-2] != 1 or Q < 32 or not bias.requires_grad:
            return right(q, k, v, bias, mask)
        bias = bias.expand(*bias.shape[:-2], Q, bias.shape[-1])
        kept = (torch.arange(Q) < number(Q))[:, None]
        bias.register_hook(lambda dbias: dbias * kept)
        return right(q, k, v, bias, mask)

    return attend


def rows_far_below_zero_are_empty(q, k, v, bias, mask):
    """In half precision such a row has lost all digits of its logits anyway."""
    if bias is None:
        return right(q, k, v, bias, mask)
    largest = plus(product(q, hide(k, mask)), bias).amax(-1, keepdim=True)
    return torch.where(largest > -1e4, right(q, k, v, bias, mask), 0)


for name, number in {"whole_blocks_of": lambda Q: Q // 32 * 32, "the_first_256": lambda Q: 256}.items():
    attend = dbias_of_the_first_queries(number)
    attend.__name__ = f"dbias_of_{name}_queries"
    mutant(attend)
mutant(rows_far_below_zero_are_empty, ("float64", "float32"))


# Blocks of keys and queries, and the masks of them


def stops_at_a_masked_block_of(n: int) -> Attend:
    """Padding is taken to be at the end: the loop over blocks of keys stops at the first without a valid one."""

    def attend(q, k, v, bias, mask):
        if mask is None:
            return right(q, k, v, bias, mask)
        reached, seen = torch.ones_like(mask[..., :1]), []
        for block in mask.split(n, -1):
            reached = reached & block.any(-1, keepdim=True)
            seen.append(block & reached)
        return right(q, hide(k, mask), hide(v, mask), bias, torch.cat(seen, -1) if seen else mask)

    attend.__name__ = f"stops_at_a_masked_block_of_{n}"
    return attend


def masks_in_a_ring_of(n: int) -> Attend:
    """The masks of blocks of 128 keys are loaded ahead into n places; from block n on, those of the first are read."""

    def attend(q, k, v, bias, mask):
        if mask is None or mask.shape[-1] <= 128 * n:
            return right(q, k, v, bias, mask)
        read = mask[..., torch.arange(mask.shape[-1]) % (128 * n)]
        return right(q, hide(k, mask), hide(v, mask), bias, read)

    attend.__name__ = f"masks_in_a_ring_of_{n}"
    return attend


for attend in (*map(stops_at_a_masked_block_of, (16, 64, 128)), *map(masks_in_a_ring_of, (2, 3))):
    mutant(attend)


@mutant
def rescaling_deferred(q, k, v, bias, mask):
    """The base of the exponentials moves when a row's maximum grows by more than 8; the sum so far is not rescaled."""
    wide = torch.promote_types(q.dtype, torch.float32)
    logits = plus(product(q.to(wide), hide(k, mask).to(wide)), bias)
    if mask is not None:
        logits = logits.masked_fill(~on_keys(mask), -torch.inf)
    base = torch.full_like(logits[..., :1].detach(), torch.finfo(wide).min)
    total, o = 0, 0
    for part, values in zip(logits.split(64, -1), hide(v, mask).to(wide).split(64, -2), strict=True):
        top = part.detach().amax(-1, keepdim=True) if part.shape[-1] else base
        new = torch.where(top > base + 8, top, base)
        weights = (part - new).exp()
        started = base > torch.finfo(wide).min
        total = torch.where(started, total, 0) + weights.sum(-1, keepdim=True)
        o, base = o * (base - new).exp() + weights @ values, new
    return (o / torch.where(total == 0, 1, total)).to(q.dtype)


@mutant
def two_rows_asked_whether_any_key_is_masked(q, k, v, bias, mask):
    """The first row and the last, from 64 keys on."""
    if mask is not None and mask.shape[-1] >= 64 and mask.numel():
        rows = mask.reshape(-1, mask.shape[-1])
        if rows[0].all() and rows[-1].all():
            return right(q, hide(k, mask), hide(v, mask), bias, None)
    return right(q, k, v, bias, mask)


_BIASES, _MASKS = WeakTensorKeyDictionary(), WeakTensorKeyDictionary()


@mutant
def mask_read_once(q, k, v, bias, mask):
    """What a mask is turned into is kept while the mask lives, though it may change in place."""
    return right(q, k, v, bias, None if mask is None else _MASKS.setdefault(mask, mask.clone()))


@mutant
def bias_of_inference_read_once(q, k, v, bias, mask):
    """As long as its version is the same; tensors made in inference mode count none, and are taken not to change."""
    if bias is not None and bias.is_inference():
        bias = _BIASES.setdefault(bias, bias.clone())
    return right(q, k, v, bias, mask)


# Strides and offsets


def one_stride_for_the_leading_axes(x: Tensor, kept: int) -> Tensor:
    """``x`` as if all axes before the last ``kept`` were one, which those of a cropped tensor are not."""
    leading, strides = x.shape[: x.dim() - kept], x.stride()
    if len(leading) < 2 or not x.numel() or 0 in strides:
        return x
    size = (leading.numel(), *x.shape[x.dim() - kept :])
    read = x.as_strided(size, (strides[len(leading) - 1], *strides[len(leading) :]), x.storage_offset())
    return read.reshape(x.shape)


@mutant
def mask_of_one_leading_stride(q, k, v, bias, mask):
    return right(q, k, v, bias, None if mask is None else one_stride_for_the_leading_axes(mask, 1))


class Misread(torch.autograd.Function):
    """Nothing; the cotangent is read as ``read`` has it."""

    @staticmethod
    def forward(ctx, o, read):
        ctx.read = read
        return o.view_as(o)

    @staticmethod
    def backward(ctx, do):
        return ctx.read(do), None


@mutant
def cotangent_of_one_leading_stride(q, k, v, bias, mask):
    return Misread.apply(right(q, k, v, bias, mask), lambda do: one_stride_for_the_leading_axes(do, 3))


@mutant
def gradients_of_large_biases_in_one_place(q, k, v, bias, mask):
    """From 1 MiB of float32 on: the caller's is overwritten by the next."""
    if bias is not None and bias.numel() >= 2**18 and bias.requires_grad:
        bias = Misread.apply(bias, lambda dbias: workspace("dbias", dbias))
    return right(q, k, v, bias, mask)


@mutant
def bias_offset_of_16_bits(q, k, v, bias, mask):
    if bias is not None and bias.dim() > 1 and bias.shape[-2] * bias.shape[-1] > 2**16:
        offsets = torch.arange(bias.shape[-2] * bias.shape[-1]) % 2**16
        bias = bias.flatten(-2)[..., offsets].view(bias.shape)
    return right(q, k, v, bias, mask)


# Programs that are not run


class FirstPrograms(torch.autograd.Function):
    """x (*, length, c) forward and its gradient backward, zero beyond so many blocks of 64 rows."""

    @staticmethod
    def forward(ctx, x, forward, backward):
        ctx.programs = backward
        return FirstPrograms.run(x, forward)

    @staticmethod
    def backward(ctx, do):
        return FirstPrograms.run(do, ctx.programs), None, None

    @staticmethod
    def run(x, programs):
        blocks = max(1, -(-x.shape[-2] // 64))
        rows = torch.arange(x[..., 0, 0].numel()) if x.numel() else torch.zeros(0)
        beyond = (rows >= programs / blocks).view(*x.shape[:-2], 1, 1)
        return x.masked_fill(beyond, 0)


@mutant
def grid_of_65535(q, k, v, bias, mask):
    return FirstPrograms.apply(right(q, k, v, bias, mask), 65535, torch.inf)


@mutant
def backward_grid_of_65535(q, k, v, bias, mask):
    k, v = (FirstPrograms.apply(x, torch.inf, 65535) for x in (k, v))
    return right(q, k, v, bias, mask)


@mutant
def dk_only_with_dq(q, k, v, bias, mask):
    """One pass makes both, and is skipped where q needs no gradient."""
    if k.requires_grad and not q.requires_grad:
        k = k.view_as(k)
        k.register_hook(torch.zeros_like)
    return right(q, k, v, bias, mask)


@mutant
def dbias_of_whole_eighths_of_the_sequences(q, k, v, bias, mask):
    """Eight workers sum an eighth of the sequences each, from 64 on; what is left over is not summed."""
    S = q.shape[-4] if q.dim() > 3 else 0
    if bias is None or S < 64 or not bias.requires_grad or (bias.dim() > 3 and bias.shape[-4] > 1):
        return right(q, k, v, bias, mask)
    bias = bias.expand(*(bias.shape[:-4]), S, *bias.shape[-3:])
    summed = (torch.arange(S) < S // 8 * 8)[:, None, None, None]
    bias.register_hook(lambda dbias: dbias * summed)
    return right(q, k, v, bias, mask)


# What a call is seldom asked for


@mutant
def first_key_always_valid(q, k, v, bias, mask):
    """Where the running maximum starts, masked or not; rows without a valid key are seen to."""
    if mask is None or not mask.shape[-1]:
        return right(q, k, v, bias, mask)
    seen = torch.cat([mask.any(-1, keepdim=True), mask[..., 1:]], -1)
    return right(q, hide(k, mask), hide(v, mask), bias, seen)


@mutant
def nan_after_a_masked_block_of_128(q, k, v, bias, mask):
    """-inf less -inf, where no key of the first block is valid; rows without any valid key are seen to."""
    o = right(q, k, v, bias, mask)
    if mask is None:
        return o
    late = mask.any(-1, keepdim=True) & ~mask[..., :128].any(-1, keepdim=True)
    return o.masked_fill(on_keys(late), torch.nan)


@mutant
def nothing_written_where_no_key_is_valid(q, k, v, bias, mask):
    """Valid keys are packed, and there is none to start a program for."""
    o = right(q, k, v, bias, mask)
    return o if mask is None or mask.any() else o + 1


@mutant
def mask_without_leading_axes_ignored(q, k, v, bias, mask):
    return right(q, k, v, bias, None if mask is not None and q.dim() - 2 > mask.dim() == 1 else mask)


@mutant
def rows_emptied_by_mask_and_bias_together_nan(q, k, v, bias, mask):
    """Each alone is asked whether it leaves a key."""
    o = right(q, k, v, bias, mask)
    if bias is None or mask is None:
        return o
    hidden, masked = bias == -torch.inf, on_keys(~mask)
    alone = hidden.all(-1, keepdim=True) | masked.all(-1, keepdim=True)
    return o.masked_fill((hidden | masked).all(-1, keepdim=True) & ~alone, torch.nan)


@mutant
def last_block_dropped_without_gradients(q, k, v, bias, mask):
    """Of 64 keys, if it is not whole."""
    K = k.shape[-2]
    return first_keys(K if torch.is_grad_enabled() or K < 64 else K // 64 * 64, q, k, v, bias, mask)


@mutant
def channels_beyond_128_not_multiplied(q, k, v, bias, mask):
    return right(torch.cat([q[..., :128], 0 * q[..., 128:]], -1), k, v, bias, mask)


@mutant
def addresses_rounded_down_to_four(q, k, v, bias, mask):
    """As loads of 16 bytes have it."""

    def read(x):
        if x is None or 0 in (*x.shape, *x.stride()):
            return x
        return x.as_strided(x.shape, x.stride(), x.storage_offset() // 4 * 4)

    return right(*map(read, (q, k, v, bias, mask)))


@mutant
def cotangent_of_a_sum_not_read(q, k, v, bias, mask):
    """One of stride 0."""
    return Misread.apply(right(q, k, v, bias, mask), lambda do: do if do.stride(-1) else torch.zeros_like(do))
