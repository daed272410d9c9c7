"""Triton kernels of other packages on a CPU, in Triton's interpreter: their mathematics, and nothing of a GPU.

To be named wherever a kernel is, in a process whose environment has TRITON_INTERPRET=1 and PYTHONPATH=tests:

    python -m impls check interpreted:trifast --ops triangle_starting --dtypes float32,float16

What trifast asks of a GPU is answered here: its import wants a device's name and capability, its autotuner would time
every configuration. ``trifast`` is our backend with the limits of its shapes alone; ``bare_trifast`` is the kernel in
our layout, with nothing done for rows without keys, hidden numbers or a bias of -inf.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from unittest.mock import patch

import torch
from torch import Tensor

from impls.backends import trifast as adapter
from impls.interface import Backend
from impls.layout import with_axes
from impls.problem import CoreProblem

ENVIRONMENT = {"TRITON_INTERPRET": "1"}


def without_a_gpu() -> ModuleType:
    """trifast's module of kernels. What its import would write into the user's settings goes nowhere."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError("start the process with TRITON_INTERPRET=1: Triton reads it when it is imported")
    with (
        tempfile.TemporaryDirectory() as settings,
        patch.dict(os.environ, XDG_CONFIG_HOME=settings),
        patch("torch.cuda.get_device_capability", lambda: (8, 0)),
        patch("torch.cuda.get_device_name", lambda: "none"),
    ):
        return importlib.import_module("trifast.triton")


KERNELS = [getattr(without_a_gpu(), name) for name in ("_fwd", "_bwd_q", "_bwd_kv", "_bwd_b")]
CONFIGURATIONS = [kernel.configs for kernel in KERNELS]


def use_blocks(number: int) -> None:
    """Run each kernel with its ``number``-th configuration; one that is given alone is not timed."""
    for kernel, configurations in zip(KERNELS, CONFIGURATIONS, strict=True):
        kernel.configs = [configurations[number]]


def limits(p: CoreProblem) -> Iterator[str]:
    yield from adapter.shape_limits(p)
    if p.dtype == "bfloat16":
        yield "bfloat16: Triton's interpreter cannot run this kernel in it; use float16"


def bare(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mask: Tensor | None) -> Tensor:
    """The kernel in our layout, one batch axis before the rows."""
    from trifast import triangle_attention

    B, n, H, _, _ = q.shape
    hidden = torch.zeros(B, n, n, dtype=torch.bool) if mask is None else ~mask.expand(B, n, n)
    bias = with_axes(bias, q.dim()).squeeze(-4).expand(B, H, n, n)
    return triangle_attention(*(x.transpose(1, 2) for x in (q, k, v)), bias, hidden).transpose(1, 2)


use_blocks(0)
trifast = replace(adapter.BACKENDS[0], limits=limits)
bare_trifast = Backend("bare_trifast", "trifast's kernel, unadapted", bare, limits=limits)
