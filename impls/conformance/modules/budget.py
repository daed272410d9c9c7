"""How large a module's error may be: the exact answer, and the rounding that a right module cannot avoid.

For the output and the gradient of every input and parameter, element by element,

    budget = 2 x the largest error of the plain module, in the same dtype on the same inputs,  +  4 x response

The plain module is the specification (``impls.reference_modules``) computed in that dtype. The response is measured:
the specification is computed again and again, with every intermediate result, forward and backward, off by a random
rounding (``Perturbed``); it is the root mean square of what that changes. So it knows how well-conditioned each element
is, whatever stands between it and the inputs, which are exact. Where it is zero nothing contributes, and the answer
must be zero exactly. In float64 the answer to compare with is float64 as well, and rounds as much: the response counts
twice.

Codebases add 1e-10 to 1e-8 to the number of valid sequences of global attention: what 1e-8 changes is allowed twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from impls.conformance.budget import Budget, gradients, largest
from impls.conformance.modules.cases import ModuleCase, ModuleInputs
from impls.reference_modules import SPECIFICATIONS

SAMPLES = 8
ROOM = 4
LARGEST_EPS = 1e-8
MAGNIFIED = 2**12
"""Roundings of float64 are so much larger than float64 rounds itself, and what they change is divided by that."""

Call = Callable[..., Tensor]


def module_budget(case: ModuleCase) -> Budget:
    """The budget of one case, for ``out`` and for the gradient of every input and parameter wanted."""
    inputs, spec = case.inputs(), specification(case)
    exact = answer(spec, in_float64(inputs), case.grad)
    plain = answer(spec, inputs, case.grad)
    floor = {name: ROOM * x for name, x in response(case, inputs, exact).items()}
    if case.operation == "msa_global_column":
        shifted = answer(specification(case, eps=LARGEST_EPS), in_float64(inputs), case.grad)
        floor = {name: x + 2 * (shifted[name] - exact[name]).abs() for name, x in floor.items()}
    return Budget(exact, floor, {name: largest(off(plain[name], x)) for name, x in exact.items()})


def response(case: ModuleCase, inputs: ModuleInputs, exact: dict[str, Tensor]) -> dict[str, Tensor]:
    """The root mean square of what random roundings in the case's dtype change, elementwise; twice that in float64.

    Half precision is computed as such, so that what the specification keeps in float32 is off by no more than that;
    the others in float64.
    """
    dtype, changed = inputs.cotangent.dtype, {name: torch.zeros_like(x) for name, x in exact.items()}
    times = MAGNIFIED if dtype == torch.float64 else 1
    for seed in range(SAMPLES):
        given = inputs if half(dtype) else in_float64(inputs)
        with Perturbed(dtype, seed, times):
            found = answer(specification(case), given, case.grad)
        for name, x in changed.items():  # squares of the smallest numbers would vanish
            changed[name] = torch.hypot(x, found[name].double() - exact[name])
    counted = (2 if dtype == torch.float64 else 1) / times
    return {name: counted * x / math.sqrt(SAMPLES) for name, x in changed.items()}


def off(found: Tensor, exact: Tensor) -> Tensor:
    """Errors; none where the specification itself is not a number, which is where nothing is asked."""
    return torch.where(exact.isfinite(), (found.to(exact) - exact).abs(), 0)


def specification(case: ModuleCase, eps: float = 0.0) -> Call:
    """The specification of the case's operation, ``f(parameters, **arguments)``."""
    options: dict[str, Any] = {"N_head": case.N_head, "masked_rows": case.masked_rows}
    if case.operation == "msa_global_column":
        options["eps"] = eps
    return partial(SPECIFICATIONS[case.operation], **options)


def answer(
    call: Call, inputs: ModuleInputs, grad: tuple[str, ...], meanwhile: Callable[[], object] | None = None
) -> dict[str, Tensor]:
    """``out = call(parameters, **arguments)``, and the wanted gradients, ``d`` before the name of each.

    Gradients of parameters are of ``inputs.parameters`` themselves. Without any the call is made under
    ``torch.no_grad``. ``meanwhile`` is as in ``impls.conformance.budget.run``. Raises NoGradient where the output
    carries none to something wanted, TypeError where it is no tensor.
    """
    parameters, arguments, cotangent = inputs
    with torch.set_grad_enabled(bool(grad)):
        for name, x in parameters.items():
            x.requires_grad_("parameters" in grad or name in grad or not grad)
        out = call(parameters, **arguments)
        if not isinstance(out, Tensor):
            raise TypeError(f"returned a {type(out).__name__}; expected one tensor")
        others = [meanwhile()] if meanwhile else []  # kept alive until the end
    wanted = leaves(inputs, grad)
    found = {"out": out.detach(), **gradients("out", out, wanted, cotangent, again=meanwhile is not None)}
    if meanwhile:
        others.append(meanwhile())
    del others
    return found


