"""Exact attention tile by tile, forward and backward, so that memory grows with the lengths and not with their product.

FlashAttention's forward and backward passes (Dao 2023, algorithms 1 and 2) with a pair bias, its gradient and a key
mask, written with PyTorch's matrix products. The logits of one tile at a time are alive; they stay in the processor's
cache, so that this is faster than plain attention and not only smaller.
"""

from __future__ import annotations

import math
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

LOGITS_IN_CACHE = 2**20  # 4 MB in float32
FEWEST_QUERIES = 64
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
    """A tile whose logits stay in cache: of whole rows unless fewer than FEWEST_QUERIES of them would fit."""
    (N, H, Q, _), K = q.shape, k.shape[-2]
    key = even(K, LOGITS_IN_CACHE // (H * min(Q, FEWEST_QUERIES)))
    query = even(Q, LOGITS_IN_CACHE // (H * key))
    return Tile(even(N, LOGITS_IN_CACHE // (H * query * key)), query, key)


def even(length: int, longest: int) -> int:
    """The size of equal parts of ``length``, as few as can be while none is longer than ``longest`` (at least 1)."""
    return math.ceil(length / math.ceil(length / max(longest, 1)))


class ChunkedAttention(torch.autograd.Function):
    """Of each row, m is the largest logit s, l the sum of the weights p = exp(s - m), and D = do . o / l.

    The backward pass is given m and 1/l rather than m + log(l), in which l is lost beside a bias of -1e9. A row that
    may attend to nothing has p = 0 and 1/l = 0: zeros and zero gradients.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None, tile: Tile
    ) -> Tensor:
        N, H, Q, c = q.shape
        dtype = torch.promote_types(q.dtype, torch.float32)
        o = torch.empty_like(q, memory_format=torch.contiguous_format)
        m = torch.empty((N, H, Q, 1), dtype=dtype, device=q.device)
        inverse_l = torch.empty_like(m)
        logits = Logits(bias, mask, m.new_empty(tile.batch * H * tile.query * tile.key))
        for n in parts(q, 0, tile.batch):
            q_n, k_n, v_n = stack(q, n, dtype) * c**-0.5, stack(k, n, dtype, mask), stack(v, n, dtype, mask)
            for i in parts(q, 2, tile.query):
                o_i = torch.zeros_like(q_n[:, i])
                l_i = torch.zeros_like(o_i[..., :1])
                m_i = torch.full_like(l_i, torch.finfo(dtype).min)
                for j in parts(k, 2, tile.key):
                    s = logits(q_n[:, i], k_n[:, j], n, i, j)
                    m_before, m_i = m_i, torch.maximum(m_i, s.amax(-1, keepdim=True))
                    p, shrink = exp_(s.sub_(m_i)), exp_(m_before - m_i)
                    l_i.mul_(shrink).add_(p.sum(-1, keepdim=True))
                    o_i.mul_(shrink).baddbmm_(p, v_n[:, j])
                l_i = l_i.reciprocal().masked_fill_(l_i == 0, 0)
                for whole, part in ((o, o_i * l_i), (m, m_i), (inverse_l, l_i)):
                    whole[n, :, i] = part.unflatten(0, (-1, H))
        ctx.save_for_backward(q, k, v, bias, mask, o, m, inverse_l)
        ctx.tile = tile
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, do: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, mask, o, m, inverse_l = ctx.saved_tensors
        H, c, tile, dtype = q.shape[1], q.shape[3], ctx.tile, m.dtype
        dq, dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
        dbias = torch.zeros(bias.shape, dtype=dtype, device=q.device) if ctx.needs_input_grad[3] else None
        size = tile.batch * H * tile.query * tile.key
        logits, scratch = Logits(bias, mask, m.new_empty(size)), m.new_empty(size)
        for n in parts(q, 0, tile.batch):
            q_n, k_n, v_n = stack(q, n, dtype) * c**-0.5, stack(k, n, dtype, mask), stack(v, n, dtype, mask)
            m_n, do_n = stack(m, n, dtype), stack(do, n, dtype) * stack(inverse_l, n, dtype)
            D_n = (do_n * stack(o, n, dtype)).sum(-1, keepdim=True)
            dq_n, dk_n, dv_n = (torch.zeros_like(x) for x in (q_n, k_n, v_n))
            for i, j in product(parts(q, 2, tile.query), parts(k, 2, tile.key)):
                q_i, do_i, k_j, v_j = q_n[:, i], do_n[:, i], k_n[:, j], v_n[:, j]
                p = exp_(logits(q_i, k_j, n, i, j).sub_(m_n[:, i]))
                dp = torch.bmm(do_i, v_j.mT, out=scratch[: p.numel()].view(p.shape))
                ds = dp.sub_(D_n[:, i]).mul_(p)
                dv_n[:, j].add_(p.mT @ do_i)
                dq_n[:, i].add_(ds @ k_j)
                dk_n[:, j].add_(ds.mT @ q_i)
                if dbias is not None:
                    dbias_ij = meeting(dbias, n, ALL, i, j)
                    dbias_ij.add_(ds.unflatten(0, (-1, H)).sum_to_size(dbias_ij.shape))
            for whole, part in ((dq, dq_n * c**-0.5), (dk, dk_n), (dv, dv_n)):
                whole[n] = part.unflatten(0, (-1, H))
        return dq, dk, dv, None if dbias is None else dbias.to(bias.dtype), None, None


class Logits:
    """Computes the logits of a tile, q k^T + bias where the mask allows and -inf elsewhere, into ``scratch``."""

    def __init__(self, bias: Tensor | None, mask: Tensor | None, scratch: Tensor) -> None:
        self.bias, self.scratch = bias, scratch
        self.hidden = None if mask is None else on_keys(scratch.new_zeros(mask.shape).masked_fill(~mask, -torch.inf))

    def __call__(
        self, q: Float[Tensor, "NH i c"], k: Float[Tensor, "NH j c"], n: slice, i: slice, j: slice
    ) -> Float[Tensor, "NH i j"]:
        shape = (*q.shape[:2], k.shape[1])
        s = self.scratch[: math.prod(shape)].view(shape)
        by_head = s.unflatten(0, (n.stop - n.start, -1))
        if self.bias is not None and self.hidden is not None:
            bias = meeting(self.bias, n, ALL, i, j).expand_as(by_head)
            torch.add(bias, meeting(self.hidden, n, ALL, ALL, j), out=by_head)
        elif self.bias is not None:
            by_head.copy_(meeting(self.bias, n, ALL, i, j))
        elif self.hidden is not None:
            by_head.copy_(meeting(self.hidden, n, ALL, ALL, j))
        else:
            return torch.bmm(q, k.mT, out=s)
        return s.baddbmm_(q, k.mT)


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
