"""Whether an answer is right: float64 on the very tensors that are timed, and how far from it a right kernel may be.

Of a small problem everything is compared; of a big one a seeded sample of batch rows (and heads, if one row is too
big). The cotangent is then zero outside the sample, so that gradients which sum over the whole batch are exact all the
same.

At the core the budget is, element by element, ``2 x (largest error of plain attention in the same dtype) + 2 eps M``,
where M is the sum that defines the element, over absolute values, times the condition of its softmax row,
``1 + max_j (sum_c |q_c||k_c| / sqrt(c) + |bias|)``. Of a module, whose every tensor mixes many sums, M is the largest
value of the tensor.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.instrument import exact
from benchmarks.instrument.inputs import Inputs
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.specimen import Outputs

if TYPE_CHECKING:
    from torch import Tensor

TRANSPOSED = ("msa_column", "msa_global_column", "triangle_ending")


@dataclass
class Truth:
    """The exact answer to one problem in one direction, and its budget, for the sampled part of every tensor."""

    problem: Problem
    sample: Sample
    cotangent: Tensor
    exact: Outputs
    budget: Outputs

    def errors(self, outputs: Outputs) -> dict[str, dict[str, float | None]]:
        """Error and budget of every tensor, where their ratio is worst. A non-finite error is None.

        Raises ValueError if a tensor has another shape than it should.
        """
        found: dict[str, dict[str, float | None]] = {}
        for name in outputs:
            truth = self.exact[name]
            part = self.sample.of(name, outputs[name].detach(), self.problem)
            if part.shape != truth.shape:
                raise ValueError(f"{name} has shape {tuple(outputs[name].shape)}, which is not that of its input")
            error = (part.double() - truth).abs()
            if not bool(error.isfinite().all()):
                found[name] = {"error": None, "budget": self.budget[name].max().item()}
                continue
            worst = int((error / self.budget[name]).argmax())
            found[name] = {"error": error.flatten()[worst].item(), "budget": self.budget[name].flatten()[worst].item()}
        return found


@dataclass(frozen=True)
class Sample:
    """The batch rows and heads that are compared; a slice means all of them."""

    rows: list[int] | slice
    heads: list[int] | slice

    def of(self, name: str, x: Tensor, problem: Problem) -> Tensor:
        """The sampled part of the tensor called ``name``."""
        if problem.level == "module":
            if name != "o":
                return x
            return x[:, :, self.rows] if problem.operation in TRANSPOSED else x[:, self.rows]
        return x[..., self.heads, :, :] if name in ("bias", "dbias") else x[:, self.rows][..., self.heads, :, :]

    def keep(self, cotangent: Tensor, problem: Problem) -> Tensor:
        """``cotangent`` with zeros outside the sample."""
        import torch

        if isinstance(self.rows, slice):
            return cotangent
        kept = torch.zeros_like(cotangent)
        if problem.level == "module":
            view, rows = (
                (kept.transpose(1, 2), cotangent.transpose(1, 2))
                if problem.operation in TRANSPOSED
                else (kept, cotangent)
            )
            view[:, self.rows] = rows[:, self.rows]
            return kept
        heads = range(cotangent.shape[-3])[self.heads] if isinstance(self.heads, slice) else self.heads
        for head in heads:
            kept[:, self.rows, ..., head, :, :] = cotangent[:, self.rows, ..., head, :, :]
        return kept


def sample(problem: Problem, most: int) -> Sample:
    """A seeded sample of ``problem`` with about ``most`` logits; everything if it has no more."""
    batch, H, _, _ = problem.core
    n = batch[1]
    if problem.scores <= most:
        return Sample(slice(None), slice(None))
    chosen = random.Random(problem.key)
    row = problem.scores // n
    rows = sorted(chosen.sample(range(n), max(1, min(n, most // row))))
    if row <= most or problem.level == "module":
        return Sample(rows, slice(None))
    return Sample(rows, sorted(chosen.sample(range(H), max(1, most * H // row))))


def truth(problem: Problem, inputs: Inputs, most: int) -> Truth:
    """The exact answer to ``problem``, forward and training, and the budget for it; at most about ``most`` logits.

    A stack is compared whole, by its drift.
    """
    import torch

    if problem.level == "stack":
        from benchmarks.instrument.drift import drift  # it builds on this module

        return drift(problem, inputs)
    chosen = sample(problem, most)
    cotangent = chosen.keep(inputs.cotangent, problem)
    right = answer(problem, inputs, chosen, cotangent, torch.float64)
    eager = answer(problem, inputs, chosen, cotangent, inputs.cotangent.dtype)
    floor = core_floor(problem, inputs, chosen) if problem.level == "core" else {}
    eps = torch.finfo(inputs.cotangent.dtype).eps
    budget = {}
    for name, x in right.items():
        M = floor[name] if floor else x.abs().max().expand(x.shape)
        budget[name] = 2 * (eager[name].double() - x).abs().max() + 2 * eps * M
    return Truth(problem, chosen, cotangent, right, budget)


def answer(problem: Problem, inputs: Inputs, chosen: Sample, cotangent: Tensor, dtype: torch.dtype) -> Outputs:
    """Plain attention's ``o`` and gradients for the sample, computed in ``dtype``."""
    import torch

    of = {
        name: (x if problem.level == "module" else chosen.of(name, x, problem)).detach().to(dtype).requires_grad_()
        for name, x in inputs.arguments.items()
    }
    if problem.level == "core":
        o = exact.attention(**of)
    else:
        parameters = {name: x.to(dtype) for name, x in inputs.parameters.items()}
        assert inputs.mask is not None
        o = exact.module(problem.operation, problem.N_head, parameters, of["x"], of.get("z"), inputs.mask, chosen.rows)
    gradients = torch.autograd.grad(o, list(of.values()), chosen.of("o", cotangent, problem).to(dtype))
    return {"o": o.detach(), **{f"d{name}": g for name, g in zip(of, gradients, strict=True)}}


def core_floor(problem: Problem, inputs: Inputs, chosen: Sample) -> Outputs:
    """M for o, dq, dk, dv and dbias: the sums that define them, over absolute values, times each row's condition.

    In float32: a yardstick need not be exact.
    """
    import torch

    with torch.no_grad():
        given = {name: chosen.of(name, x.detach(), problem).float() for name, x in inputs.arguments.items()}
        bias = given.get("bias")
        P = exact.weights(given["q"], given["k"], bias, None)
        q, k, v, do = (
            x.abs() for x in (given["q"], given["k"], given["v"], chosen.of("o", inputs.cotangent, problem).float())
        )
        scale = 1 / math.sqrt(problem.c)
        logits = scale * q @ k.transpose(-1, -2)
        condition = 1 + (logits if bias is None else logits + bias.abs()).amax(-1, keepdim=True)
        dP = do @ v.transpose(-1, -2)
        dS = condition * P * (dP + (P * dP).sum(-1, keepdim=True))
        P = condition * P
        M = {"o": P @ v, "dq": scale * dS @ k, "dk": scale * dS.transpose(-1, -2) @ q, "dv": P.transpose(-1, -2) @ do}
        if bias is not None:
            M["dbias"] = dS.sum_to_size(bias.shape)
        return M
