"""Any leading axes ``*`` as the one batch axis that most kernels know, with bias and mask kept as small as they came.

A kernel here is called with ``q, k, v (N, H, length, c)``, a ``bias`` of four axes that broadcasts to (N, H, Q, K), and
a ``mask (1 or N, K)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from impls.masks import on_keys

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


def over_one_batch_axis(
    kernel: Kernel,
    q: Float[Tensor, "*B H Q c"],
    k: Float[Tensor, "*B H K c"],
    v: Float[Tensor, "*B H K c"],
    bias: Float[Tensor, "*#B #H #Q #K"] | None,
    mask: Bool[Tensor, "*#B K"] | None,
) -> Float[Tensor, "*B H Q c"]:
    """``kernel`` over inputs whose leading axes are flattened into one.

    A bias that is broadcast along some of several leading axes, such as (B, 1, H, R, R) beside q (B, S, H, R, c),
    cannot be flattened without a copy of it for every S: the kernel is then called once for every entry of B.
    """
    batch = q.shape[:-3]
    bias, mask = with_axes(bias, q.dim()), with_axes(mask, q.dim() - 2)
    if bias is not None and partly_broadcast(bias.shape[:-3], batch):
        parts = zip(q, k, v, entries(bias, batch[0]), entries(mask, batch[0]), strict=True)
        return torch.stack([over_one_batch_axis(kernel, *part) for part in parts])
    if bias is not None:
        bias = flat(bias)
    if mask is not None:
        small = math.prod(mask.shape[:-1]) == 1
        mask = (mask if small else mask.expand(*batch, -1)).reshape(-1, mask.shape[-1])
    return kernel(flat(q), flat(k), flat(v), bias, mask).reshape(q.shape)


def flat(x: Float[Tensor, "*B H L n"]) -> Float[Tensor, "N H L n"]:
    """``x`` with its leading axes as one, a view where its strides allow."""
    return x.reshape(-1, *x.shape[-3:])


def with_axes(x: Tensor | None, dim: int) -> Tensor | None:
    """``x`` with leading axes of length 1, so that it has ``dim`` axes."""
    return None if x is None else x.reshape((1,) * (dim - x.dim()) + x.shape)


def partly_broadcast(shape: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    """Whether a tensor with leading axes ``shape`` varies along some, but not all, of the axes ``batch``."""
    varies = {size == n for size, n in zip(shape, batch, strict=True) if n > 1}
    return len(varies) > 1


def entries(x: Tensor | None, n: int) -> list[Tensor | None]:
    """The ``n`` entries of ``x`` along its first axis, along which it may be broadcast."""
    if x is None:
        return [None] * n
    return list(x.unbind()) if x.shape[0] == n else [x.squeeze(0)] * n


def bias_or_mask(bias: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """Pair bias and key mask as the single tensor that SDPA-like kernels take, broadcastable to the logits.

    One alone stays as small as it is (a mask is bool, True = attend). Both together make a tensor with every axis that
    either of them has, -inf where a key is masked: as large as the logits once the mask differs along the batch.
    """
    if mask is None:
        return bias
    return on_keys(mask) if bias is None else bias.masked_fill(~on_keys(mask), -torch.inf)


def with_open_rows(both: Tensor) -> tuple[Tensor, Bool[Tensor, "*#B #H #Q 1"]]:
    """``bias_or_mask`` with every key allowed in rows that allow none, and which rows those are.

    For kernels that are not known to give zeros there: what they give instead is finite, and can be hidden.
    """
    if both.dtype == torch.bool:
        empty = ~both.any(-1, keepdim=True)
        return both | empty, empty
    empty = both.detach().amax(-1, keepdim=True) == -torch.inf
    return both.masked_fill(empty, 0), empty


def readable(x: Tensor, alignment: int = 16) -> Tensor:
    """``x`` itself if its last axis is dense and its data begin at a multiple of ``alignment`` bytes, else a copy."""
    if x.stride(-1) == 1 and x.storage_offset() * x.element_size() % alignment == 0:
        return x
    return x.clone(memory_format=torch.contiguous_format)


def recording(q: Tensor, bias: Tensor | None) -> Tensor:
    """``q`` requiring a gradient if ``bias`` does.

    Some kernels look at q, k and v alone to decide whether a backward pass will come, and lose the bias's gradient.
    """
    return q.detach().requires_grad_() if bias is not None and bias.requires_grad and not q.requires_grad else q
