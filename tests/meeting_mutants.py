"""Wrong kernels that are right unless two or three things meet: no gradient, no mask, a width, one bias for all heads.

Found by readers of the fixed cases, who looked for what lies between them.
"""

from __future__ import annotations

import math

import torch
from mutants import mutant, plus, product, right, softmax
from rare_mutants import MUTANTS, Misread
from torch import Tensor

from impls.masks import hide, on_keys

__all__ = ["MUTANTS"]


def forward_only(*inputs: Tensor | None) -> bool:
    return not (torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs))


# No gradients


@mutant
def scale_of_the_padded_width_without_gradients(q, k, v, bias, mask):
    """The width is padded to a power of two."""
    c = q.shape[-1]
    if forward_only(q, k, v, bias):
        q = q * math.sqrt(c / 2 ** math.ceil(math.log2(c)))
    return right(q, k, v, bias, mask)


@mutant
def bias_of_the_first_sequence_without_gradients(q, k, v, bias, mask):
    if bias is not None and bias.dim() > 3 and forward_only(q, k, v, bias):
        bias = bias[..., :1, :, :, :]
    return right(q, k, v, bias, mask)


def logits_clamped_without_gradients(q, k, v, bias, mask):
    """At 80, so that no maximum need be taken off. In bfloat16 such logits are rounded by as much as they differ."""
    if not forward_only(q, k, v, bias):
        return right(q, k, v, bias, mask)
    wide = torch.promote_types(q.dtype, torch.float32)
    logits = plus(product(q.to(wide), hide(k, mask).to(wide)), bias).clamp(max=80)
    weights = (logits if mask is None else logits.masked_fill(~on_keys(mask), -torch.inf)).exp()
    total = weights.sum(-1, keepdim=True)
    return (weights / torch.where(total == 0, 1, total) @ hide(v, mask).to(wide)).to(q.dtype)


mutant(logits_clamped_without_gradients, ("float64", "float32", "float16"))


_BIASES: dict[object, Tensor] = {}


@mutant
def bias_kept_by_its_address(q, k, v, bias, mask):
    """What a bias is converted to is kept for the next of the same address, shape, strides and version."""
    if bias is not None and forward_only(q, k, v, bias):
        key = (bias.data_ptr(), bias.shape, bias.stride(), bias._version, bias.dtype)
        if key not in _BIASES:
            _BIASES.clear()
        bias = _BIASES.setdefault(key, bias.clone())
    return right(q, k, v, bias, mask)


_OUTPUTS: dict[object, list[Tensor]] = {}


@mutant
def two_outputs_in_turns_without_gradients(q, k, v, bias, mask):
    """The caller's result is overwritten by the call after next of the same shape."""
    o = right(q, k, v, bias, mask)
    if not forward_only(q, k, v, bias):
        return o
    buffers = _OUTPUTS.setdefault((o.shape, o.dtype), [torch.empty_like(o), torch.empty_like(o)])
    buffers.reverse()
    return buffers[0].copy_(o)


@mutant
def values_of_one_key_without_gradients(q, k, v, bias, mask):
    """v itself, which the caller may write to."""
    if k.shape[-2] == 1 and bias is mask is None and forward_only(q, k, v):
        return v.expand(q.shape)
    return right(q, k, v, bias, mask)


