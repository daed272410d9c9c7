"""Right kernels, written differently from each other: none may ever be rejected."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from impls.masks import hide, on_keys

LOG2E = math.log2(math.e)


def logits_of(q: Tensor, k: Tensor, bias: Tensor | None, mask: Tensor | None, scale: float | None = None) -> Tensor:
    """Scaled after the product, in q's dtype; -inf where the mask is False."""
    logits = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        logits = logits + bias
    return logits if mask is None else logits.masked_fill(~on_keys(mask), -torch.inf)


def finite_max(logits: Tensor) -> Tensor:
    largest = logits.detach().amax(-1, keepdim=True)
    return largest.masked_fill(largest == -torch.inf, 0)


def divide(x: Tensor, total: Tensor) -> Tensor:
    return x / total.masked_fill(total == 0, 1)


def scale_after(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """The scale on the logits, the division after the product with v: in float32, where none is lost."""
    logits = logits_of(q, hide(k, mask), bias, mask)
    weights = (logits - finite_max(logits)).exp().to(torch.promote_types(q.dtype, torch.float32))
    return divide(weights @ hide(v, mask).to(weights), weights.sum(-1, keepdim=True)).to(q.dtype)


def base_two(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """exp2 instead of exp, log2(e) folded into the scale; the softmax in float32 at least."""
    wide = torch.promote_types(q.dtype, torch.float32)
    bias = None if bias is None else bias.to(wide) * LOG2E
    logits = logits_of(q, hide(k, mask), bias, mask, scale=q.shape[-1] ** -0.5 * LOG2E).to(wide)
    weights = (logits - finite_max(logits)).exp2()
    return divide(weights, weights.sum(-1, keepdim=True)).to(v.dtype) @ hide(v, mask)


def upcast(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """Half precision inputs, everything in between in float32."""
    wide = torch.promote_types(q.dtype, torch.float32)
    return scale_after(q.to(wide), k.to(wide), v.to(wide), bias, mask).to(q.dtype)


def half_logits(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """Logits, bias and softmax all rounded to q's dtype."""
    bias = None if bias is None else bias.to(q.dtype)
    logits = logits_of(q * q.shape[-1] ** -0.5, hide(k, mask), bias, mask, scale=1)
    empty = logits.amax(-1, keepdim=True) == -torch.inf
    return (logits.masked_fill(empty, 0).softmax(-1) @ hide(v, mask)).masked_fill(empty, 0)


def four_accumulators(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """Keys in reverse, dealt out to four partial sums as the lanes of a vector unit do."""
    logits = logits_of(q, hide(k, mask), bias, mask).to(torch.promote_types(q.dtype, torch.float32))
    weights = (logits - finite_max(logits)).exp().flip(-1)
    v = hide(v, mask).to(weights.dtype).flip(-2)
    parts = [(weights[..., i::4] @ v[..., i::4, :], weights[..., i::4].sum(-1, keepdim=True)) for i in range(4)]
    return divide(sum(o for o, _ in parts), sum(total for _, total in parts)).to(q.dtype)


class Flash(torch.autograd.Function):
    """Online softmax over chunks of three keys; the backward pass recomputes the weights from the log-sum-exp."""

    @staticmethod
    def forward(ctx, q, k, v, bias, mask):  # type: ignore[no-untyped-def]
        wide = torch.promote_types(q.dtype, torch.float32)
        k, v = hide(k, mask), hide(v, mask)
        logits = logits_of(q.to(wide), k.to(wide), bias, mask)
        o = torch.zeros(q.shape, dtype=wide)
        largest = torch.full((*q.shape[:-1], 1), -torch.inf, dtype=wide)
        total = torch.zeros_like(largest)
        for part, values in zip(logits.split(3, -1), v.split(3, -2), strict=True):
            new = torch.maximum(largest, part.amax(-1, keepdim=True))
            base = new.masked_fill(new == -torch.inf, 0)
            shrink, weights = (largest - base).exp(), (part - base).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            o = o * shrink + weights @ values.to(wide)
            largest = new
        o = divide(o, total).to(q.dtype)
        lse = (largest + total.log()).masked_fill(total == 0, torch.inf)
        ctx.save_for_backward(q, k, v, bias, mask, o, lse)
        return o

    @staticmethod
    def backward(ctx, do):  # type: ignore[no-untyped-def]
        q, k, v, bias, mask, o, lse = ctx.saved_tensors
        wide, scale = lse.dtype, q.shape[-1] ** -0.5
        P = (logits_of(q.to(wide), k.to(wide), bias, mask) - lse).exp()
        dP = (do @ v.transpose(-1, -2)).to(wide)
        dS = P * (dP - (do.to(wide) * o.to(wide)).sum(-1, keepdim=True))
        dv = hide((P.to(q.dtype).transpose(-1, -2) @ do), mask)
        half = dS.to(q.dtype)
        dq, dk = scale * half @ k, hide(scale * half.transpose(-1, -2) @ q, mask)
        return dq, dk, dv, None if bias is None else dS.sum_to_size(bias.shape).to(bias.dtype), None


def flash(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    return Flash.apply(q, k, v, bias, mask)


RIGHT: dict[str, Callable[..., Tensor]] = {
    f.__name__: f for f in (scale_after, base_two, upcast, half_logits, four_accumulators, flash)
}
