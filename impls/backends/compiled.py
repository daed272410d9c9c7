"""Plain attention through torch.compile: what a compiler makes of the code in ``eager.py``."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from impls.backends import eager
from impls.interface import Backend, Traits
from impls.problem import CoreProblem

COMPILED = ("Torch-Compiled Region",)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    return compiled_for(eager.attend, shapes(q, k, v, bias, mask))(q, k, v, bias, mask)


def shapes(*inputs: Tensor | None) -> tuple[object, ...]:
    """What a function is compiled for: shape, dtype and device of every input."""
    return tuple(None if x is None else (x.shape, x.dtype, x.device) for x in inputs)


@cache
def compiled_for(function: Callable[..., Tensor], shapes: tuple[object, ...]) -> Callable[..., Tensor]:
    """``function`` compiled for these very shapes, as one graph.

    Every tuple of shapes has a compiled function of its own, with its own count of recompilations (for strides and
    required gradients). One for all would give up after eight shapes and run uncompiled without a word.
    """
    alone: dict[str, Any] = {"isolate_recompiles": True, "recompile_limit": 64}
    return torch.compile(function, dynamic=False, fullgraph=True, **alone)


def compiler_limits(p: CoreProblem) -> Iterator[str]:
    """What torch.compile needs in order to build code for a CPU: a C++ compiler and Python's headers."""
    if p.device != "cpu":
        return
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        yield f"needs a C++ compiler, and {compiler!r} is not found: install g++, or set CXX to another compiler"
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        yield f"needs Python's headers, and Python.h is not in {include}: install python3-dev"


BACKENDS = (
    Backend(
        "compiled",
        "plain attention compiled by torch.compile, anew for every shape",
        attend,
        limits=compiler_limits,
        traits=Traits(compiles=True, fake=False, score_sized="always: logits and weights", kernels=COMPILED),
    ),
)
