"""Any leading axes ``*`` as the two that kernels for triangle attention know: B entries, each with N rows.

A pair bias varies along B and is shared by the N rows. A kernel here is called with ``q, k, v (B, N, H, length, c)``, a
``bias (B, 1, #H, #Q, #K)`` and a ``mask (B, N, K)``.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from impls.layout import Kernel, entries, with_axes
from impls.masks import on_keys
from impls.problem import CoreProblem

EXPANDED = "where a bias that varies along every row is broadcast along heads, queries or keys: it is expanded"
"""When kernels that take a bias of exactly (B, 1, H, Q, K) make a tensor as large as the logits."""


def over_rows(
    kernel: Kernel,
    q: Float[Tensor, "*B H Q c"],
    k: Float[Tensor, "*B H K c"],
    v: Float[Tensor, "*B H K c"],
    bias: Float[Tensor, "*#B #H #Q #K"] | None,
    mask: Bool[Tensor, "*#B K"] | None,
) -> Float[Tensor, "*B H Q c"]:
    """``kernel`` over inputs whose leading axes are split into those along which the bias varies, and the rest.

    A bias that is broadcast along an axis before one along which it varies would have to be copied: the kernel is then
    called once for every entry of the first axis.
    """
    batch = q.shape[:-3]
    bias, mask = with_axes(bias, q.dim()), with_axes(mask, q.dim() - 2)
    split = 0 if bias is None else axes_that_vary(bias.shape)
    if bias is not None and bias.shape[:split] != batch[:split]:
        parts = zip(q, k, v, entries(bias, batch[0]), entries(mask, batch[0]), strict=True)
        return torch.stack([over_rows(kernel, *part) for part in parts])
    rows = math.prod(batch[:split]), math.prod(batch[split:])
    if bias is not None:
        bias = bias.reshape(rows[0], 1, *bias.shape[-3:])
    if mask is not None:
        mask = mask.expand(*batch, -1).reshape(*rows, -1)
    shape = q.shape
    q, k, v = (x.reshape(*rows, *x.shape[-3:]) for x in (q, k, v))
    return kernel(q, k, v, bias, mask).reshape(shape)


def axes_that_vary(bias_shape: tuple[int, ...]) -> int:
    """How many leading axes there are up to the last along which a bias of this shape varies."""
    return max((i + 1 for i, n in enumerate(bias_shape[:-3]) if n > 1), default=0)


def entries_of_bias(p: CoreProblem) -> int:
    """B: with how many biases a kernel is called, all entries together."""
    return math.prod((p.bias_shape or ())[:-3])


def rows_without_keys(
    bias: Float[Tensor, "B 1 #H #Q #K"] | None, mask: Bool[Tensor, "B N K"] | None
) -> Bool[Tensor, "B #N #H #Q 1"]:
    """Which rows have every key hidden, by the mask or by a bias of -inf; one of the two is given.

    The keys that both leave are counted by a matrix product over them: the rows alone, never all logits, are in memory.
    Counts in float16 may round or overflow, but are 0 only where there is none.
    """
    if bias is None:
        assert mask is not None
        return ~on_keys(mask).any(-1, keepdim=True)
    open_keys = bias > -torch.inf
    if mask is None:
        return ~open_keys.any(-1, keepdim=True)
    open_keys = open_keys.expand(*bias.shape[:-1], mask.shape[-1]).squeeze(1)
    left = torch.einsum("bnk,bhqk->bnhq", mask.half(), open_keys.half())
    return (left == 0).unsqueeze(-1)