def leaves(inputs: ModuleInputs, grad: tuple[str, ...]) -> dict[str, Tensor]:
    """All tensors that a gradient is wanted of."""
    arguments = {name: x for name, x in inputs.arguments.items() if name in grad}
    return arguments | {name: x for name, x in inputs.parameters.items() if "parameters" in grad or name in grad}


def in_float64(inputs: ModuleInputs) -> ModuleInputs:
    """The same values as float64 leaves on the CPU, that require what the inputs require."""

    def wide(x: Tensor) -> Tensor:
        copy = x.detach().cpu()
        return copy.double().clone().requires_grad_(x.requires_grad) if x.is_floating_point() else copy

    parameters, arguments = ({name: wide(x) for name, x in part.items()} for part in inputs[:2])
    return ModuleInputs(parameters, arguments, wide(inputs.cotangent))


class Perturbed(TorchDispatchMode):
    """Every number that is computed, forward or backward, is off by a random part of itself, about one rounding eps of
    its dtype. What is only moved is not.

    A sum of n terms t may be taken in any order, each partial sum s rounded by the accumulator (float32 for half
    precision). Its error is the root of the sum of (eps s)^2. In a random order the mean square of the m-th partial sum
    is (m/n)^2 (sum t)^2 + m (n - m) / (n (n - 1)) (sum t^2 - (sum t)^2 / n), so that the error is

        eps sqrt(n (sum t)^2 / 3 + n sum t^2 / 6)     at most,

    which is less than sqrt(n) roundings of the sum together with sqrt(n) roundings of each of its terms. Both are made:
    the first alone knows nothing of terms that cancel, the second alone nothing of terms of one sign. An accumulator
    that starts with a bias has it among its partial sums, so the bias is off by sqrt(n) roundings too, however small
    the product (as behind a gate that is shut).

    ``times`` magnifies all of it.
    """

    def __init__(self, dtype: torch.dtype, seed: int, times: float = 1) -> None:
        super().__init__()
        self.accumulator = times * torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        self.eps = {torch.float64: times * torch.finfo(dtype).eps}
        if half(dtype):
            self.eps = {torch.float32: self.accumulator, dtype: torch.finfo(dtype).eps}
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs, summed = func.overloadpacket, kwargs or {}, 0.0
        if name in PRODUCTS:
            *bias, left, right = args
            summed = self.accumulator * math.sqrt(left.shape[-1])
            bias = [self.off(x.expand(*left.shape[:-1], right.shape[-1]), summed) for x in bias]
            args = (*bias, self.off(left, summed), right)
        out = func(*args, **kwargs)
        if name in COPIES or returns_a_view(func):
            return out
        if name in SUMS and args[0].is_floating_point() and out.numel():
            summed = self.accumulator * math.sqrt(args[0].numel() / out.numel())
            out = func(self.off(args[0], summed), *args[1:], **kwargs)
        return tree_map_only(Tensor, lambda x: self.off(x, math.hypot(summed, self.eps.get(x.dtype, 0.0))), out)

    def off(self, x: Tensor, by: float) -> Tensor:
        """Each number off by a random part of itself, ``by`` of it on average; unless its dtype cannot tell."""
        if not x.is_floating_point() or by < torch.finfo(x.dtype).eps / 4:
            return x
        noise = torch.randn(x.shape, generator=self.generator).to(torch.promote_types(x.dtype, torch.float32))
        return noise.mul_(by).add_(1).mul_(x).to(x.dtype)


PRODUCTS = (torch.ops.aten.mm, torch.ops.aten.bmm, torch.ops.aten.addmm)
SUMS = (torch.ops.aten.sum, torch.ops.aten.mean)
COPIES = (torch.ops.aten.clone, torch.ops.aten._unsafe_view, torch.ops.aten.where)


def half(dtype: torch.dtype) -> bool:
    return torch.finfo(dtype).bits < 32


def returns_a_view(func: Any) -> bool:
    """Whether an operation returns (a view of) what it was given."""
    return any(result.alias_info for result in func._schema.returns)
