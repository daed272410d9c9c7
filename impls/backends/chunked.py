"""Exact attention tile by tile, forward and backward, so that memory grows with the lengths and not with their product.

FlashAttention's forward and backward passes (Dao 2023, algorithms 1 and 2) with a pair bias, its gradient and a key
mask, written with PyTorch's matrix products. Only the logits of one tile are alive at a time; on a CPU they stay in
cache, so that this is faster than plain attention and not only smaller.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import once_differentiable

from impls.interface import Backend, Traits
from impls.layout import over_one_batch_axis
from impls.masks import hide, on_keys

LOGITS_AT_ONCE = {"cpu": 2**20, "cuda": 2**24}  # on CPUs 4 MB of float32, which stay in cache; GPUs want more work
FEWEST_QUERIES = 256
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}
LOG2_E = math.log2(math.e)
ALL = slice(None)


class Tile(NamedTuple):
    """How many batch entries (with all their heads), queries and keys are computed at once."""

    batch: int
    query: int
    key: int


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    return over_one_batch_axis(chunked_attention, q, k, v, bias, mask)


def chunked_attention(
    q: Float[Tensor, "N H Q c"],
    k: Float[Tensor, "N H K c"],
    v: Float[Tensor, "N H K c"],
    bias: Float[Tensor, "#N #H #Q #K"] | None = None,
    mask: Bool[Tensor, "#N K"] | None = None,
    tile: Tile | None = None,
) -> Float[Tensor, "N H Q c"]:
    """Attention in tiles of the given size, or of the one that ``tile_for`` chooses. Can be differentiated once."""
    return ChunkedAttention.apply(q, k, v, bias, mask, tile or tile_for(q, k))


def tile_for(q: Float[Tensor, "N H Q c"], k: Float[Tensor, "N H K c"]) -> Tile:
    """A tile of LOGITS_AT_ONCE: of whole rows, unless fewer than FEWEST_QUERIES of them would fit."""
    (N, H, Q, _), K, largest = q.shape, k.shape[-2], LOGITS_AT_ONCE.get(q.device.type, LOGITS_AT_ONCE["cuda"])
    key = even(K, largest // (H * min(Q, FEWEST_QUERIES)))
    query = even(Q, largest // (H * key))
    return Tile(even(N, largest // (H * query * key)), query, key)


def even(length: int, longest: int) -> int:
    """The size of equal parts of ``length``, as few as can be while none is longer than ``longest`` (at least 1)."""
    return math.ceil(length / math.ceil(length / max(longest, 1)))


class ChunkedAttention(torch.autograd.Function):
    """Of each row, m is the largest logit s, l the sum of exp(s - m), p the weights exp(s - m) / l, and D = do . o.

    The backward pass is given m and l apart, not m + log(l), in which l is lost beside a bias of -1e9. A row that may
    attend to nothing has p = 0: zeros and zero gradients.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None, tile: Tile
    ) -> Tensor:
        N, H, Q, _ = q.shape
        dtype = torch.promote_types(q.dtype, torch.float32)
        o = torch.empty_like(q, memory_format=torch.contiguous_format)
        m = torch.empty((N, H, Q, 1), dtype=dtype, device=q.device)
        minus_log2_l = torch.empty_like(m)
        logits = Logits(bias, mask, m.new_empty(tile.batch * H * tile.query * tile.key))
        for n in parts(q, 0, tile.batch):
            q_n, k_n, v_n = stack(q, n, dtype), stack(k, n, dtype, mask), stack(v, n, dtype, mask)
            for i in parts(q, 2, tile.query):
                o_i, l_i, m_i = reduce(
                    joined,
                    (unfinished(logits(q_n[:, i], k_n[:, j], n, i, j), v_n[:, j]) for j in parts(k, 2, tile.key)),
                )
                o_i, l_i, m_i = (x.unflatten(0, (-1, H)) for x in (o_i, l_i.masked_fill_(l_i == 0, 1), m_i))
                torch.div(o_i, l_i, out=o[n, :, i])
                m[n, :, i], minus_log2_l[n, :, i] = m_i, -l_i.log2()
        ctx.save_for_backward(q, k, v, bias, mask, o, m, minus_log2_l)
        ctx.tile = tile
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, do: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, mask, o, m, minus_log2_l = ctx.saved_tensors
        H, c, tile, dtype = q.shape[1], q.shape[3], ctx.tile, m.dtype
        dq, dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
        dbias = torch.zeros(bias.shape, dtype=dtype, device=q.device) if ctx.needs_input_grad[3] else None
        size = tile.batch * H * tile.query * tile.key
        logits, scratch = Logits(bias, mask, m.new_empty(size)), m.new_empty(size)
        for n in parts(q, 0, tile.batch):
            q_n, k_n, v_n = stack(q, n, dtype), stack(k, n, dtype, mask), stack(v, n, dtype, mask)
            m_n, minus_log2_l_n, do_n = (stack(x, n, dtype) for x in (m, minus_log2_l, do))
            minus_D_n = -(do_n * stack(o, n, dtype)).sum(-1, keepdim=True)
            dq_n, dk_n, dv_n = (stack(x, n, dtype) for x in (dq, dk, dv))
            for i, j in product(parts(q, 2, tile.query), parts(k, 2, tile.key)):
                q_i, do_i, k_j, v_j = q_n[:, i], do_n[:, i], k_n[:, j], v_n[:, j]
                s = logits(q_i, k_j, n, i, j).sub_(m_n[:, i])
                p = torch.add(minus_log2_l_n[:, i], s, alpha=LOG2_E, out=s).exp2_()
                ds = scratch[: p.numel()].view(p.shape).copy_(minus_D_n[:, i]).baddbmm_(do_i, v_j.mT).mul_(p)
                accumulate_(dv_n[:, j], p.mT, do_i, first=i.start == 0)
                accumulate_(dq_n[:, i], ds, k_j, first=j.start == 0, scale=c**-0.5)
                accumulate_(dk_n[:, j], ds.mT, q_i, first=i.start == 0, scale=c**-0.5)
                if dbias is not None:
                    dbias_ij, ds = meeting(dbias, n, ALL, i, j), ds.unflatten(0, (-1, H))
                    dbias_ij.add_((ds if len(dbias) > 1 else sum_batch_(ds)).sum_to_size(dbias_ij.shape))
            if dtype != q.dtype:
                for whole, part in ((dq, dq_n), (dk, dk_n), (dv, dv_n)):
                    whole[n] = part.unflatten(0, (-1, H))
        return dq, dk, dv, None if dbias is None else dbias.to(bias.dtype), None, None


