"""Global attention (algorithm 19, MSA column global attention) as an operation over any backend.

The attended axis is averaged into one query a head, and all heads share one key and value head, so that the cost is
linear in its length. For the core this is single-head attention of N_head queries, which every backend can do.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from impls.masks import Core
from impls.problem import one_of

EPS = 1e-10  # as in DeepMind's and OpenFold's masked mean
QUERY_MEANS = ("valid", "all")

Projection = Callable[[Tensor], Tensor]


def masked_mean(x: Float[Tensor, "*B L c"], mask: Bool[Tensor, "*#B L"] | None) -> Float[Tensor, "*B c"]:
    """Mean of ``x`` over the valid part of L: ``sum(mask x) / (sum(mask) + 1e-10)``; zeros where nothing is valid.

    (Algorithm 19 line 2, with the mask that the published models apply.)
    """
    if mask is None:
        return x.mean(-2)
    wide = torch.promote_types(x.dtype, torch.float32)  # in float16 EPS would be 0
    total = x.masked_fill(~mask[..., None], 0).sum(-2, dtype=wide)
    return (total / (mask.sum(-1, keepdim=True, dtype=wide) + EPS)).to(x.dtype)


def global_attention(
    x: Float[Tensor, "*B L c_in"],
    mask: Bool[Tensor, "*#B L"] | None,
    *,
    to_q: Projection,
    to_k: Projection,
    to_v: Projection,
    N_head: int,
    core: Core,
    query_mean: str = "valid",
) -> Float[Tensor, "*B 1 H*c"]:
    """One summary of the attended axis L, heads side by side (algorithm 19 lines 2 to 4).

    ``query_mean`` is ``valid`` (DeepMind, OpenFold) or ``all`` (alphafold-decoded: padding takes part in the mean, not
    in the keys). Raises ValueError for another.
    """
    one_of("query_mean", query_mean, QUERY_MEANS)
    q = to_q(masked_mean(x, mask if query_mean == "valid" else None))
    q = q.unflatten(-1, (N_head, -1)).unsqueeze(-3)
    k, v = to_k(x).unsqueeze(-3), to_v(x).unsqueeze(-3)
    return core(q, k, v, None, mask).flatten(-2)
