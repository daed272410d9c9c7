"""Global attention (algorithm 19, MSA column global attention) as an operation over any backend.

The attended axis is averaged into one query a head, and all heads share one key and value head, so that the cost is
linear in its length. For the core this is single-head attention of N_head queries, which every backend can do.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from impls.masks import Core

EPS = 1e-10  # as in DeepMind's and OpenFold's masked mean


def masked_mean(x: Float[Tensor, "*B L c"], mask: Bool[Tensor, "*#B L"] | None) -> Float[Tensor, "*B c"]:
    """Mean of ``x`` over the valid part of L: ``sum(mask x) / (sum(mask) + 1e-10)``; zeros where nothing is valid.

    (Algorithm 19 line 2, with the mask that the published models apply.)
    """
    if mask is None:
        return x.mean(-2) if x.shape[-2] else x.sum(-2)
    wide = torch.promote_types(x.dtype, torch.float32)  # in float16 EPS would be 0
    total = torch.where(mask[..., None], x, 0).sum(-2, dtype=wide)
    return (total / (mask.sum(-1, keepdim=True, dtype=wide) + EPS)).to(x.dtype)


def project_together(x: Float[Tensor, "*B c_in"], *linears: nn.Linear) -> tuple[Float[Tensor, "*B c_out"], ...]:
    """Several narrow projections of one large input as a single product, which reads the input once."""
    weights: list[Tensor] = [linear.weight for linear in linears]
    biases: list[Tensor] = [
        x.new_zeros(linear.out_features) if linear.bias is None else linear.bias for linear in linears
    ]
    return F.linear(x, torch.cat(weights), torch.cat(biases)).split([len(weight) for weight in weights], dim=-1)


def global_attention(
    q: Float[Tensor, "*B H*c"],
    k: Float[Tensor, "*B L c"],
    v: Float[Tensor, "*B L c"],
    mask: Bool[Tensor, "*#B L"] | None,
    *,
    N_head: int,
    core: Core,
) -> Float[Tensor, "*B 1 H*c"]:
    """One summary of the axis L, heads side by side, from its one query a head (algorithm 19 lines 4 and 5)."""
    return core(q.unflatten(-1, (N_head, -1)).unsqueeze(-3), k.unsqueeze(-3), v.unsqueeze(-3), None, mask).flatten(-2)
