"""The float64 specification as a backend: the answer that all others are compared with."""

from __future__ import annotations

from torch import Tensor

from impls.interface import Backend, Traits
from impls.reference import attention


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    return attention(q, k, v, bias, mask).to(q.dtype)


BACKENDS = (
    Backend(
        "reference",
        "the specification, in float64 whatever the input",
        attend,
        traits=Traits(score_sized="always, in float64"),
    ),
)
