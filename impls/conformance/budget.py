"""How large an error may be: the exact answer, and the rounding that a right kernel cannot avoid.

For each of o, dq, dk, dv and dbias, element by element,

    budget = 2 x the largest error of plain eager attention, in the same dtype on the same inputs,  +  2 eps M

where M is the sum that defines the element, taken over absolute values and times the condition of its softmax row.
Where M is zero nothing contributes (a masked key, a row without valid keys), and the answer must be zero exactly.

The condition of row i is 1 + max_j (sum_c |q_ic||k_jc| / sqrt(c) + |bias_ij|): logits are sums of that size, each
rounded to one part in 1/eps, and an absolute error of a logit is a relative error of its weight. Keys without weight do
not count, so that a bias of -1e9 used as a mask buys no tolerance. To it comes sqrt(n) for the longest of the sums, in
the precision of the accumulator (float32 for half precision): a sum of n terms of one sign, taken in order, is off by
about that many roundings. Where 2 eps times the condition is not small, a weight may be off by that power of e, but
never by more than 1. A logit that is a large product and many small ones is rounded at every step: sqrt(c) / 2 times.
In float64 the answer to compare with is float64 as well, and rounds as much: the term counts twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from impls.interface import Backend, get
from impls.masks import hide, on_keys
from impls.problem import CoreInputs
from impls.reference import weights

TENSORS = ("o", "dq", "dk", "dv", "dbias")


@dataclass(frozen=True)
class Budget:
    """The exact answer to a problem, and how far from it a right kernel may be, for ``o`` and each gradient wanted.

    Attributes:
        exact: float64, on the inputs as they are rounded.
        floor: 2 eps M, elementwise.
        eager: the largest error of plain eager attention; not finite where eager's answer is not.
    """

    exact: dict[str, Tensor]
    floor: dict[str, Tensor]
    eager: dict[str, float]

    def of(self, name: str) -> Tensor:
        """The budget of tensor ``name``, elementwise."""
        floor = self.floor[name]
        return torch.where(floor > 0, floor + 2 * self.eager[name], 0)


def budget(inputs: CoreInputs) -> Budget:
    """The budget of one problem, for ``o`` and for the gradient of every input that requires one."""
    exact = run(get("reference"), in_float64(inputs))
    yardstick = run(get("eager"), inputs)
    times = 2 if inputs.q.dtype == torch.float64 else 1
    floors = {name: times * x for name, x in floor(inputs).items()}
    return Budget(
        exact,
        {name: floors[name] for name in exact},
        {name: largest((yardstick[name].double() - exact[name]).abs()) for name in exact},
    )


def run(
    attend: Backend | Callable[..., Tensor], inputs: CoreInputs, meanwhile: Callable[[], object] | None = None
) -> dict[str, Tensor]:
    """``o``, and as ``dq``, ``dk``, ``dv``, ``dbias`` the gradients of the inputs that require one.

    If none does, under ``torch.no_grad``. ``meanwhile`` is called between the passes, and after the backward pass,
    which is then made twice: what a call needs later, or has given away, must not lie where another call writes.
    Raises NoGradient where o carries no gradient to an input, TypeError where it is no tensor.
    """
    q, k, v, bias, mask, cotangent = inputs
    wanted = {name: x for name, x in inputs._asdict().items() if x is not None and x.requires_grad}
    with torch.set_grad_enabled(bool(wanted)):
        o = attend(q, k, v, bias, mask)
        if not isinstance(o, Tensor):
            raise TypeError(f"returned a {type(o).__name__}; expected one tensor")
        others = [meanwhile()] if meanwhile else []  # kept alive until the end
        found = {"o": o.detach(), **gradients("o", o, wanted, cotangent, again=meanwhile is not None)}
        if meanwhile:
            others.append(meanwhile())
        del others
    return found


class NoGradient(RuntimeError):
    """An output does not depend, for autograd, on something that a gradient is wanted of."""


def gradients(
    name: str, output: Tensor, wanted: Mapping[str, Tensor], cotangent: Tensor, *, again: bool = False
) -> dict[str, Tensor]:
    """The gradient of each tensor wanted, with ``d`` before its name; ``again``: of a second backward pass, after
    one with another cotangent.

    Raises NoGradient, naming those to which ``output`` (called ``name``) carries none.
    """
    if not wanted:
        return {}
    found: tuple[Tensor | None, ...] = (None,) * len(wanted)
    if output.requires_grad:
        leaves = tuple(wanted.values())
        if again:
            torch.autograd.grad(output, leaves, 1 - cotangent, allow_unused=True, retain_graph=True)
        found = torch.autograd.grad(output, leaves, cotangent, allow_unused=True)
    present = {f"d{key}": x for key, x in zip(wanted, found, strict=True) if x is not None}
    if missing := [key for key in wanted if f"d{key}" not in present]:
        raise NoGradient(f"{name} carries no gradient to {', '.join(missing)}")
    return present


def in_float64(inputs: CoreInputs) -> CoreInputs:
    """The same values as float64 leaves that require what the inputs require."""
    values = {name: x for name, x in inputs._asdict().items() if x is not None and x.is_floating_point()}
    leaves = {name: x.detach().double().requires_grad_(x.requires_grad) for name, x in values.items()}
    return inputs._replace(**leaves)


@torch.no_grad()
def floor(inputs: CoreInputs) -> dict[str, Tensor]:
    """``2 eps M`` of the output and of all gradients, in float64, W being the error of the weights P.

    ======  =====================================  ========================================================
    P       softmax_j(q_i . k_j / sqrt(c) + b_ij)  W_ij = P_ij (e^(2 eps condition_i) - 1), at most 1
    o       sum_j P_ij v_jc                        sum_j W_ij |v_jc|
    dv      sum_i P_ij do_ic                       sum_i W_ij |do_ic|
    dS      P_ij (do_i . v_j - do_i . o_i)         W_ij (|do_i|.|v_j| + sum_k (P + W)_ik |do_i|.|v_k|), and P_ij
                                                   times |do_i|, of every o that may have vanished
    dbias   sum of dS_ij over broadcast axes       the same sum, and a rounding in the bias's dtype
    dq, dk  sum_j dS_ij k_jc / sqrt(c)             the same with the error of dS and |k_jc|, and so for dk
    ======  =====================================  ========================================================
    """
    q, k, v, bias, mask, cotangent = inputs
    names = {"o": q, "dq": q, "dk": k, "dv": v, "dbias": bias}
    if not q.numel() * k.shape[-2]:
        return {name: torch.zeros_like(x, dtype=torch.float64) for name, x in names.items() if x is not None}
    P = weights(q, k, bias, mask)
    k, v = hide(k, mask), hide(v, mask)
    q, k, v, cotangent = (x.double().abs() for x in (q, k, v, cotangent))
    scale = 1 / math.sqrt(q.shape[-1])
    logits = scale * summation(inputs) * q @ k.transpose(-1, -2)
    valid = torch.ones_like(P, dtype=torch.bool)
    if mask is not None:
        valid = valid & on_keys(mask)
    if bias is not None:
        logits, valid = logits + bias.double().abs(), valid & (bias > -torch.inf)
    condition = 1 + torch.where(P > 0, logits, 0).amax(-1, keepdim=True) + accumulation(inputs)
    W = torch.where(valid, P * (2 * eps(inputs.q) * condition).expm1() + 2 * lost(inputs.q), 0).clamp(max=1)

    dP = cotangent @ v.transpose(-1, -2)
    vanished = 2 * lost(inputs.q) * cotangent.sum(-1, keepdim=True)
    dS = or_lost(W * (dP + ((P + W) * dP).sum(-1, keepdim=True)) + P * vanished, inputs.q)
    floors = {
        "o": W @ v,
        "dq": scale * dS @ k,
        "dk": (scale * dS.transpose(-1, -2) @ q).sum_to_size(k.shape),
        "dv": (W.transpose(-1, -2) @ cotangent).sum_to_size(v.shape),
    }
    if bias is not None:
        rounded = eps(bias) * P * (dP + (P * dP).sum(-1, keepdim=True))
        floors["dbias"] = (dS + rounded).sum_to_size(bias.shape)
    return {name: or_lost(x, inputs.q) for name, x in floors.items()}


def accumulation(inputs: CoreInputs) -> float:
    """sqrt(n) roundings of an accumulator, in roundings of q's dtype; n is the number of terms of the longest sum."""
    q, k, bias = inputs.q, inputs.k, inputs.bias
    H, Q, K = *q.shape[-3:-1], k.shape[-2]
    shared = 1 if bias is None else q[..., 0].numel() * K // max(1, bias.numel())
    n = max(K, H * Q // k.shape[-3], shared)
    return math.sqrt(n) * accumulator_eps(q) / eps(q)


def accumulator_eps(x: Tensor) -> float:
    return torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps


def summation(inputs: CoreInputs) -> float:
    """Roundings of a sum of c products in the accumulator, in roundings of q's dtype; at least 1."""
    return max(1, math.sqrt(inputs.q.shape[-1]) / 2 * accumulator_eps(inputs.q) / eps(inputs.q))


def eps(x: Tensor) -> float:
    return torch.finfo(x.dtype).eps


def lost(x: Tensor) -> float:
    """The most that a number loses by vanishing: float16 rounds to subnormals, other dtypes may flush them to zero."""
    return torch.finfo(x.dtype).smallest_normal * (eps(x) if x.dtype == torch.float16 else 1)


def or_lost(floor: Tensor, like: Tensor) -> Tensor:
    """A floor with room for results that vanish, in the dtype of ``like``; still zero where it is zero."""
    return torch.where(floor > 0, floor + 2 * lost(like), 0)


def largest(x: Float[Tensor, "..."]) -> float:
    """The largest element, NaN if there is one; 0 of nothing."""
    return x.max().item() if x.numel() else 0.0
