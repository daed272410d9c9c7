"""Verdicts on modules: what a whole attention module answers to a case, held against the specification.

A module is given as a *builder* or as a *function*:

- a builder makes the module: ``MSARowAttentionWithPairBias(c_m, c_z, c=..., N_head=...)``, and whatever else is called
  as the class of its operation in ``impls.evoformer`` is. ``gated`` is given only where it is not the operation's own
  default. The module's ``state_dict`` has our names, and its calls are ours: ``module(x, z=..., mask=...)``. It is in
  training mode where a gradient is wanted and otherwise not, and the other way round in the groups OTHER_MODE and by
  the quirk ``other_mode``.
- a function computes it: ``f(parameters, x, z=None, mask=None, *, N_head)``, with parameters by our names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from impls import evoformer
from impls.conformance.budget import Budget
from impls.conformance.judge import OTHER_CALLS, Verdict, examine
from impls.conformance.modules.budget import answer, module_budget
from impls.conformance.modules.cases import SHAPES, ModuleCase, ModuleInputs
from impls.conformance.surroundings import asked_for
from impls.interface import Backend, UnsupportedProblem

OTHER_MODE = ("gradients", "batches")
"""Groups in which a module is in training mode without gradients, and not with them, as design and recycling do."""
Call = Callable[..., Tensor]
Form = Callable[[ModuleCase, dict[str, Tensor]], tuple[Call, dict[str, Tensor]]]


@dataclass(frozen=True)
class Subject:
    """A module to be judged, under one name.

    ``form(case, parameters)`` gives the callable ``(parameters, **arguments) -> out`` for a case, and the tensors that
    hold its parameters. It declines a case by raising ``NotImplementedError("why")``, and so may the callable.
    """

    name: str
    form: Form
    deterministic: bool = True


def built(name: str, build: Callable[..., nn.Module]) -> Subject:
    """The modules that ``build`` makes."""
    return Subject(name, partial(_module_of, build))


def computed(name: str, function: Callable[..., Tensor]) -> Subject:
    """What ``function`` computes from parameters."""

    def form(case: ModuleCase, parameters: dict[str, Tensor]) -> tuple[Call, dict[str, Tensor]]:
        return partial(function, N_head=case.N_head), parameters

    return Subject(name, form)


def over(backend: Backend) -> Subject:
    """Our own modules over ``backend``, with each case's ``masked_rows``."""
    builders: dict[str, Callable[..., nn.Module]] = {
        "msa_row": evoformer.MSARowAttentionWithPairBias,
        "msa_column": evoformer.MSAColumnAttention,
        "msa_global_column": evoformer.MSAColumnGlobalAttention,
        "triangle_starting": evoformer.TriangleAttention,
        "triangle_ending": evoformer.TriangleAttention,
        "template_pointwise": evoformer.TemplatePointwiseAttention,
    }

    def form(case: ModuleCase, parameters: dict[str, Tensor]) -> tuple[Call, dict[str, Tensor]]:
        build = partial(builders[case.operation], backend=backend, masked_rows=case.masked_rows)
        return _module_of(build, case, parameters)

    return Subject(backend.name, form, backend.traits.deterministic)


def subject(found: object, name: str, where: str) -> Subject:
    """``found`` as a Subject: itself, a function whose first argument is called ``parameters``, or a builder.

    Raises TypeError for what cannot be called.
    """
    if isinstance(found, Subject):
        return found
    if isinstance(found, nn.Module) or not callable(found):
        raise TypeError(
            f"{where} is a {type(found).__name__}; expected what makes a module, such as its class, "
            "or a function (parameters, x, z=None, mask=None, *, N_head)"
        )
    arguments = list(inspect.signature(found).parameters)
    return computed(name, found) if arguments[:1] == ["parameters"] else built(name, found)


