"""What one cell computes, and how much work that is. Plain arithmetic, so that the sweep can plan without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

CHANNELS = {
    "msa_row": 256,
    "msa_column": 256,
    "msa_global_column": 64,
    "triangle_starting": 128,
    "triangle_ending": 128,
    "template_pointwise": 128,
}
"""Channels of the main input of each operation's module (c_m, c_e or c_z)."""
PAIR_CHANNELS = 128
BACKWARD = 2
"""Work of a backward pass, in forward passes: four matrix products for two."""


@dataclass(frozen=True)
class Problem:
    """One attention problem, at the ``core`` (q, k, v, bias given) or as a whole gated ``module`` (x given).

    Batch 1. S sequences, R residues, T templates (``None`` where the operation has no such axis), N_head heads of
    width c. ``mask`` is ``"none"``, or ``"padding"``: every attended axis ends in some padding.
    """

    operation: str
    level: str
    dtype: str
    N_head: int
    c: int
    R: int
    S: int | None = None
    T: int | None = None
    mask: str = "none"

    @property
    def has_bias(self) -> bool:
        """Whether the operation has a pair bias."""
        return self.operation in ("msa_row", "triangle_starting", "triangle_ending")

    @property
    def core(self) -> tuple[tuple[int, ...], int, int, int]:
        """``(batch, H, Q, K)`` of the core call. Global attention: one head whose queries are the N_head heads."""
        S, R, T, H = self.S or 0, self.R, self.T or 0, self.N_head
        return {
            "msa_row": ((1, S), H, R, R),
            "msa_column": ((1, R), H, S, S),
            "msa_global_column": ((1, R), 1, H, S),
            "triangle_starting": ((1, R), H, R, R),
            "triangle_ending": ((1, R), H, R, R),
            "template_pointwise": ((1, R, R), H, 1, T),
        }[self.operation]

    @property
    def bias_shape(self) -> tuple[int, ...] | None:
        """``(1, 1, N_head, R, R)``, or ``None``."""
        return (1, 1, self.N_head, self.R, self.R) if self.has_bias else None

    @property
    def scores(self) -> int:
        """How many logits there are: batch x H x Q x K."""
        batch, H, Q, K = self.core
        return math.prod(batch) * H * Q * K

    @property
    def input_bytes(self) -> int:
        """Bytes of the inputs and of the output's cotangent, without parameters and mask."""
        batch, H, Q, K = self.core
        if self.level == "core":
            numbers = math.prod(batch) * H * self.c * (2 * Q + 2 * K) + math.prod(self.bias_shape or (0,))
        else:
            table = (self.S if self.operation.startswith("msa") else self.R) or 0
            numbers = 2 * table * self.R * CHANNELS[self.operation]
            numbers += self.R**2 * PAIR_CHANNELS if self.operation == "msa_row" else 0
        return numbers * (4 if self.dtype == "float32" else 2)

    def flops(self, direction: str) -> int:
        """Multiplications and additions of the matrix products, without any recomputation."""
        forward = 4 * self.scores * self.c
        if self.level == "module":
            batch, _, _, K = self.core
            tokens, width = math.prod(batch) * K, self.N_head * self.c
            shared = self.operation == "msa_global_column"
            outputs = (2 * width + 2 * self.c) if shared else 5 * width
            forward += 2 * tokens * CHANNELS[self.operation] * outputs
            if self.has_bias:
                forward += 2 * self.R**2 * PAIR_CHANNELS * self.N_head
        return forward * (1 if direction == "forward" else 1 + BACKWARD)

    @property
    def key(self) -> str:
        """The problem in words, ``"msa_row core S=128 R=256 N_head=8 c=32 float32"``."""
        sizes = {"S": self.S, "R": self.R, "T": self.T, "N_head": self.N_head, "c": self.c}
        axes = " ".join(f"{name}={size}" for name, size in sizes.items() if size is not None)
        return f"{self.operation} {self.level} {axes} {self.dtype}"

    def as_dict(self) -> dict[str, Any]:
        """For the journal: the fields, and the size."""
        return {
            "operation": self.operation, "level": self.level, "B": 1, "S": self.S, "R": self.R, "T": self.T,
            "N_head": self.N_head, "c": self.c, "dtype": self.dtype, "mask": self.mask, "scores": self.scores,
        }  # fmt: skip
