"""The flash-attn packages, generations 2, 3 and 4: no bias; a key mask by packing the valid keys of all rows together.

Generation 2 runs on a CPU too, where the process has Triton's interpreter run flash-attn's Triton kernels. That is slow
and shows their mathematics only: set ``INTERPRETED`` in the environment before anything imports Triton.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from impls.cuda import Capability, Limits, flash_index_limit, grid_limits, half_only, on_cuda
from impls.interface import Backend, Traits
from impls.layout import over_one_batch_axis
from impls.problem import CoreProblem

INTERPRETED = {"FLASH_ATTENTION_TRITON_AMD_ENABLE": "TRUE", "TRITON_INTERPRET": "1"}
CUSTOM_OPS = ("forward", "backward", "varlen_forward", "varlen_backward")


class Package(NamedTuple):
    """A generation of flash-attn as it is distributed, how to get it, and ``Traits.kernels``."""

    distribution: str
    module: str
    install: str
    kernels: tuple[str, ...] = ()


FLASH_ATTN_2 = Package(
    "flash-attn", "flash_attn.flash_attn_interface", "pip install flash-attn --no-build-isolation", ("flash_attn::",)
)
FLASH_ATTN_3 = Package(
    "flash-attn-3", "flash_attn_interface", "python setup.py install in its sources' folder hopper", ("flash_attn_3::",)
)
FLASH_ATTN_4 = Package("flash-attn-4", "flash_attn.cute", "pip install --pre flash-attn-4")


def attend(package: Package, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    return over_one_batch_axis(partial(call, loaded(package)), q, k, v, bias, mask)


def call(kernels: Any, q: Tensor, k: Tensor, v: Tensor, bias: None, mask: Tensor | None) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    o = kernels.flash_attn_func(q, k, v) if mask is None else over_valid_keys(kernels, q, k, v, mask)
    return o.transpose(1, 2)


def over_valid_keys(
    kernels: Any,
    q: Float[Tensor, "N Q H c"],
    k: Float[Tensor, "N K H c"],
    v: Float[Tensor, "N K H c"],
    mask: Bool[Tensor, "#N K"],
) -> Float[Tensor, "N Q H c"]:
    """Attention through the variable-length call: every row of the batch is a sequence of its valid keys.

    A row without any is given its first key, as zeros, for no kernel need handle empty sequences; its output is hidden.
    """
    (N, Q), K = q.shape[:2], k.shape[1]
    mask = mask.expand(N, K)
    empty = ~mask.any(1, keepdim=True)
    packed = mask | (empty & (torch.arange(K, device=q.device) == 0))
    kept = packed.flatten().nonzero().squeeze(1)
    hidden = empty.expand(N, K).flatten()[kept, None, None]
    o = kernels.flash_attn_varlen_func(
        q.flatten(0, 1),
        *(x.flatten(0, 1).index_select(0, kept).masked_fill(hidden, 0) for x in (k, v)),
        cu_seqlens_q=torch.arange(0, (N + 1) * Q, Q, dtype=torch.int32, device=q.device),
        cu_seqlens_k=F.pad(packed.sum(1).cumsum(0, dtype=torch.int32), (1, 0)),
        max_seqlen_q=Q,
        max_seqlen_k=K,
    )
    return o.unflatten(0, (N, Q)).masked_fill(empty[..., None, None], 0)


@cache
def loaded(package: Package) -> Any:
    """The module with ``flash_attn_func`` and ``flash_attn_varlen_func``, ready for CPU tensors where interpreted."""
    kernels = importlib.import_module(package.module)
    if package is FLASH_ATTN_2 and interpreted():
        for name in CUSTOM_OPS:
            op = getattr(kernels, f"_flash_attn_{name}")
            op.register_kernel("cpu")(op._init_fn)
    return kernels


def interpreted() -> bool:
    return all(os.environ.get(name) == value for name, value in INTERPRETED.items())


def limits(package: Package, on_device: Limits, p: CoreProblem) -> Iterator[str]:
    if not installed(package):
        yield f"{package.distribution} is not installed ({package.install})"
    if p.bias_shape is not None:
        yield "takes no bias: use chunked, flex or sdpa_efficient"
    yield from half_only(p)
    unfit = list(on_device(p))
    yield from unfit
    if installed(package) and not unfit:
        yield from trouble_loading(package)


@cache
def installed(package: Package) -> bool:
    try:
        version(package.distribution)
    except PackageNotFoundError:
        return False
    return True


@cache
def trouble_loading(package: Package) -> tuple[str, ...]:
    try:
        loaded(package)
    except Exception as error:
        return (f"{package.distribution} {version(package.distribution)} cannot be loaded: {error}",)
    return ()


def interpreter_or_cuda(p: CoreProblem) -> Iterable[str]:
    if p.device != "cpu":
        return on_cuda(rules_2, oldest=(8, 0))(p)
    if interpreted():
        return ["bfloat16: Triton's interpreter computes wrong numbers in it; use float16"] * (p.dtype == "bfloat16")
    settings = " ".join(f"{name}={value}" for name, value in INTERPRETED.items())
    return [f"needs CUDA; on a CPU it runs only in Triton's interpreter, in a process started with {settings}"]


def rules_2(p: CoreProblem, capability: Capability) -> Iterator[str]:
    if p.c > 256:
        yield f"c={p.c}: a head is at most 256 wide; use sdpa_math"
    yield from grid_limits(p)
    yield from flash_index_limit(p)


def rules_3(p: CoreProblem, capability: Capability) -> Iterator[str]:
    if capability != (9, 0):
        yield "is for Hopper GPUs (compute capability 9.0) alone; use flash_attn"
    if p.c % 8 or p.c > 256:
        yield f"c={p.c}: a head's width is a multiple of 8 up to 256; use flash_attn or sdpa_math"
    yield from grid_limits(p)


def rules_4(p: CoreProblem, capability: Capability) -> Iterator[str]:
    if p.training and capability < (9, 0):
        yield "its backward needs a GPU of compute capability 9.0 or newer; use flash_attn"
    widest = 256 if capability[0] == 9 else 128
    if p.c % 8 or (p.c > widest and p.c != 256):
        yield f"c={p.c}: a head's width is a multiple of 8 up to {widest} here; use flash_attn or sdpa_math"
    yield from grid_limits(p)


def backend(name: str, summary: str, package: Package, on_device: Limits) -> Backend:
    traits = Traits(deterministic=False, compiles=package is FLASH_ATTN_4, fake=False, kernels=package.kernels)
    return Backend(name, summary, partial(attend, package), partial(limits, package, on_device), traits)


BACKENDS = (
    backend("flash_attn", "flash-attn 2 (CUDA; no bias)", FLASH_ATTN_2, interpreter_or_cuda),
    backend("flash_attn_3", "flash-attn 3 (Hopper GPUs; no bias)", FLASH_ATTN_3, on_cuda(rules_3, oldest=(9, 0))),
    backend("flash_attn_4", "flash-attn 4 (CUDA; no bias)", FLASH_ATTN_4, on_cuda(rules_4, oldest=(8, 0))),
)
