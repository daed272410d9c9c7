"""Wrong kernels, each a small change to a right one: the checker must reject them all.

Faults of the core only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from impls.interface import get
from impls.masks import hide, on_keys
from impls.problem import DTYPES

Attend = Callable[..., Tensor]
right: Attend = get("eager").attend


@dataclass(frozen=True)
class Mutant:
    """A wrong kernel, and the dtypes in which it is wrong."""

    name: str
    attend: Attend
    dtypes: tuple[str, ...] = DTYPES


MUTANTS: dict[str, Mutant] = {}


def mutant(attend: Attend, dtypes: tuple[str, ...] = DTYPES) -> Attend:
    name = attend.__name__
    MUTANTS[name] = Mutant(name, attend, dtypes)
    return attend


def softmax(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Weights over the valid keys, zero in a row without any."""
    if mask is not None:
        logits = logits.masked_fill(~on_keys(mask), -torch.inf)
    empty = logits.detach().amax(-1, keepdim=True) == -torch.inf
    return logits.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)


def product(q: Tensor, k: Tensor) -> Tensor:
    return (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)


def plus(logits: Tensor, bias: Tensor | None) -> Tensor:
    return logits if bias is None else logits + bias


# Outputs


@mutant
def zeros(q, k, v, bias, mask):
    return right(q, k, v, bias, mask) * 0


@mutant
def half_of_it(q, k, v, bias, mask):
    return right(q, k, v, bias, mask) / 2


@mutant
def q_negated(q, k, v, bias, mask):
    return right(-q, k, v, bias, mask)


@mutant
def heads_rolled(q, k, v, bias, mask):
    return right(q, k, v, bias, mask).roll(1, -3)


@mutant
def heads_and_sequence_swapped(q, k, v, bias, mask):
    return right(q, k, v, bias, mask).transpose(-2, -3).reshape(q.shape)


@mutant
def scale_missing(q, k, v, bias, mask):
    return right(q * q.shape[-1] ** 0.5, k, v, bias, mask)


@mutant
def scale_squared(q, k, v, bias, mask):
    return right(q * q.shape[-1] ** -0.5, k, v, bias, mask)


@mutant
def softmax_over_queries(q, k, v, bias, mask):
    k, v = hide(k, mask), hide(v, mask)
    logits = plus(product(q, k), bias).nan_to_num(neginf=-1e4)
    return logits.softmax(-2).to(v.dtype) @ v


def softclamped(q, k, v, bias, mask):
    """In bfloat16 the logits that this changes are themselves rounded by as much."""
    logits = plus(30 * torch.tanh(product(q, hide(k, mask)) / 30), bias)
    return softmax(logits, mask).to(v.dtype) @ hide(v, mask)


mutant(softclamped, ("float64", "float32", "float16"))


@mutant
def maximum_not_taken_off(q, k, v, bias, mask):
    logits = plus(product(q, hide(k, mask)), bias)
    weights = (logits if mask is None else logits.masked_fill(~on_keys(mask), -torch.inf)).exp()
    total = weights.sum(-1, keepdim=True)
    return (weights / total.masked_fill(total == 0, 1)).to(v.dtype) @ hide(v, mask)


@mutant
def last_key_dropped_at_odd_lengths(q, k, v, bias, mask):
    K = k.shape[-2]
    return first_keys(K - 1 if K % 2 and K > 1 else K, q, k, v, bias, mask)


@mutant
def last_key_dropped_at_1_mod_32(q, k, v, bias, mask):
    K = k.shape[-2]
    return first_keys(K - 1 if K % 32 == 1 and K > 1 else K, q, k, v, bias, mask)


