"""Verdicts: what a backend answers to a case, held against the budget.

The cases are those of ``impls.conformance.cases``, the budget that of ``impls.conformance.budget``; the tests and
``python -m impls check`` both run what is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from impls.conformance.budget import Budget, NoGradient, budget, gradients, run
from impls.conformance.cases import Case, cases, resized
from impls.conformance.modules.cases import ModuleCase
from impls.conformance.surroundings import asked_for, kept
from impls.interface import Backend, UnsupportedProblem
from impls.problem import CoreInputs

__all__ = ["AnyCase", "Case", "Check", "Verdict", "cases", "compare", "examine", "judge", "judge_parts"]

LONGEST = 500
"""Characters that are kept of an error's message."""
OTHER_CALLS = 3
"""Calls on other inputs between a forward and a backward pass, and after both: more than buffers that take turns."""
AnyCase = Case | ModuleCase


@dataclass(frozen=True)
class Check:
    """One tensor of an answer, at its worst element: that element's error and budget, and where it is.

    A ``ratio`` of error to budget above 1 is a failure; it is infinite where the answer is not finite, or not zero
    although nothing contributes.
    """

    tensor: str
    error: float
    budget: float
    ratio: float
    where: tuple[int, ...] = ()

    def __str__(self) -> str:
        place = f"{self.tensor}[{', '.join(map(str, self.where))}]"
        return f"{place} is off by {self.error:.2e}, budget {self.budget:.2e} (ratio {self.ratio:.3g})"


@dataclass(frozen=True)
class Verdict:
    """What became of one case.

    Attributes:
        status: "passed", "failed", "declined" (the backend says it cannot), or "not_judged" (plain eager attention is
            itself not finite here, so that there is no yardstick).
        reasons: why, in words; empty when passed.
        checks: every tensor that was compared.
    """

    case: AnyCase
    status: str
    reasons: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def ratio(self) -> float:
        """The largest ratio of error to budget."""
        return max((check.ratio for check in self.checks), default=0.0)


def judge(backend: Backend, case: Case) -> Verdict:
    """Run ``backend`` on ``case``, and compare. Never raises for what the backend does."""
    if reasons := backend.why_not(case.core()):
        return Verdict(case, "declined", tuple(reasons))
    interrupted = case.repeats > 1 and not backend.traits.compiles  # which may reuse buffers in its backward pass
    plain = not {*case.quirks} - {"inference"} and not case.nothing
    with asked_for(case.quirks):  # in inference mode, inputs too are tensors without versions
        inputs = case.inputs()
        others = case.with_(seed=case.seed + 1).inputs() if case.repeats > 1 else inputs
        if interrupted and plain:
            remember(backend, case, inputs, others)
    given = {name: x for name, x in inputs._asdict().items() if x is not None}

    def meanwhile() -> list[object]:
        return [*(run(backend, others) for _ in range(OTHER_CALLS)), transposed(backend, inputs)]

    def call() -> dict[str, Tensor]:
        with asked_for(case.quirks):
            return run(backend, inputs, meanwhile if interrupted else None)

    verdict = examine(case, _budget(case), given, call, like=inputs.q, deterministic=backend.traits.deterministic)
    asked = verdict.status == "passed" and interrupted and plain and case.grad
    if asked and (wrong := written_over(backend, inputs, _budget(case))):
        return replace(verdict, status="failed", reasons=tuple(wrong))
    return verdict


def written_over(backend: Backend, inputs: CoreInputs, expected: Budget) -> list[str]:
    """Gradients that are wrong where a caller goes on to compute in o, or writes to an input, before the backward pass;
    that this raises an error is as right.
    """
    given = {name: x for name, x in inputs._asdict().items() if x is not None}
    wanted = {name: x for name, x in given.items() if x.requires_grad}
    del given["cotangent"]
    written: dict[str, Tensor | None] = {"o": None, **given}
    wrong = []
    for name, x in written.items():
        try:
            o = backend(*inputs[:5])
            if x is None:
                found = gradients("o", o.mul_(0.5), wanted, 2 * inputs.cotangent)
            else:
                with changed(x):
                    found = gradients("o", o, wanted, inputs.cotangent)
        except RuntimeError:
            continue
        told = f"after {name} was changed in place, which autograd was not told that it must not be"
        checks = [compare(tensor, gradient, expected) for tensor, gradient in found.items()]
        wrong += [f"{told}, {check}" for check in checks if not check.ratio <= 1]
    return wrong


@contextmanager
def changed(x: Tensor) -> Iterator[None]:
    """Other numbers in ``x`` meanwhile."""
    before = x.detach().clone()
    with torch.no_grad():
        x.copy_(~x if x.dtype == torch.bool else 1 - x)
    try:
        yield
    finally:
        with torch.no_grad():
            x.copy_(before)


@torch.no_grad()
def remember(backend: Backend, case: Case, inputs: CoreInputs, other: CoreInputs) -> None:
    """Call it on copies of bias and mask transposed, on NaN of more queries and keys, and on the very tensors of
    ``inputs`` with other numbers in them, as inference and then as the case wants it. What it keeps of all this must
    not come back.

    Numbers are written past the version counter, as ``parameter.data.copy_()`` does: a new tensor in memory that was
    freed looks to a cache just so.
    """
    transposed(backend, inputs._replace(bias=_copied(inputs.bias), mask=_copied(inputs.mask)))
    overflowed = resized(case, Q=2 * case.Q, K=2 * case.K).inputs()
    for x in overflowed:
        if x is not None and x.is_floating_point():
            x.fill_(torch.nan)
    tensors = [(x, x.clone(), y) for x, y in zip(inputs, other, strict=True) if x is not None and y is not None]
    for x, _, y in tensors:
        x.data.copy_(y)
    for call in (lambda: run(backend, overflowed), lambda: backend(*inputs[:5]), lambda: run(backend, inputs)):
        with suppress(Exception, SystemExit):
            call()
    for x, before, _ in tensors:
        x.data.copy_(before)


