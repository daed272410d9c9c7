"""The one interface of every backend, and the registry that finds them.

A backend computes, for every leading axis ``*`` and head,

    o_i = sum_j softmax_j(q_i . k_j / sqrt(c) + bias_ij) v_j        over the keys j that the mask allows

(the inner line of algorithms 7, 8, 13, 14, 17 and 19 of the AlphaFold 2 supplement). A row with no valid key, and one
whose bias is -inf throughout, gives zeros and zero gradients; what stands in a masked key or value reaches nothing.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from impls import backends
from impls.problem import CoreProblem, broadcasts, one_of

ENTRY_POINTS = "axialbench.backends"

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


class UnsupportedProblem(NotImplementedError):
    """A backend was called with a problem that its ``why_not`` refuses; the message says why."""


@dataclass(frozen=True)
class Traits:
    """What is true of a backend whatever the problem.

    Attributes:
        exact: computes softmax attention itself and no approximation of it.
        deterministic: the same inputs give the same bits.
        compiles: the first call for a problem builds code, which takes seconds.
        fake: runs under FakeTensorMode, so that its memory can be predicted for sizes that no machine holds.
        score_sized: when tensors as large as the logits are made, in words.
        kernels: how the names begin of which PyTorch's profiler shows one in every call, so that falling back to
            something else is seen; empty for ordinary operations, and where the choice is left to a library.
    """

    exact: bool = True
    deterministic: bool = True
    compiles: bool = False
    fake: bool = True
    score_sized: str = "never"
    kernels: tuple[str, ...] = ()


def no_limits(problem: CoreProblem) -> Iterable[str]:
    """The limits of a backend that can do every problem: none."""
    return ()


@dataclass(frozen=True)
class Backend:
    """One way to compute the core, under one name.

    ``attend(q, k, v, bias, mask)`` is called with checked inputs of equal head counts and no empty axis; ``limits``
    says in words a user can act on why a problem cannot be done, and nothing if it can. ``bytes_beyond_inputs``, if
    given, is a closed form for the peak memory of one call, for a backend that FakeTensorMode cannot run.
    """

    name: str
    summary: str
    attend: Attend
    limits: Callable[[CoreProblem], Iterable[str]] = no_limits
    traits: Traits = Traits()
    bytes_beyond_inputs: Callable[[CoreProblem], int] | None = None

    def why_not(self, problem: CoreProblem) -> list[str]:
        """Why this backend cannot do ``problem`` on this machine; an empty list if it can."""
        return list(_reasons(self, problem))

    def __call__(
        self,
        q: Float[Tensor, "*B H Q c"],
        k: Float[Tensor, "*B H_kv K c"],
        v: Float[Tensor, "*B H_kv K c"],
        bias: Float[Tensor, "*#B #H #Q #K"] | None = None,
        mask: Bool[Tensor, "*#B K"] | None = None,
    ) -> Float[Tensor, "*B H Q c"]:
        """The attention ``o`` of queries over keys, in q's dtype. Inputs are never modified.

        Args:
            q: queries, not yet scaled.
            k, v: keys and values, with as many heads as q, or one that all heads share.
            bias: added to the scaled logits, in q's dtype or float32; never expanded where a kernel can broadcast it.
            mask: True where a key may be attended to.

        Raises:
            ValueError: shapes that do not fit, or tensors on different devices.
            TypeError: what is no tensor, dtypes that do not fit or are no floating point, or a mask that is not bool.
            UnsupportedProblem: this backend cannot do this problem, and why.
        """
        problem = check_inputs(q, k, v, bias, mask)
        if reasons := _reasons(self, problem):
            raise UnsupportedProblem(f"backend {self.name!r}: " + "; ".join(reasons))
        if not problem.scores:
            return nothing_attended(q, k, v, bias)
        if problem.H_kv == problem.H:
            return self.attend(q, k, v, bias, mask)
        return self.attend(*fold_heads(q, k, v, bias), mask).reshape(q.shape)


@lru_cache(maxsize=4096)
def _reasons(backend: Backend, problem: CoreProblem) -> tuple[str, ...]:
    return tuple(backend.limits(problem))


def check_inputs(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> CoreProblem:
    """The problem that these tensors pose. Raises ValueError or TypeError as ``Backend.__call__`` says."""
    for name, x in {"q": q, "k": k, "v": v, "bias": bias, "mask": mask}.items():
        if x is not None and not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {described(x)}; expected a torch.Tensor, such as torch.as_tensor({name})")
    if not q.is_floating_point():
        raise TypeError(f"q is {q.dtype}: attention is computed in floating point; convert it, such as q.float()")
    for name, x in {"q": q, "k": k, "v": v}.items():
        if x.dim() < 3:
            raise ValueError(f"{name} has shape {tuple(x.shape)}; expected (*, heads, length, c)")
        if x.dtype != q.dtype:
            raise TypeError(f"{name} is {x.dtype}, q is {q.dtype}: q, k and v share a dtype; convert one of them")
    *batch, H, Q, c = q.shape
    H_kv, K = k.shape[-3:-1]
    if k.shape != v.shape:
        raise ValueError(f"k has shape {tuple(k.shape)}, v {tuple(v.shape)}: keys and values have the same shape")
    if (*k.shape[:-3], k.shape[-1]) != (*batch, c):
        raise ValueError(f"k has shape {tuple(k.shape)}, q {tuple(q.shape)}: (*, H, length, c) must agree in * and c")
    if bias is not None and bias.dtype not in (q.dtype, torch.float32):
        raise TypeError(f"bias is {bias.dtype}, q is {q.dtype}: a bias has q's dtype or float32")
    if mask is not None:
        if mask.dtype != torch.bool:
            raise TypeError(f"mask is {mask.dtype}; the core takes bool (True = attend), such as mask.bool()")
        if not broadcasts(tuple(mask.shape), (*batch, K)):
            raise ValueError(f"mask of shape {tuple(mask.shape)} does not broadcast to {(*batch, K)} (*, K)")
    for name, other in {"k": k, "v": v, "bias": bias, "mask": mask}.items():
        if other is not None and other.device != q.device:
            raise ValueError(f"{name} is on {other.device}, q on {q.device}: move them to one device")
    grad = torch.is_grad_enabled()
    return CoreProblem(
        tuple(batch), H, Q, K, c,
        bias_shape=None if bias is None else tuple(bias.shape),
        mask=mask is not None,
        dtype=str(q.dtype),
        device=q.device.type,
        H_kv=H_kv,
        bias_dtype=None if bias is None else str(bias.dtype),
        training=grad and (q.requires_grad or k.requires_grad or v.requires_grad),
        bias_grad=grad and bias is not None and bias.requires_grad,
    )  # fmt: skip


def described(x: object) -> str:
    """The type of something that is no tensor, with its module unless it is built in."""
    kind = type(x)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def nothing_attended(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """The answer when a length is zero: zeros of q's shape, with zero gradients for every input."""
    everything = torch.ones((), dtype=torch.bool, device=q.device)
    zero = [x.masked_fill(everything, 0).sum().to(q.dtype) for x in (k, v, bias) if x is not None]
    return q.masked_fill(everything, 0) + torch.stack(zero).sum()


