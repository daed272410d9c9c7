"""How far from float64 a stack of blocks ends up: rounding that adds up, in units of what eager's own adds up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.instrument import exact
from benchmarks.instrument.inputs import Inputs, apart
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.specimen import Outputs
from benchmarks.instrument.truth import Sample, Truth

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Drift(Truth):
    """The exact m, z and gradients of a stack; ``budget`` is by how much plain attention in its dtype misses them."""

    def errors(self, outputs: Outputs) -> dict[str, dict[str, float | None]]:
        """The drift of every tensor and eager's. A drift that is not finite is None."""
        found: dict[str, dict[str, float | None]] = {}
        for name, x in drifts(outputs, self.exact).items():
            found[name] = {"error": x.item() if x.isfinite() else None, "budget": self.budget[name].item()}
        return found


def drift(problem: Problem, inputs: Inputs) -> Drift:
    """The exact answer to the stack ``problem``, forward and training, and eager's drift from it."""
    import torch

    right = answer(problem, inputs, torch.float64)
    eager = answer(problem, inputs, inputs.cotangent.dtype)
    whole = Sample(slice(None), slice(None))
    return Drift(problem, whole, inputs.cotangent, right, drifts(eager, right))


def drifts(outputs: Outputs, right: Outputs) -> dict[str, Tensor]:
    """The root mean square of what every tensor is off."""
    return {name: (x.detach().double() - right[name]).square().mean().sqrt() for name, x in outputs.items()}


def answer(problem: Problem, inputs: Inputs, dtype: torch.dtype) -> Outputs:
    """m and z after the stack, and the gradients of both, by plain attention in ``dtype``."""
    import torch

    first = [x.detach().to(dtype).requires_grad_() for x in inputs.arguments.values()]
    parameters = {name: x.to(dtype) for name, x in inputs.parameters.items()}
    m, z = exact.stack(problem.N_head, parameters, *first)
    dm, dz = torch.autograd.grad((m, z), first, apart(inputs.cotangent.to(dtype), m, z))
    return {"m": m.detach(), "z": z.detach(), "dm": dm, "dz": dz}
