"""How large a module's error may be: the exact answer, and the rounding that a right module cannot avoid.

For the output and the gradient of every input and parameter, element by element,

    budget = 2 x the largest error of the plain module, in the same dtype on the same inputs,  +  8 x response

The plain module is the specification (``impls.reference_modules``) computed in that dtype. The response is measured:
the specification is computed in float64 again and again, with every input and every intermediate result, forward and
backward, off by a random eps of the dtype; it is the root mean square of what that changes. So it knows how
well-conditioned each element is, whatever stands between it and the inputs. Where it is zero nothing contributes, and
the answer must be zero exactly.

Codebases add 1e-10 to 1e-8 to the number of valid sequences of global attention; the response has room for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from impls.conformance.budget import Budget, gradients, largest
from impls.conformance.modules.cases import ModuleCase, ModuleInputs
from impls.reference_modules import SPECIFICATIONS

SAMPLES = 8
ROOM = 8
LARGEST_EPS = 1e-8

Call = Callable[..., Tensor]


def module_budget(case: ModuleCase) -> Budget:
    """The budget of one case, for ``out`` and for the gradient of every input and parameter wanted."""
    inputs, spec = case.inputs(), specification(case)
    wide = in_float64(inputs)
    exact = answer(spec, wide, case.grad)
    squares = {name: torch.zeros_like(x) for name, x in exact.items()}
    rounded = specification(case, eps=LARGEST_EPS)
    for seed in range(SAMPLES):
        with Perturbed(inputs.cotangent.dtype, seed):
            found = answer(rounded, in_float64(inputs), case.grad)
        for name, square in squares.items():
            square += (found[name] - exact[name]).square()
    plain = answer(spec, inputs, case.grad)
    return Budget(
        exact,
        {name: ROOM * (square / SAMPLES).sqrt() for name, square in squares.items()},
        {name: largest(off(plain[name], x)) for name, x in exact.items()},
    )


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
        for x in parameters.values():
            x.requires_grad_("parameters" in grad or not grad)
        out = call(parameters, **arguments)
        if not isinstance(out, Tensor):
            raise TypeError(f"returned a {type(out).__name__}; expected one tensor")
        others = meanwhile() if meanwhile else None  # kept alive until the end
    wanted = leaves(inputs, grad)
    found = {"out": out.detach(), **gradients("out", out, wanted, cotangent, again=meanwhile is not None)}
    del others
    return found


def leaves(inputs: ModuleInputs, grad: tuple[str, ...]) -> dict[str, Tensor]:
    """All tensors that a gradient is wanted of."""
    parameters: Mapping[str, Tensor] = inputs.parameters if "parameters" in grad else {}
    return {**{name: inputs.arguments[name] for name in grad if name != "parameters"}, **parameters}


def in_float64(inputs: ModuleInputs) -> ModuleInputs:
    """The same values as float64 leaves on the CPU, that require what the inputs require."""

    def wide(x: Tensor) -> Tensor:
        copy = x.detach().cpu()
        return copy.double().clone().requires_grad_(x.requires_grad) if x.is_floating_point() else copy

    parameters, arguments = ({name: wide(x) for name, x in part.items()} for part in inputs[:2])
    return ModuleInputs(parameters, arguments, wide(inputs.cotangent))


class Perturbed(TorchDispatchMode):
    """Every number that is computed, forward or backward, is off by a random part of itself, about one ``eps`` of it.

    So is every term of a sum of n, by sqrt(n) roundings of the accumulator (float32 for half precision): a sum of terms
    of one sign, taken in order, is off by about that many.
    """

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        super().__init__()
        self.eps = torch.finfo(dtype).eps
        self.accumulator = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in PRODUCTS:
            args = (self.off(args[0], self.accumulator * math.sqrt(args[0].shape[-1])), *args[1:])
        out = func(*args, **(kwargs or {}))
        if not isinstance(out, Tensor) or not out.is_floating_point() or returns_a_view(func):
            return out
        if func.overloadpacket in SUMS and args[0].is_floating_point() and out.numel():
            terms = self.off(args[0], self.accumulator * math.sqrt(args[0].numel() / out.numel()))
            out = func(terms, *args[1:], **(kwargs or {}))
        return self.off(out, self.eps)

    def off(self, x: Tensor, by: float) -> Tensor:
        return x * (1 + by * torch.randn(x.shape, generator=self.generator, dtype=x.dtype))


PRODUCTS = (torch.ops.aten.mm, torch.ops.aten.bmm)
SUMS = (torch.ops.aten.sum, torch.ops.aten.mean)


def returns_a_view(func: Any) -> bool:
    """Whether an operation returns (a view of) what it was given."""
    return any(result.alias_info for result in func._schema.returns)