def fold_heads(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """H heads that share one K/V head, as one head of H x Q queries: the same attention, and nothing is copied.

    A bias is expanded over H and Q if it has only one of the two.
    """
    H, Q = q.shape[-3:-1]
    if bias is not None and max(bias.shape[-3:-1], default=1) > 1:
        bias = bias.expand(*bias.shape[:-3], H, Q, bias.shape[-1]).flatten(-3, -2).unsqueeze(-3)
    return q.flatten(-3, -2).unsqueeze(-3), k, v, bias


@cache
def _ours() -> dict[str, Backend]:
    found = {}
    for module in pkgutil.iter_modules(backends.__path__, backends.__name__ + "."):
        for backend in importlib.import_module(module.name).BACKENDS:
            found[backend.name] = backend
    return found


def _plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def names() -> list[str]:
    """Names of all backends: this package's, then those that other packages register."""
    return [*_ours(), *(name for name in _plugins() if name not in _ours())]


def get(name: str) -> Backend:
    """The backend called ``name``.

    Another package registers a ``Backend``, or a bare callable with the core's signature, as an entry point in the
    group ``axialbench.backends``. Raises ValueError for an unknown name (suggesting the nearest) and ImportError when
    another package's entry point cannot be loaded.
    """
    if name in _ours():
        return _ours()[name]
    one_of("backend", name, tuple(names()))
    point = _plugins()[name]
    try:
        found = point.load()
    except Exception as error:
        raise ImportError(f"backend {name!r} ({point.value}) cannot be loaded: {error}") from error
    return as_backend(found, name, point.value)


def as_backend(found: object, name: str, where: str) -> Backend:
    """``found`` as a Backend: itself, or a bare callable under ``name``.

    A callable claims every problem, and declines one by raising ``NotImplementedError("why")``.
    """
    if isinstance(found, Backend):
        return found
    if not callable(found):
        raise TypeError(
            f"{where} is a {type(found).__name__}; expected an impls.Backend or a callable (q, k, v, bias, mask)"
        )
    return Backend(name, summary=(found.__doc__ or where).strip().splitlines()[0], attend=declining(found))


def declining(attend: Attend) -> Attend:
    """A callable whose NotImplementedError is a refusal."""

    def call(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        try:
            return attend(q, k, v, bias, mask)
        except NotImplementedError as reason:
            raise UnsupportedProblem(str(reason) or "NotImplementedError") from reason

    return call
