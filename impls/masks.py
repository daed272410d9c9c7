"""Key masks (True = attend), and what a row with no valid key yields.

The core always yields zeros for such a row. Published models do not, so the modules can ask for another answer:

========== =================================================================== ================================
policy     a row with no valid key gives                                       as in
========== =================================================================== ================================
zero       zeros, and zero gradients                                           torch SDPA, FlexAttention
uniform    the plain mean of all values (logits replaced by a big negative)    DeepMind's AlphaFold 2
unmasked   the attention that an unmasked row would give (a constant is added) OpenFold, where the dtype is exact
========== =================================================================== ================================
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from impls.problem import MASK_KINDS, one_of

MASKED_ROWS = ("zero", "uniform", "unmasked")

Core = Callable[..., Tensor]


def make_mask(kind: str, shape: tuple[int, ...], *, seed: int = 0, device: str = "cpu") -> Bool[Tensor, "..."] | None:
    """A mask of ``shape`` ``(*, K)``: ``none``, ``padding`` (a suffix is padded, of a different length in each row),
    ``random`` (about a fifth is hidden) or ``full_row`` (random, and the first row has no valid key at all).

    Under ``padding`` and ``random`` each row keeps at least its first key. Raises ValueError for another kind.
    """
    one_of("mask kind", kind, MASK_KINDS)
    if kind == "none":
        return None
    generator = torch.Generator().manual_seed(seed + 1)
    *rows, K = shape
    if kind == "padding":
        valid = torch.randint(min(K, max(1, K // 2)), K + 1, (*rows, 1), generator=generator)
        mask = torch.arange(K) < valid
    else:
        mask = torch.rand(shape, generator=generator) < 0.8
        mask[..., 0] = True
        if kind == "full_row":
            mask.view(-1, K)[0] = False
    return mask.to(device)


def as_bool(mask: Tensor) -> Bool[Tensor, "..."]:
    """A module's mask as bool. Takes bool, or floats and integers that are exactly 0 or 1.

    Raises ValueError for any other value: codebases disagree about fractional masks, so there is no right answer.
    """
    if mask.dtype == torch.bool:
        return mask
    wrong = mask[(mask != 0) & (mask != 1)]
    if wrong.numel():
        raise ValueError(
            f"the mask holds {wrong.flatten()[0].item()}: masks are bool, or exactly 0 and 1. "
            "Make it bool with a threshold of your own, such as mask > 0.5"
        )
    return mask.bool()


def hide(x: Float[Tensor, "*B H K c"], mask: Bool[Tensor, "*#B K"] | None) -> Float[Tensor, "*B H K c"]:
    """Keys or values with zeros where the mask is False, so that nothing there, NaN included, reaches a result."""
    return x if mask is None else torch.where(mask[..., None, :, None], x, 0)


def on_keys(mask: Bool[Tensor, "*#B K"]) -> Bool[Tensor, "*#B 1 1 K"]:
    """The mask as it broadcasts against logits ``(*, H, Q, K)``."""
    return mask[..., None, None, :]


def with_masked_rows(core: Core, policy: str) -> Core:
    """``core`` with another answer for rows that have no valid key (see the table above).

    Raises ValueError for an unknown policy.
    """
    one_of("masked_rows policy", policy, MASKED_ROWS)

    def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        if mask is None or policy == "zero":
            return core(q, k, v, bias, mask)
        empty = ~mask.any(-1, keepdim=True)
        if policy == "unmasked":
            return core(q, k, v, bias, mask | empty)
        o = core(q, k, v, bias, mask)
        return torch.where(on_keys(empty), v.mean(-2, keepdim=True), o)

    return attend