def _module_of(
    build: Callable[..., nn.Module], case: ModuleCase, parameters: dict[str, Tensor]
) -> tuple[Call, dict[str, Tensor]]:
    widths: tuple[Any, ...] = {
        "msa_row": (case.c_in, case.c_z),
        "triangle_starting": (case.c_in, "starting"),
        "triangle_ending": (case.c_in, "ending"),
        "template_pointwise": (case.c_t, case.c_in),
    }.get(case.operation, (case.c_in,))
    options: dict[str, Any] = {"c": case.c, "N_head": case.N_head}
    if case.gated != SHAPES[case.operation].gated:
        options["gated"] = case.gated
        if not _takes(build, "gated"):
            raise NotImplementedError("cannot be made with or without a gate: it takes no option gated")
    like = next(iter(parameters.values()))
    module = build(*widths, **options).to(like.device, like.dtype)
    module.load_state_dict(parameters)
    module.train(bool(case.grad) != (case.group in OTHER_MODE or "other_mode" in case.quirks))

    def call(parameters: dict[str, Tensor], **arguments: Tensor) -> Tensor:
        return module(**arguments)

    return call, dict(module.named_parameters())


def _takes(build: Callable[..., object], option: str) -> bool:
    arguments = inspect.signature(build).parameters
    return option in arguments or any(x.kind is inspect.Parameter.VAR_KEYWORD for x in arguments.values())


def judge_module(subject: Subject, case: ModuleCase) -> Verdict:
    """Run the module on ``case``, and compare. Never raises for what the module does."""
    inputs = made(case)
    try:
        form, parameters = subject.form(case, inputs.parameters)
    except NotImplementedError as reason:
        return Verdict(case, "declined", (str(reason),))
    except Exception as error:
        told = " ".join(str(error).split())
        return Verdict(case, "failed", (f"cannot be made: {type(error).__name__}: {told}",))

    def call(*given: Any, **arguments: Tensor) -> Tensor:
        try:
            with asked_for(case.quirks):
                return form(*given, **arguments)
        except NotImplementedError as reason:
            raise UnsupportedProblem(str(reason)) from reason

    inputs = inputs._replace(parameters=parameters)
    meanwhile = None
    if case.repeats > 1:
        other = made(case.with_(seed=case.seed + 1))
        with asked_for(case.quirks):
            remember(call, inputs, other)

        def meanwhile() -> list[dict[str, Tensor]]:
            return [answer(call, other._replace(parameters=parameters), case.grad) for _ in range(OTHER_CALLS)]

    return examine(
        case,
        _budget(case.at_heart()),
        {**inputs.arguments, **parameters, "the cotangent": inputs.cotangent},
        lambda: answer(call, inputs, case.grad, meanwhile),
        like=inputs.cotangent,
        deterministic=subject.deterministic,
    )


def made(case: ModuleCase) -> ModuleInputs:
    """Its inputs; in inference mode the arguments too are tensors without versions, and parameters are not."""
    inputs = case.inputs()
    if "inference" not in case.quirks:
        return inputs
    with asked_for(case.quirks):
        return inputs._replace(arguments=case.inputs().arguments)


@torch.no_grad()
def remember(call: Call, inputs: ModuleInputs, other: ModuleInputs) -> None:
    """Call the module with other weights and inputs in the very same tensors: what it keeps must not come back."""
    tensors, others = {**inputs.parameters, **inputs.arguments}, {**other.parameters, **other.arguments}
    before = {name: x.clone() for name, x in tensors.items()}
    for values, names in ((others, tensors), (before, inputs.parameters), (before, inputs.arguments)):
        for name in names:
            tensors[name].data.copy_(values[name])
        if names is not inputs.arguments:
            with suppress(Exception, SystemExit):
                call(inputs.parameters, **inputs.arguments)


def judge_module_parts(subject: Subject, case: ModuleCase) -> list[Verdict]:
    """Judge the most of ``case`` that the module takes: all, else forward only; the last is the verdict."""
    first = judge_module(subject, case)
    if first.status != "declined" or not case.grad:
        return [first]
    return [first, judge_module(subject, case.with_(grad=()))]


@lru_cache(maxsize=512)
def _budget(case: ModuleCase) -> Budget:
    return module_budget(case)
