"""The specification: attention in float64, written out and without tricks. Slow and large on purpose."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from impls.masks import hide, on_keys


def attention(
    q: Float[Tensor, "*B H Q c"],
    k: Float[Tensor, "*B H_kv K c"],
    v: Float[Tensor, "*B H_kv K c"],
    bias: Float[Tensor, "*#B #H #Q #K"] | None = None,
    mask: Bool[Tensor, "*#B K"] | None = None,
) -> Float[Tensor, "*B H Q c"]:
    """``softmax(q k^T / sqrt(c) + bias) v`` over the valid keys, in float64; zeros where there is none.

    Inputs of other dtypes are taken at their rounded values. Gradients come from autograd.
    (AlphaFold 2 supplement, algorithm 7 line 5 and 6, without the projections.)
    """
    return torch.einsum("...qk,...kc->...qc", weights(q, k, bias, mask), hide(v.double(), mask))


def weights(
    q: Float[Tensor, "*B H Q c"],
    k: Float[Tensor, "*B H_kv K c"],
    bias: Float[Tensor, "*#B #H #Q #K"] | None = None,
    mask: Bool[Tensor, "*#B K"] | None = None,
) -> Float[Tensor, "*B H Q K"]:
    """The attention weights in float64: each row sums to 1, or is zero where no key is valid."""
    q, k = q.double(), hide(k.double(), mask)
    logits = torch.einsum("...qc,...kc->...qk", q, k) / math.sqrt(q.shape[-1])
    if bias is not None:
        logits = logits + bias.double()
    if mask is not None:
        logits = logits.masked_fill(~on_keys(mask), -torch.inf)
    valid = logits > -torch.inf
    largest = torch.where(valid.any(-1, keepdim=True), logits.amax(-1, keepdim=True), 0).detach()
    exponentials = torch.where(valid, logits - largest, -torch.inf).exp()
    total = exponentials.sum(-1, keepdim=True)
    return exponentials / torch.where(total == 0, 1, total)
