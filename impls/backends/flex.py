"""FlexAttention: the pair bias and the key mask are read by index inside the kernel, and never expanded or merged.

``with_prior(alibi)`` adds a prior of relative positions by index as well, from one number a head and distance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from impls.backends.compiled import COMPILED, compiled_for, compiler_limits, shapes
from impls.bias import Prior
from impls.cuda import LARGEST_GRID, Capability, grid_limits, on_cuda
from impls.interface import Backend, Traits, UnsupportedProblem
from impls.layout import flat, with_axes
from impls.masks import hide
from impls.problem import CoreProblem


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None, diagonals: Tensor | None = None
) -> Tensor:
    bias, mask = with_axes(bias, q.dim()), with_axes(mask, q.dim() - 2)
    inputs: tuple[Tensor | None, ...] = (flat(q), flat(hide(k, mask)), flat(hide(v, mask)), bias, mask, diagonals)
    tiles = None
    if q.device.type == "cpu":  # there, inputs that require gradients are refused even where none is recorded
        inputs = tuple(None if x is None else along_memory(x.detach()) for x in inputs)
        tiles = cpu_tiles(q.shape[-2], k.shape[-2])
    batch = q.shape[:-3]
    return compiled_for(attention_by_index, (shapes(*inputs), batch))(*inputs, batch, tiles).reshape(q.shape)


def attention_by_index(
    q: Float[Tensor, "N H Q c"],
    k: Float[Tensor, "N H K c"],
    v: Float[Tensor, "N H K c"],
    bias: Float[Tensor, "*#B #H #Q #K"] | None,
    mask: Bool[Tensor, "*#B K"] | None,
    diagonals: Float[Tensor, "#H Q+K-1"] | None,
    batch: tuple[int, ...],
    tiles: BlockMask | None = None,
) -> Float[Tensor, "N H Q c"]:
    """Attention over N entries of the flattened ``batch``; bias and mask have all of its axes, of full length or 1.

    ``diagonals`` are numbers to add for key minus query from 1 - Q to K - 1; ``tiles`` say in what parts to proceed.
    """
    Q = q.shape[-2]

    def score_mod(score: Tensor, n: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if bias is not None:
            score = score + entry(bias, *along_axes(n, batch), head, query, key)
        if diagonals is not None:
            score = score + entry(diagonals, head, key - query + Q - 1)
        if mask is not None:
            score = torch.where(entry(mask, *along_axes(n, batch), key), score, -torch.inf)
        return score

    return flex_attention(q, k, v, score_mod=score_mod, block_mask=tiles)


@cache
def cpu_tiles(Q: int, K: int) -> BlockMask:
    """All logits, in tiles. Left to itself, every thread of a CPU keeps a tile of Q x K (torch 2.13)."""
    rows, columns = math.ceil(Q / CPU_TILE[0]), math.ceil(K / CPU_TILE[1])
    none = torch.zeros(1, 1, rows, dtype=torch.int32, device="cpu")
    every = torch.arange(columns, dtype=torch.int32, device="cpu").expand(1, 1, rows, -1).contiguous()
    parts = (none, torch.zeros_like(every), none + columns, every)
    return BlockMask.from_kv_blocks(*parts, BLOCK_SIZE=CPU_TILE, seq_lengths=(Q, K))


def along_memory(x: Tensor) -> Tensor:
    """``x``, copied if no axis follows memory: code for a CPU reads none but such by index (torch 2.13)."""
    return x if 1 in x.stride() else x.clone(memory_format=torch.contiguous_format)


def along_axes(n: Tensor, batch: tuple[int, ...]) -> list[Tensor]:
    """The index along each axis of ``batch`` of entry n of the flattened batch."""
    return [n // math.prod(batch[axis + 1 :]) % size for axis, size in enumerate(batch)]


def entry(x: Tensor, *index: Tensor) -> Tensor:
    """``x`` at an index of the shape to which it broadcasts."""
    return x[tuple(i * (size > 1) for i, size in zip(index, x.shape, strict=True))]


def with_prior(prior: Prior) -> Backend:
    """``flex`` with ``prior`` added to the logits by index, beside any bias: nothing of size Q x K is made.

    The prior is asked for every relative position once, ``(H or 1, Q + K - 1)`` numbers, at each call. Queries and keys
    are those at positions 0, 1, 2, ... Its learned tables get their gradients where FlexAttention has a backward pass.

    Raises ValueError, at the call, for a prior of another number of heads.
    """

    def attend_with_prior(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        H, Q, K = *q.shape[-3:-1], k.shape[-2]
        diagonals = prior(torch.arange(1 - Q, K, device=q.device)[None]).squeeze(-2).contiguous()
        if diagonals.shape not in ((H, Q + K - 1), (1, Q + K - 1)):
            raise ValueError(f"the prior has {diagonals.shape[0]} heads, q has {H}: expected as many, or 1")
        if q.device.type == "cpu" and torch.is_grad_enabled() and diagonals.requires_grad:
            raise UnsupportedProblem(NO_BACKWARD)
        return attend(q, k, v, bias, mask, diagonals)

    def limits_with_prior(p: CoreProblem) -> Iterator[str]:
        yield from limits(p)
        if p.H_kv != p.H:
            yield "keys and values shared by all heads become one head, which has no prior: expand them to q's heads"

    (flex,) = BACKENDS
    summary = "FlexAttention with a prior of relative positions, read by index"
    return replace(flex, name="flex_with_prior", summary=summary, attend=attend_with_prior, limits=limits_with_prior)


def limits(p: CoreProblem) -> Iterable[str]:
    return cpu_limits(p) if p.device == "cpu" else on_cuda(cuda_rules, oldest=(7, 0))(p)


def cpu_limits(p: CoreProblem) -> Iterator[str]:
    yield from compiler_limits(p)
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        yield "needs a CPU with AVX2"
    if p.training or p.bias_grad:
        yield NO_BACKWARD
    if p.dtype == "float64":
        yield "FlexAttention takes no float64: use float32, or chunked"


def cuda_rules(p: CoreProblem, capability: Capability) -> Iterator[str]:
    if p.dtype == "float64":
        yield "FlexAttention takes no float64: use float32, or chunked"
    if p.c < 16:
        yield f"c={p.c}: heads are at least 16 wide; pad c with zeros (and keep the scale), or use sdpa_efficient"
    yield from grid_limits(p)
    rows = math.prod(p.batch) * p.H
    if p.Q < 128 and rows > LARGEST_GRID:
        yield f"batch x heads of {rows:,}: with fewer than 128 queries at most {LARGEST_GRID:,}; split the batch"


CPU_TILE = (256, 512)
NO_BACKWARD = "FlexAttention has no backward pass on CPUs: call it under torch.no_grad(), or use chunked"


def bytes_beyond_inputs(p: CoreProblem) -> int:
    """The output, copies of keys and values where a mask hides some and where a CPU packs them, and gradients.

    What every thread of a CPU keeps for itself, two tiles of logits or 1 MB at most, is left out.
    """
    rows = math.prod(p.batch) * p.H * p.c * ITEM_BYTES[p.dtype]
    q, k_and_v = rows * p.Q, 2 * rows * p.K
    copies = p.mask + (p.device == "cpu")
    gradients = q + k_and_v if p.training else 0
    return q + copies * k_and_v + gradients + p.bias_grad * math.prod(p.bias_shape or ()) * ITEM_BYTES["float32"]


ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}

BACKENDS = (
    Backend(
        "flex",
        "FlexAttention compiled, with the pair bias and the key mask read by index",
        attend,
        limits=limits,
        traits=Traits(deterministic=False, compiles=True, fake=False, kernels=COMPILED),
        bytes_beyond_inputs=bytes_beyond_inputs,
    ),
)