@mutant
def parts_of_long_rows_joined_in_another_base_without_gradients(q, k, v, bias, mask):
    """Few queries and many keys: halves, whose log-sum-exp is to base 2, are weighed by powers of e."""
    K = k.shape[-2]
    if q.shape[-2] > 16 or K < 1024 or mask is not None or not forward_only(q, k, v, bias):
        return right(q, k, v, bias, mask)
    wide, o, lse = torch.promote_types(q.dtype, torch.float32), [], []
    for j in (slice(0, K // 2), slice(K // 2, K)):
        b = bias if bias is None or bias.shape[-1] == 1 else bias[..., j]
        o.append(right(q, k[..., j, :], v[..., j, :], b, None))
        lse.append(plus(product(q.to(wide), k[..., j, :].to(wide)), b).logsumexp(-1, keepdim=True) / math.log(2))
    return (torch.stack(lse).softmax(0) * torch.stack(o)).sum(0).to(q.dtype)


@mutant
def last_queries_not_written_without_gradients(q, k, v, bias, mask):
    """Those of a block of 16 that is not whole, where there is neither a bias nor a mask."""
    o, Q = right(q, k, v, bias, mask), q.shape[-2]
    if bias is mask is None and Q > 16 and forward_only(q, k, v):
        o[..., Q // 16 * 16 :, :] = 0
    return o


# Parts of the batch


@mutant
def bias_of_a_part_that_of_its_first_sample(q, k, v, bias, mask):
    """More than a million logits are computed part by part, of which one begins in a sample and ends in the next."""
    if q.dim() != 5 or bias is None or bias.dim() != 5 or bias.shape[1] > 1 or len(bias) != len(q):
        return right(q, k, v, bias, mask)
    B, S, H, Q, _ = q.shape
    rows = max(1, min(S, 2**20 // (H * Q * k.shape[-2])))
    samples = torch.arange(B * S) // rows * rows // S
    return right(q, k, v, bias[samples, 0].unflatten(0, (B, S)), mask)


# Blocks of keys


def not_rescaled(q, k, v, bias, mask):
    """Each block of 64 keys takes off the maximum so far; earlier ones are not rescaled in o, and are in the total."""
    logits = plus(product(q, hide(k, mask)), bias)
    if mask is not None:
        logits = logits.masked_fill(~on_keys(mask), -torch.inf)
    K = k.shape[-2]
    ends = (torch.arange(K) // 64 * 64 + 63).clamp(max=K - 1)
    top = logits.detach().cummax(-1).values.clamp(min=torch.finfo(q.dtype).min)
    total = (logits - top[..., -1:]).exp().sum(-1, keepdim=True)
    return (logits - top[..., ends]).exp() / torch.where(total == 0, 1, total) @ hide(v, mask)


@mutant
def blocks_not_rescaled_without_a_mask(q, k, v, bias, mask):
    return not_rescaled(q, k, v, bias, mask) if mask is None and k.shape[-2] > 64 else right(q, k, v, bias, mask)


@mutant
def blocks_not_rescaled_at_widths_32_64_128(q, k, v, bias, mask):
    at_fault = q.shape[-1] in (32, 64, 128) and k.shape[-2] > 64
    return not_rescaled(q, k, v, bias, mask) if at_fault else right(q, k, v, bias, mask)


@mutant
def last_block_dropped_without_a_mask(q, k, v, bias, mask):
    """Of 128 keys, if it is not whole and there are whole ones."""
    K = k.shape[-2]
    if mask is not None or K < 128:
        return right(q, k, v, bias, mask)
    kept = K // 128 * 128
    if bias is not None and bias.shape[-1] > 1:
        bias = bias[..., :kept]
    return right(q, k[..., :kept, :], v[..., :kept, :], bias, None)


def halves_of_the_keys_added_by_their_lengths(q, k, v, bias, mask):
    """One query and many keys are split in two, and the answers combined by the number of keys alone. In bfloat16 the
    two differ by little more than they are rounded.
    """
    K = k.shape[-2]
    if bias is not None or mask is not None or q.shape[-2] != 1 or K < 256:
        return right(q, k, v, bias, mask)
    first, last = (right(q, x, y, None, None) for x, y in zip(k.split(K // 2, -2), v.split(K // 2, -2), strict=False))
    return (first * (K // 2) + last * (K - K // 2)) / K


mutant(halves_of_the_keys_added_by_their_lengths, ("float64", "float32", "float16"))


@mutant
def first_block_hidden_by_the_bias_nan(q, k, v, bias, mask):
    """-inf less -inf, where the bias leaves none of the first 8 keys; masks, and rows without a key, are seen to."""
    o = right(q, k, v, bias, mask)
    if bias is None or bias.shape[-1] <= 8:
        return o
    hidden = bias == -torch.inf
    return o.masked_fill(hidden[..., :8].all(-1, keepdim=True) & ~hidden.all(-1, keepdim=True), torch.nan)


@mutant
def padding_told_by_the_shortest_row(q, k, v, bias, mask):
    """Where the row with the fewest valid keys is padded, all are taken to be, each after as many keys as it has."""
    if mask is None or mask.numel() < 2:
        return right(q, k, v, bias, mask)
    rows = mask.expand(*mask.shape[:-1], k.shape[-2]).reshape(-1, k.shape[-2])
    padded = torch.arange(k.shape[-2]) < rows.sum(-1, keepdim=True)
    shortest = rows.sum(-1).argmin()
    if torch.equal(rows[shortest], padded[shortest]):
        k, v = hide(k, mask), hide(v, mask)
        mask = padded.view(*mask.shape[:-1], -1)
    return right(q, k, v, bias, mask)


# Axes and layouts


@mutant
def v_read_by_the_strides_of_k(q, k, v, bias, mask):
    if v.stride() != k.stride() and v.numel() and v.is_contiguous() is not k.is_contiguous():
        last = sum((n - 1) * step for n, step in zip(k.shape, k.stride(), strict=True)) + v.storage_offset()
        if last < v.untyped_storage().nbytes() // v.element_size():
            v = v.as_strided(v.shape, k.stride())
    return right(q, k, v, bias, mask)


@mutant
def mask_row_by_remainder(q, k, v, bias, mask):
    """A mask with fewer rows than there are problems is read from its start again."""
    batch = q.shape[:-3]
    if mask is not None and mask.numel() and batch.numel():
        rows = mask.reshape(-1, mask.shape[-1])
        mask = rows[torch.arange(batch.numel()) % len(rows)].reshape(*batch, -1)
    return right(q, k, v, bias, mask)


@mutant
def mask_of_one_column_ends_after_it(q, k, v, bias, mask):
    """Padded to the number of keys, instead of broadcast."""
    if mask is not None:
        mask = torch.nn.functional.pad(mask, (0, k.shape[-2] - mask.shape[-1]), value=False)
    return right(q, hide(k, mask), hide(v, mask), bias, mask)


@mutant
def bias_read_by_a_prefix_of_three_leading_axes(q, k, v, bias, mask):
    batch = q.shape[:-3]
    if bias is not None and len(batch) > 2 and bias.dim() == q.dim() and q.numel() and bias.numel():
        rows = bias.reshape(-1, *bias.shape[-3:])
        bias = rows[torch.arange(batch.numel()) * len(rows) // batch.numel()].unflatten(0, batch)
    return right(q, k, v, bias, mask)


# Gradients


@mutant
def dbias_of_sixteen_heads(q, k, v, bias, mask):
    """Where the heads share a bias."""
    H = q.shape[-3]
    if bias is not None and bias.requires_grad and H > 16 and bias.shape[-3:-2] in ((1,), ()):
        bias = bias.expand(*bias.shape[:-3], H, *bias.shape[-2:])
        bias.register_hook(lambda dbias: dbias * (torch.arange(H) < 16)[:, None, None])
    return right(q, k, v, bias, mask)


@mutant
def bias_of_the_first_heads_in_the_backward(q, k, v, bias, mask):
    """Heads are taken 16 at a time, and the backward pass reads the bias of each group from head 0 on."""
    H, o = q.shape[-3], right(q, k, v, bias, mask)
    if bias is None or bias.dim() < 3 or not 16 < H == bias.shape[-3]:
        return o
    misread = right(q, k, v, bias[..., torch.arange(H) % 16, :, :], mask)
    return misread + (o - misread).detach()


@mutant
def dbias_scaled_without_dq(q, k, v, bias, mask):
    """The gradient of the logits is scaled in place for dk, where dq does not need it as it was."""
    if bias is not None and bias.requires_grad and k.requires_grad and not q.requires_grad:
        bias = bias.view_as(bias)
        bias.register_hook(lambda dbias: dbias * q.shape[-1] ** -0.5)
    return right(q, k, v, bias, mask)


@mutant
def cotangent_without_its_offset(q, k, v, bias, mask):
    """A contiguous one is read from the start of its memory."""

    def read(do):
        return do.as_strided(do.shape, do.stride(), 0) if do.is_contiguous() else do

    return Misread.apply(right(q, k, v, bias, mask), read)


class Kept(torch.autograd.Function):
    """Nothing; the backward pass takes D = do . o from an o that autograd does not watch: what that is off by changes
    every logit's gradient by as many times its weight, and the weights are the gradient of the log-sum-exp.
    """

    @staticmethod
    def forward(ctx, o, lse):
        ctx.o, ctx.kept = o.clone(), o.clone()
        return ctx.kept

    @staticmethod
    def backward(ctx, do):
        return do, (do * (ctx.o - ctx.kept)).sum(-1).to(torch.promote_types(do.dtype, torch.float32))


def log_sum_exp(q, k, bias, mask):
    wide = torch.promote_types(q.dtype, torch.float32)
    logits = plus(product(q.to(wide), hide(k, mask).to(wide)), bias)
    if mask is not None:
        logits = logits.masked_fill(~on_keys(mask), -1e30)
    return logits.clamp(min=-1e30).logsumexp(-1)


@mutant
def output_kept_beside_autograd(q, k, v, bias, mask):
    o = right(q, k, v, bias, mask)
    return Kept.apply(o, log_sum_exp(q, k, bias, mask)) if o.requires_grad else o


class OfTheFirstPass(torch.autograd.Function):
    """Nothing; the backward pass takes D of the first pass through a graph that is kept, whatever its cotangent was."""

    @staticmethod
    def forward(ctx, o, lse):
        ctx.o, ctx.D = o.clone(), None
        return o.view_as(o)

    @staticmethod
    def backward(ctx, do):
        D = (do * ctx.o).sum(-1).to(torch.promote_types(do.dtype, torch.float32))
        ctx.D = D if ctx.D is None else ctx.D
        return do, D - ctx.D


@mutant
def backward_prepared_once(q, k, v, bias, mask):
    o = right(q, k, v, bias, mask)
    return OfTheFirstPass.apply(o, log_sum_exp(q, k, bias, mask)) if o.requires_grad else o


_LEFT: dict[torch.dtype, Tensor] = {}


@mutant
def rows_left_from_before(q, k, v, bias, mask):
    """Queries are copied to where those of larger calls were; what is left behind them has weight zero."""
    o, n = right(q, k, v, bias, mask), q.numel()
    if q.dtype not in _LEFT or len(_LEFT[q.dtype]) < n:
        _LEFT[q.dtype] = q.new_zeros(n)
    _LEFT[q.dtype][:n] = q.detach().flatten()
    return o + 0 * _LEFT[q.dtype][n:].sum()


class Recomputed(torch.autograd.Function):
    """The backward pass recomputes everything, with the mask that the caller's tensor then holds."""

    @staticmethod
    def forward(ctx, q, k, v, bias, mask):
        ctx.save_for_backward(q, k, v, bias)
        ctx.mask = mask
        return right(q, k, v, bias, mask)

    @staticmethod
    def backward(ctx, do):
        inputs = [None if x is None else x.detach().requires_grad_() for x in ctx.saved_tensors]
        with torch.enable_grad():
            o = right(*inputs, ctx.mask)
        found = torch.autograd.grad(o, [x for x in inputs if x is not None], do)
        return *found, *[None] * (5 - len(found))


@mutant
def mask_kept_beside_autograd(q, k, v, bias, mask):
    return Recomputed.apply(q, k, v, bias, mask)


# Layouts


@mutant
def slices_gathered_from_before_k(q, k, v, bias, mask):
    """Slices of one tensor at equal strides are read as q, k and v in this order, from one step before k."""
    step = v.storage_offset() - k.storage_offset()
    first = k.storage_offset() - step
    together = len({x.untyped_storage().data_ptr() for x in (q, k, v)}) == 1 and q.stride() == k.stride() == v.stride()
    if together and q.shape == k.shape and step > 0 and first >= 0:
        q = q + (q.detach().as_strided(q.shape, q.stride(), first) - q).detach()
    return right(q, k, v, bias, mask)


class LaidOut(torch.autograd.Function):
    """Its gradient gets the strides of ``x``."""

    @staticmethod
    def forward(ctx, x):
        ctx.strides = x.stride()
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dx):
        return dx if 0 in ctx.strides else torch.empty_strided(dx.shape, ctx.strides, dtype=dx.dtype).copy_(dx)


@mutant
def gradients_laid_out_as_their_inputs(q, k, v, bias, mask):
    """Where windows of keys share memory, so do their gradients."""
    return right(q, LaidOut.apply(k), LaidOut.apply(v), bias, mask)


@mutant
def mask_found_by_two_integers(q, k, v, bias, mask):
    """So many entries in turn share a mask, and the masks come round again: as if no axis amid others were shared."""
    if mask is None:
        return right(q, k, v, bias, mask)
    batch = q.shape[:-3]
    own = (1,) * (len(batch) + 1 - mask.dim()) + mask.shape[:-1]
    behind = next((i for i, n in enumerate(reversed(own)) if n > 1), len(own))
    entries = torch.arange(math.prod(batch)) // math.prod(batch[len(batch) - behind :]) % math.prod(own)
    return right(q, k, v, bias, mask.reshape(-1, mask.shape[-1])[entries].view(*batch, mask.shape[-1]))


# Values


def products_clamped_at_100(q, k, v, bias, mask):
    """In bfloat16 and float16 such products are rounded by as much as they differ."""
    logits = plus(product(q, hide(k, mask)).clamp(-100, 100), bias)
    return softmax(logits, mask).to(v.dtype) @ hide(v, mask)


mutant(products_clamped_at_100, ("float64", "float32"))


def blocks_of_small_weights_left_out(q, k, v, bias, mask):
    """Blocks of 128 keys, each below one rounding of the largest of the first: together they may be the answer."""
    logits = plus(product(q, hide(k, mask)), bias)
    wide = torch.promote_types(q.dtype, torch.float32)
    least = logits[..., :128].detach().amax(-1, keepdim=True) + math.log(torch.finfo(wide).eps)
    kept = [block.masked_fill(block.amax(-1, keepdim=True) < least, -torch.inf) for block in logits.split(128, -1)]
    return softmax(torch.cat(kept, -1), mask).to(v.dtype) @ hide(v, mask)


mutant(blocks_of_small_weights_left_out, ("float64", "float32"))


@mutant
def blank_bias_left_out(q, k, v, bias, mask):
    """And its gradient with it."""
    return right(q, k, v, bias if bias is None or bias.any() else bias.detach() + 0 * bias, mask)


# Precision


def denominator_in_half_precision(q, k, v, bias, mask):
    """Block by block of 16 keys: from 1 / eps on, nothing more is added."""
    logits = plus(product(q.float(), hide(k, mask).float()), bias)
    if mask is not None:
        logits = logits.masked_fill(~on_keys(mask), -torch.inf)
    top = logits.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
    weights, total = (logits - top).exp(), torch.zeros_like(top, dtype=q.dtype)
    for block in weights.split(16, -1):
        total = (total + block.sum(-1, keepdim=True)).to(q.dtype)
    total = total.float()
    return (weights @ hide(v, mask).float() / torch.where(total == 0, 1, total)).to(q.dtype)


mutant(denominator_in_half_precision, ("bfloat16",))


def bfloat16_as_float16(q, k, v, bias, mask):
    """On a GPU that has no bfloat16: what is too large for float16 is clamped, what is too small is lost."""
    q, k, v = (hide(x, mask if x is not q else None).clamp(-65504, 65504).to(torch.float16) for x in (q, k, v))
    return right(q, k, v, None if bias is None else bias.float(), mask).to(torch.bfloat16)


mutant(bfloat16_as_float16, ("bfloat16",))


def computed_in_the_dtype_of_the_bias(q, k, v, bias, mask):
    if bias is None or bias.dtype == q.dtype:
        return right(q, k, v, bias, mask)
    return right(*(x.to(bias.dtype) for x in (q, k, v)), bias, mask).to(q.dtype)


mutant(computed_in_the_dtype_of_the_bias, ("float64",))


class SharedByGroups(torch.autograd.Function):
    """x for all N; its gradient is a sum in its own dtype, of groups of four."""

    @staticmethod
    def forward(ctx, x, N):
        return x.expand(N, *x.shape[1:])

    @staticmethod
    def backward(ctx, dx):
        total = torch.zeros_like(dx[:1])
        for group in dx.float().split(4):
            total += group.sum(0, keepdim=True).to(dx.dtype)
        return total, None


def dbias_of_groups_added_in_half_precision(q, k, v, bias, mask):
    """A sum of many terms of one sign comes to a halt where it is 1 / eps of them; others are as good as rounded."""
    if bias is not None and bias.dim() == q.dim() == 4 and len(bias) == 1 and bias.dtype == q.dtype:
        bias = SharedByGroups.apply(bias, len(q))
    return right(q, k, v, bias, mask)


mutant(dbias_of_groups_added_in_half_precision, ("bfloat16", "float16"))
