"""What one cell computes, and how much work that is. Plain arithmetic, so that the sweep can plan without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
STACKED = ("msa_row", "msa_column", "triangle_starting", "triangle_ending")
"""The attentions of an Evoformer block, in their order (algorithm 6, lines 2, 3, 8 and 9)."""
BACKWARD = 2
"""Work of a backward pass, in forward passes: four matrix products for two."""


@dataclass(frozen=True)
class Problem:
    """One attention problem, at the ``core`` (q, k, v, bias given) or as a whole gated ``module`` (x given).

    Or a ``stack``: all modules of so many Evoformer ``blocks`` (m and z given), each added to what it was given.

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
    blocks: int | None = None

    @property
    def parts(self) -> list[Problem]:
        """The modules of one block of a stack."""
        return [replace(self, operation=operation, level="module", blocks=None) for operation in STACKED]

    @property
    def timed(self) -> bool:
        """Whether time and memory of its calls are measured; of a stack only the error is of interest."""
        return self.level != "stack"

    @property
    def allowed(self) -> float:
        """How large a right answer's error may be in its own unit: one budget, or twice the drift of eager."""
        return 2.0 if self.level == "stack" else 1.0

    @property
    def has_bias(self) -> bool:
        """Whether the operation has a pair bias."""
        return self.operation in ("msa_row", "triangle_starting", "triangle_ending", "evoformer")

    @property
    def core(self) -> tuple[tuple[int, ...], int, int, int]:
        """``(batch, H, Q, K)`` of the core call. Global attention: one head whose queries are the N_head heads.

        Of a stack, its first: along the rows.
        """
        S, R, T, H = self.S or 0, self.R, self.T or 0, self.N_head
        return {
            "msa_row": ((1, S), H, R, R),
            "msa_column": ((1, R), H, S, S),
            "msa_global_column": ((1, R), 1, H, S),
            "triangle_starting": ((1, R), H, R, R),
            "triangle_ending": ((1, R), H, R, R),
            "template_pointwise": ((1, R, R), H, 1, T),
            "evoformer": ((1, S), H, R, R),
        }[self.operation]

    @property
    def bias_shape(self) -> tuple[int, ...] | None:
        """``(1, 1, N_head, R, R)``, or ``None``."""
        return (1, 1, self.N_head, self.R, self.R) if self.has_bias else None

    @property
    def scores(self) -> int:
        """How many logits there are: batch x H x Q x K."""
        if self.blocks:
            return self.blocks * sum(part.scores for part in self.parts)
        batch, H, Q, K = self.core
        return math.prod(batch) * H * Q * K

    @property
    def input_bytes(self) -> int:
        """Bytes of the inputs and of the output's cotangent, without parameters and mask."""
        batch, H, Q, K = self.core
        if self.level == "stack":
            _, column, triangle, _ = self.parts
            return column.input_bytes + triangle.input_bytes
        if self.level == "core":
            numbers = math.prod(batch) * H * self.c * (2 * Q + 2 * K) + math.prod(self.bias_shape or (0,))
        else:
            table = (self.S if self.operation.startswith("msa") else self.R) or 0
            numbers = 2 * table * self.R * CHANNELS[self.operation]
            numbers += self.R**2 * PAIR_CHANNELS if self.operation == "msa_row" else 0
        return numbers * (4 if self.dtype == "float32" else 2)

    def flops(self, direction: str) -> int:
        """Multiplications and additions of the matrix products, without any recomputation."""
        if self.blocks:
            return self.blocks * sum(part.flops(direction) for part in self.parts)
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
        sizes["blocks"] = self.blocks
        axes = " ".join(f"{name}={size}" for name, size in sizes.items() if size is not None)
        return f"{self.operation} {self.level} {axes} {self.dtype}"

    def as_dict(self) -> dict[str, Any]:
        """For the journal: the fields, and the size."""
        return {
            "operation": self.operation, "level": self.level, "B": 1, "S": self.S, "R": self.R, "T": self.T,
            "N_head": self.N_head, "c": self.c, "blocks": self.blocks, "dtype": self.dtype, "mask": self.mask,
            "scores": self.scores,
        }  # fmt: skip