@torch.no_grad()
def transposed(backend: Backend, inputs: CoreInputs) -> Tensor | None:
    """What it makes of bias and mask with the last two axes the other way round, where these are equally long: other
    numbers of the same bytes at the same address.
    """

    def turned(x: Tensor | None) -> Tensor | None:
        return x.mT if x is not None and x.dim() > 1 and x.shape[-1] == x.shape[-2] else x

    q, k, v, bias, mask, _ = inputs
    with suppress(Exception, SystemExit):
        return backend(q, k, v, turned(bias), turned(mask))
    return None


def examine(
    case: AnyCase,
    expected: Budget,
    given: Mapping[str, Tensor],
    call: Callable[[], dict[str, Tensor]],
    *,
    like: Tensor,
    deterministic: bool = True,
) -> Verdict:
    """Make the ``call`` as often as the case says, and hold its answers against what is expected.

    The first tensor of an answer is the output, which must be ``like`` another in shape, dtype and device; what was
    ``given`` must come back unchanged. Never raises for what the call does.
    """
    if unclear := [name for name, error in expected.eager.items() if not error < torch.inf]:
        return Verdict(case, "not_judged", (f"eager itself is not finite in {', '.join(unclear)}",))
    before = {name: (_storage(x).clone(), _version(x)) for name, x in given.items()}
    changed: list[str] = []
    try:
        with kept(changed):
            answers = [call() for _ in range(case.repeats)]
            torch.get_device_module(case.device).synchronize()  # on a GPU, a fault may come to light only here
    except UnsupportedProblem as reason:
        return Verdict(case, "declined", (str(reason),))
    except NoGradient as reason:
        return Verdict(case, "failed", (str(reason),))
    except (Exception, SystemExit) as error:
        return Verdict(case, "failed", (f"raised {type(error).__name__}: {str(error).strip()[:LONGEST]}",))

    answer, reasons = answers[0], [f"{setting} was changed" for setting in changed]
    for name, (storage, version) in before.items():
        if _version(given[name]) != version or not torch.equal(_storage(given[name]), storage):
            reasons.append(f"{name} was modified")
    name, output = next(iter(answer.items()))
    if (output.shape, output.dtype, output.device, output.layout) != (
        like.shape, like.dtype, like.device, torch.strided,
    ):  # fmt: skip
        described = (
            f"{tuple(x.shape)} {x.dtype} on {x.device}{' (sparse)' * (x.layout != torch.strided)}"
            for x in (output, like)
        )
        return Verdict(case, "failed", (*reasons, "{} is {}; expected {}".format(name, *described)))
    if output.numel():
        reasons += [
            f"o lies in the memory of {name}: what is written to one changes the other"
            for name, x in given.items()
            if x.untyped_storage().data_ptr() == output.untyped_storage().data_ptr()
        ]
        if any(n > 1 and step == 0 for n, step in zip(output.shape, output.stride(), strict=True)):
            reasons.append("o is expanded: what is written to one of its elements changes others")
    for name, first in answer.items():
        if deterministic and not all(torch.equal(_bits(other[name]), _bits(first)) for other in answers[1:]):
            reasons.append(f"{name} differs between identical calls")
    checks = tuple(compare(name, answer[name], expected) for name in answer)
    reasons += [str(check) for check in checks if not check.ratio <= 1]
    return Verdict(case, "failed" if reasons else "passed", tuple(reasons), checks)


def judge_parts(backend: Backend, case: Case) -> list[Verdict]:
    """Judge the most of ``case`` that ``backend`` takes: all, else without the bias's gradient, else forward only.

    The last is the verdict; those before it say what was declined, and why.
    """
    verdicts = []
    for grad in dict.fromkeys((case.grad, tuple(name for name in case.grad if name != "bias"), ())):
        verdicts.append(judge(backend, case.with_(grad=grad)))
        if verdicts[-1].status != "declined":
            break
    return verdicts


@lru_cache(maxsize=256)
def _budget(case: Case) -> Budget:
    return budget(case.inputs())


def compare(name: str, got: Tensor, expected: Budget) -> Check:
    """The worst element of one tensor: one that is not finite if there is any, else the largest error over budget.

    Where the specification itself is not a number (a module's query in padding), nothing is asked.
    """
    exact, allowed = expected.exact[name], expected.of(name)
    if not got.numel():
        return Check(name, 0.0, 0.0, 0.0)
    error = torch.where(exact.isfinite(), (got.to(exact) - exact).abs(), 0)
    ratio = torch.where(error == 0, 0, error / allowed).nan_to_num(torch.inf, torch.inf)
    flat = int(ratio.argmax())
    where = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), ratio.shape))
    return Check(name, error[where].item(), allowed[where].item(), ratio[where].item(), where)


def _storage(x: Tensor) -> Tensor:
    """All bytes that a view looks into, what lies between its elements included."""
    return torch.empty(0, dtype=torch.uint8, device=x.device).set_(x.untyped_storage())


def _version(x: Tensor) -> int | None:
    """How often it was written to, if that is counted."""
    return None if x.is_inference() else x._version


def _copied(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.clone()


def _bits(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.uint8)
