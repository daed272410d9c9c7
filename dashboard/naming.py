"""How a record names its problem: the sizes of a series, and what two backends must share to be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

AXES = ("S", "R", "T", "N_head", "c", "B", "blocks")
NAMES = ("operation", "node", "backend", "dtype")  # parameters of a series that are not sizes


def size(params: Mapping[str, Any]) -> str:
    """The sizes among a series' parameters: ``"R=256"``."""
    return ", ".join(f"{name}={value}" for name, value in params.items() if name not in NAMES)


def point(problem: Mapping[str, Any], dtype: str, direction: str) -> str:
    """The problem without its backend: ``"msa_row core S=128 R=256 ... none float32 forward"``."""
    axes = [f"{axis}={problem[axis]:g}" for axis in AXES if number(problem.get(axis)) is not None]
    names = [problem["operation"], problem.get("level"), *axes, problem.get("mask"), dtype, direction]
    return " ".join(str(name) for name in names if name)


def number(value: object) -> float | None:
    """``value`` if it is a finite number, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None