@mutant
def tail_after_blocks_of_16_dropped(q, k, v, bias, mask):
    K = k.shape[-2]
    return first_keys(K // 16 * 16 or K, q, k, v, bias, mask)


def first_keys(n, q, k, v, bias, mask):
    if bias is not None:
        bias = bias.expand(*bias.shape[:-1], k.shape[-2])[..., :n]
    return right(q, k[..., :n, :], v[..., :n, :], bias, None if mask is None else mask[..., :n])


# Masks


@mutant
def mask_ignored(q, k, v, bias, mask):
    return right(q, k, v, bias, None)


@mutant
def mask_inverted(q, k, v, bias, mask):
    return right(q, k, v, bias, None if mask is None else ~mask)


@mutant
def mask_shifted(q, k, v, bias, mask):
    return right(q, k, v, bias, None if mask is None else mask.roll(1, -1))


@mutant
def mask_on_queries(q, k, v, bias, mask):
    o = right(q, k, v, bias, None)
    if mask is None or q.shape[-2] != k.shape[-2]:
        return o
    return o.masked_fill(~mask[..., None, :, None], 0)


@mutant
def first_mask_for_all(q, k, v, bias, mask):
    return right(q, k, v, bias, None if mask is None else mask.reshape(-1, mask.shape[-1])[0])


@mutant
def mask_too_weak(q, k, v, bias, mask):
    """-10 instead of -inf."""
    logits = plus(product(q, hide(k, mask)), bias)
    if mask is not None:
        logits = logits - 10 * (~on_keys(mask)).to(logits.dtype)
    return softmax(logits, None).to(v.dtype) @ hide(v, mask)


@mutant
def masked_rows_uniform(q, k, v, bias, mask):
    o = right(q, k, v, bias, mask)
    return o if mask is None else torch.where(on_keys(~mask.any(-1, keepdim=True)), v.mean(-2, keepdim=True), o)


@mutant
def masked_rows_nan(q, k, v, bias, mask):
    logits = plus(product(q, hide(k, mask)), bias)
    logits = logits if mask is None else logits.masked_fill(~on_keys(mask), -torch.inf)
    return logits.softmax(-1).to(v.dtype) @ hide(v, mask)


@mutant
def nan_zeroed_after_softmax(q, k, v, bias, mask):
    """Right forward; a row of -inf gives NaN gradients all the same."""
    logits = plus(product(q, hide(k, mask)), bias)
    logits = logits if mask is None else logits.masked_fill(~on_keys(mask), -torch.inf)
    weights = logits.softmax(-1)
    return weights.masked_fill(weights.isnan(), 0).to(v.dtype) @ hide(v, mask)


@mutant
def masked_values_leak(q, k, v, bias, mask):
    """A zero weight times NaN is NaN."""
    return softmax(plus(product(q, hide(k, mask)), bias), mask).to(v.dtype) @ v


@mutant
def masked_keys_leak(q, k, v, bias, mask):
    """Right forward; the gradient of q multiplies NaN by zero."""
    return softmax(plus(product(q, k), bias), mask).to(v.dtype) @ hide(v, mask)


# Bias


@mutant
def bias_dropped(q, k, v, bias, mask):
    return right(q, k, v, None if bias is None else bias.masked_fill(torch.ones_like(bias, dtype=torch.bool), 0), mask)


@mutant
def bias_transposed(q, k, v, bias, mask):
    square = bias is not None and bias.dim() > 1 and bias.shape[-1] == bias.shape[-2]
    return right(q, k, v, bias.transpose(-1, -2) if square else bias, mask)


@mutant
def bias_scaled(q, k, v, bias, mask):
    return right(q, k, v, None if bias is None else bias * q.shape[-1] ** -0.5, mask)


@mutant
def bias_without_log2e(q, k, v, bias, mask):
    return right(q, k, v, None if bias is None else bias * math.log(2), mask)


@mutant
def bias_of_first_batch(q, k, v, bias, mask):
    if bias is not None and bias.dim() == q.dim() > 3:
        bias = bias[:1].expand(bias.shape)
    return right(q, k, v, bias, mask)


@mutant
def bias_of_first_head(q, k, v, bias, mask):
    if bias is not None and bias.dim() > 2:
        bias = bias[..., :1, :, :].expand(bias.shape)
    return right(q, k, v, bias, mask)


@mutant
def bias_after_softmax(q, k, v, bias, mask):
    weights = softmax(product(q, hide(k, mask)), mask)
    if bias is not None:
        finite = bias.masked_fill(bias == -torch.inf, 0)
        weights = weights + (finite if mask is None else finite.masked_fill(~on_keys(mask), 0))
    return weights.to(v.dtype) @ hide(v, mask)


# Gradients: the forward pass is right


class WrongGradients(torch.autograd.Function):
    """Right attention, whose gradients pass through ``change(dq, dk, dv, dbias, inputs)``."""

    @staticmethod
    def forward(ctx, change, q, k, v, bias, mask):
        ctx.change, ctx.inputs = change, (q, k, v, bias, mask)
        return right(q, k, v, bias, mask)

    @staticmethod
    def backward(ctx, do):
        *inputs, mask = ctx.inputs
        with torch.enable_grad():
            leaves = [None if x is None else x.detach().requires_grad_() for x in inputs]
            o = right(*leaves, mask)
        gradients = iter(torch.autograd.grad(o, [x for x in leaves if x is not None], do))
        gradients = [None if x is None else next(gradients) for x in leaves]
        return None, *ctx.change(*gradients, ctx.inputs, do), None


def wrong_gradient(change: Callable[..., tuple[Tensor | None, ...]]) -> None:
    def attend(q, k, v, bias, mask):
        return WrongGradients.apply(change, q, k, v, bias, mask)

    attend.__name__ = change.__name__
    mutant(attend)


@wrong_gradient
def dq_times_1_1(dq, dk, dv, dbias, inputs, do):
    return dq * 1.1, dk, dv, dbias


@wrong_gradient
def dq_unscaled(dq, dk, dv, dbias, inputs, do):
    return dq * dq.shape[-1] ** 0.5, dk, dv, dbias


@wrong_gradient
def dk_zero(dq, dk, dv, dbias, inputs, do):
    return dq, dk * 0, dv, dbias


@wrong_gradient
def dk_and_dv_exchanged(dq, dk, dv, dbias, inputs, do):
    return dq, dv, dk, dbias


@wrong_gradient
def dv_of_first_query(dq, dk, dv, dbias, inputs, do):
    q, k, v, bias, mask = inputs
    weights = softmax(plus(product(q, hide(k, mask)), bias), mask).to(v.dtype)
    return dq, dk, hide(weights[..., :1, :].transpose(-1, -2) @ do[..., :1, :], mask), dbias


@wrong_gradient
def dbias_zero(dq, dk, dv, dbias, inputs, do):
    return dq, dk, dv, None if dbias is None else dbias * 0


@wrong_gradient
def dbias_scaled(dq, dk, dv, dbias, inputs, do):
    return dq, dk, dv, None if dbias is None else dbias * dq.shape[-1] ** -0.5


@wrong_gradient
def dbias_not_summed(dq, dk, dv, dbias, inputs, do):
    """Of the first element of the axes along which the bias is broadcast, alone."""
    if dbias is None:
        return dq, dk, dv, dbias
    q, k, v, bias, mask = inputs
    with torch.enable_grad():
        whole = bias.detach().expand(*q.shape[:-1], k.shape[-2]).clone().requires_grad_()
        (full,) = torch.autograd.grad(right(q.detach(), k.detach(), v.detach(), whole, mask), whole, do)
    padded = (1,) * (full.dim() - bias.dim()) + bias.shape
    first = full[tuple(slice(0, n) for n in padded)]
    return dq, dk, dv, first.reshape(bias.shape).to(bias.dtype)


@wrong_gradient
def delta_forgotten(dq, dk, dv, dbias, inputs, do):
    """dS = P dP, without taking off sum(P dP)."""
    q, k, v, bias, mask = inputs
    k, v = hide(k, mask), hide(v, mask)
    dS = softmax(plus(product(q, k), bias), mask) * (do @ v.transpose(-1, -2))
    dS, scale = dS.to(q.dtype), q.shape[-1] ** -0.5
    return (
        scale * dS @ k,
        scale * dS.transpose(-1, -2) @ q,
        dv,
        None if bias is None else dS.sum_to_size(bias.shape).to(bias.dtype),
    )


@wrong_gradient
def masked_rows_nan_in_gradient(dq, dk, dv, dbias, inputs, do):
    mask = inputs[-1]
    if mask is None:
        return dq, dk, dv, dbias
    return dq.masked_fill(on_keys(~mask.any(-1, keepdim=True)), torch.nan), dk, dv, dbias


@wrong_gradient
def masked_keys_gradient_leaks(dq, dk, dv, dbias, inputs, do):
    mask = inputs[-1]
    return dq, dk, dv if mask is None else dv.masked_fill(~mask[..., None, :, None], 1e-3), dbias


@mutant
def maximum_detached_across_chunks(q, k, v, bias, mask):
    """The chunk's own maximum is live in exp(a - max) and detached where chunks are recombined."""
    k, v = hide(k, mask), hide(v, mask)
    logits = plus(product(q, k), bias)
    if mask is not None:
        logits = logits.masked_fill(~on_keys(mask), -1e4)
    if bias is not None:
        logits = logits.masked_fill(logits < -1e4, -1e4)
    chunks = []
    for part, values in zip(logits.split(4, -1), v.split(4, -2), strict=True):
        largest = part.amax(-1, keepdim=True)
        weights = (part - largest).exp()
        chunks.append((largest.detach(), weights.sum(-1, keepdim=True), weights.to(v.dtype) @ values))
    top = torch.stack([largest for largest, _, _ in chunks]).amax(0)
    total = sum(weight * (largest - top).exp() for largest, weight, _ in chunks)
    o = sum(o * (largest - top).exp() for largest, _, o in chunks) / total
    return o.to(q.dtype).masked_fill(top <= -1e4, 0)


# Precision, state and memory


_CHANCE = torch.Generator()


@mutant
def non_deterministic(q, k, v, bias, mask):
    """One rounding up or down."""
    o = right(q, k, v, bias, mask)
    return o * (1 + torch.finfo(o.dtype).eps * torch.randint(-1, 2, o.shape, generator=_CHANCE).to(o.dtype))


class _Previous:
    o: Tensor | None = None


@mutant
def output_of_the_previous_call(q, k, v, bias, mask):
    o, previous = right(q, k, v, bias, mask), _Previous.o
    _Previous.o = o.detach()
    return o if previous is None or previous.shape != o.shape else o + (previous.to(o.dtype) - o).detach()


@mutant
def inputs_modified(q, k, v, bias, mask):
    o = right(q, k, v, bias, mask)
    q.data.mul_(q.shape[-1] ** -0.5)
    return o


@mutant
def masked_values_erased_in_place(q, k, v, bias, mask):
    if mask is not None:
        v.data.masked_fill_(~mask[..., None, :, None], 0)
    return right(q, k, v, bias, mask)


@mutant
def reads_past_the_end(q, k, v, bias, mask):
    """One key too many is loaded and multiplied by zero: harmless until what stands there is not finite."""
    beyond = v.storage_offset() + sum((n - 1) * s for n, s in zip(v.shape, v.stride(), strict=True)) + v.stride(-2)
    o = right(q, k, v, bias, mask)
    if beyond >= v.untyped_storage().nbytes() // v.element_size():
        return o
    return o + 0 * v.as_strided((), (), beyond).detach()


def rounded_to_bfloat16(q, k, v, bias, mask):
    return right(q, k, v, bias, mask).bfloat16().to(q.dtype)


def secretly_tf32(q, k, v, bias, mask):
    """float32 whose products see 10 bits of mantissa."""
    return right(*(x + (tf32(x) - x).detach() for x in (q, k, v)), bias, mask)


def tf32(x: Tensor) -> Tensor:
    return (x.detach().contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def secretly_float32(q, k, v, bias, mask):
    return right(*(None if x is None else x.float() for x in (q, k, v, bias)), mask).double()


mutant(rounded_to_bfloat16, ("float64", "float32", "float16"))
mutant(secretly_tf32, ("float32",))
mutant(secretly_float32, ("float64",))