def unfinished(s: Float[Tensor, "NH i j"], v: Float[Tensor, "NH j c"]) -> tuple[Tensor, Tensor, Tensor]:
    """o times l, l and m of attention over the keys of one tile, whose logits are used up."""
    m = s.amax(-1, keepdim=True).clamp_(min=torch.finfo(s.dtype).min)
    weights = exp_(s.sub_(m))
    return weights @ v, weights.sum(-1, keepdim=True), m


def joined(a: tuple[Tensor, Tensor, Tensor], b: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The same over the keys of both."""
    (o_a, l_a, m_a), (o_b, l_b, m_b) = a, b
    m = torch.maximum(m_a, m_b)
    of_a, of_b = exp_(m_a - m), exp_(m_b - m)
    return o_a * of_a + o_b * of_b, l_a * of_a + l_b * of_b, m


class Logits:
    """Computes the logits of a tile, q k^T / sqrt(c) + bias where the mask allows, else -inf, into ``scratch``."""

    def __init__(self, bias: Tensor | None, mask: Tensor | None, scratch: Tensor) -> None:
        self.bias, self.scratch = bias, scratch
        self.hidden = None if mask is None else on_keys(scratch.new_zeros(mask.shape).masked_fill(~mask, -torch.inf))
        kept = None if mask is None or bias is None else -mask.to(BITS[scratch.dtype])  # bits all 1, or all 0
        self.kept = None if kept is None else on_keys(kept)

    def __call__(
        self, q: Float[Tensor, "NH i c"], k: Float[Tensor, "NH j c"], n: slice, i: slice, j: slice
    ) -> Float[Tensor, "NH i j"]:
        shape = (*q.shape[:2], k.shape[1])
        s = self.scratch[: math.prod(shape)].view(shape).baddbmm_(q, k.mT, beta=0, alpha=q.shape[-1] ** -0.5)
        by_entry = s.unflatten(0, (n.stop - n.start, -1))
        if self.bias is not None:  # added last: beside a large bias the products would lose their digits one by one
            by_entry.add_(meeting(self.bias, n, ALL, i, j))
        if self.kept is not None:  # to -inf added, a NaN in the bias of a masked key would stay one
            by_entry.view(self.kept.dtype).bitwise_and_(meeting(self.kept, n, ALL, i, j))
        if self.hidden is not None:
            by_entry.add_(meeting(self.hidden, n, ALL, i, j))
        return s


def parts(x: Tensor, axis: int, size: int) -> list[slice]:
    """An axis of ``x`` in parts. Of a fake tensor the first two: the others would allocate what the second does."""
    length = x.shape[axis]
    every = [slice(start, min(start + size, length)) for start in range(0, length, size)]
    return every[:2] if isinstance(x, FakeTensor) else every


def meeting(x: Float[Tensor, "#N #H #Q #K"], *tile: slice) -> Tensor:
    """The part of ``x`` that belongs to a tile: along an axis of length 1, all of it."""
    return x[tuple(ALL if length == 1 else part for length, part in zip(x.shape, tile, strict=True))]


def stack(
    x: Float[Tensor, "N H L c"], n: slice, dtype: torch.dtype, mask: Bool[Tensor, "#N K"] | None = None
) -> Float[Tensor, "NH L c"]:
    """Batch entries ``n`` with their heads on one axis, hidden where the mask is False."""
    return hide(x[n], None if mask is None else meeting(mask, n, ALL)).to(dtype).flatten(0, 1)


def accumulate_(total: Tensor, a: Tensor, b: Tensor, *, first: bool, scale: float = 1) -> None:
    """Add ``scale`` a b to ``total``, or set it to that at ``first``."""
    if total.is_contiguous():
        total.baddbmm_(a, b, beta=not first, alpha=scale)
    elif first:
        torch.mul(a @ b, scale, out=total)
    else:
        total.add_(a @ b, alpha=scale)


def sum_batch_(x: Float[Tensor, "n H i j"]) -> Float[Tensor, "1 H i j"]:
    """The sum over the first axis, by adding halves in place; ``x`` is used up."""
    while len(x) > 1:
        half = len(x) // 2
        x[:half].add_(x[-half:])
        x = x[:-half]
    return x


def exp_(x: Tensor) -> Tensor:
    """``exp(x)`` in place, by exp2, which is three times as fast on CPUs."""
    return x.mul_(LOG2_E).exp2_()


BACKENDS = (
    Backend(
        "chunked",
        "our own: online softmax over tiles, and a backward pass that recomputes",
        attend,
        traits=Traits(score_sized="never, but for the gradient of a bias that is itself of that size"),
    ),
)
