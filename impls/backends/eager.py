"""Plain PyTorch attention as the papers write it: the yardstick for speed, memory and rounding."""

from __future__ import annotations

import torch
from torch import Tensor

from impls.interface import Backend, Traits
from impls.masks import hide, on_keys


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    k, v = hide(k, mask), hide(v, mask)
    logits = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = logits.masked_fill(~on_keys(mask), -torch.inf)
    if bias is None and mask is None:
        return torch.softmax(logits, -1) @ v
    empty = logits.detach().amax(-1, keepdim=True) == -torch.inf
    logits = logits.masked_fill(empty, 0)
    weights = torch.softmax(logits, -1).to(v.dtype)
    return (weights @ v).masked_fill(empty, 0)


BACKENDS = (
    Backend(
        "eager",
        "plain PyTorch: two matrix products and a softmax",
        attend,
        traits=Traits(score_sized="always: logits and weights"),
    ),
)
