"""The instrument's own, short answer to every problem, in any dtype: the papers' formulas without a trick.

In float64 it is the truth; in the problem's own dtype it is plain eager attention, whose rounding sets the budget.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    """``softmax(q k^T / sqrt(c) + bias) v`` over the keys that ``mask`` allows: at least one in every row."""
    return weights(q, k, bias, mask) @ v


def weights(q: Tensor, k: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """The softmax, ``(*, H, Q, K)``."""
    logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = logits.masked_fill(~mask[..., None, None, :], -math.inf)
    return logits.softmax(-1)


def module(
    operation: str,
    N_head: int,
    p: dict[str, Tensor],
    x: Tensor,
    z: Tensor | None,
    mask: Tensor,
    rows: list[int] | slice,
) -> Tensor:
    """The gated module of ``operation`` (algorithms 7, 8, 13, 14, 19) with parameters ``p``, for some of its ``rows``.

    ``rows`` selects from the axis that is not attended along (after the ending node's and the columns' transposition);
    the result has only those.
    """
    if operation in ("msa_column", "msa_global_column", "triangle_ending"):
        x, mask = x.transpose(1, 2), mask.transpose(1, 2)
    x = layer_norm(p, "layer_norm", x)
    bias = None
    if operation == "msa_row":
        assert z is not None
        bias = pair_bias(p, layer_norm(p, "layer_norm_z", z))
    elif operation.startswith("triangle"):
        bias = pair_bias(p, x)
    x, mask = x[:, rows], mask[:, rows]
    if operation == "msa_global_column":
        valid = mask[..., None].to(x.dtype)
        mean = (x * valid).sum(-2) / valid.sum(-2)
        q = linear(p, "linear_q", mean).unflatten(-1, (N_head, -1)).unsqueeze(-3)
        k, v = (linear(p, f"linear_{name}", x).unsqueeze(-3) for name in "kv")
        o = attention(q, k, v, None, mask).flatten(-3).unsqueeze(-2)
    else:
        q, k, v = (linear(p, f"linear_{name}", x).unflatten(-1, (N_head, -1)).transpose(-2, -3) for name in "qkv")
        o = attention(q, k, v, bias, mask).transpose(-2, -3).flatten(-2)
    y = linear(p, "linear_o", linear(p, "linear_g", x).sigmoid() * o)
    return y.transpose(1, 2) if operation in ("msa_column", "msa_global_column", "triangle_ending") else y


def pair_bias(p: dict[str, Tensor], z: Tensor) -> Tensor:
    """``(B, R, R, c_z)`` to one bias a head, ``(B, 1, N_head, R, R)``."""
    return linear(p, "linear_z", z).movedim(-1, -3).unsqueeze(1)


def stack(N_head: int, p: dict[str, Tensor], m: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """m and z after the attentions of every block in ``p`` (algorithm 6, lines 2, 3, 8 and 9)."""
    import torch

    blocks: dict[int, dict[str, dict[str, Tensor]]] = {}
    for name, x in p.items():
        number, operation, parameter = name.split(".", 2)
        blocks.setdefault(int(number), {}).setdefault(operation, {})[parameter] = x
    rows = slice(None)
    whole_m, whole_z = (torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device) for x in (m, z))
    for _, block in sorted(blocks.items()):
        m = m + module("msa_row", N_head, block["msa_row"], m, z, whole_m, rows)
        m = m + module("msa_column", N_head, block["msa_column"], m, None, whole_m, rows)
        z = z + module("triangle_starting", N_head, block["triangle_starting"], z, None, whole_z, rows)
        z = z + module("triangle_ending", N_head, block["triangle_ending"], z, None, whole_z, rows)
    return m, z


def layer_norm(p: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """LayerNorm over channels, eps 1e-5, affine."""
    from torch.nn.functional import layer_norm

    return layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"])


def linear(p: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """The projection ``name``, with its bias if it has one."""
    from torch.nn.functional import linear

    return linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))
