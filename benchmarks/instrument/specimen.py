"""What is called: a backend, or a module over it, of the ``impls`` that is installed, on one problem's inputs.

Only the frozen surface of ``impls`` is touched: ``names``, ``get``, ``why_not(CoreProblem(...))``, the core call,
``Backend``, and the modules of ``impls.evoformer`` by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.instrument.inputs import MODULES, Draw, Inputs, apart, core_inputs, module_inputs, stack_inputs
from benchmarks.instrument.problems import Problem

if TYPE_CHECKING:
    from torch import Tensor

Outputs = dict[str, "Tensor"]
Call = Callable[["Tensor"], Outputs]
"""One call: from the cotangent of the output to ``o`` and, in training, the gradients ``dq``, ``dk``, ..."""


class AbsentError(LookupError):
    """The commit that is measured has no such backend, module or operation."""


def backend_called(name: str) -> Any:
    """The backend: registered, or ``module:kernel``. Raises AbsentError if this commit has none of that name."""
    import impls

    if ":" in name:
        return kernel(name)
    if name not in impls.names():
        raise AbsentError(f"this commit has no backend {name!r}")
    return impls.get(name)


def kernel(target: str) -> Any:
    """Anybody's callable or backend, ``package.module:kernel``. Raises AbsentError where there is none."""
    from impls.interface import as_backend

    module, _, attribute = target.partition(":")
    try:
        return as_backend(getattr(importlib.import_module(module), attribute), target, target)
    except (ImportError, AttributeError, TypeError) as error:
        raise AbsentError(f"{target}: {error}") from None


def core_problem(problem: Problem, direction: str, device: str) -> Any:
    """``problem``'s core call as ``impls`` describes it."""
    import impls

    batch, H, Q, K = problem.core
    training = direction == "training"
    return impls.CoreProblem(
        batch, H, Q, K, problem.c, bias_shape=problem.bias_shape, mask=problem.mask != "none", dtype=problem.dtype,
        device=device, training=training, bias_grad=training and problem.has_bias,
    )  # fmt: skip


def build(problem: Problem, backend: Any) -> Any:
    """The gated module of ``problem`` over ``backend``, its parameters without values.

    Raises AbsentError if this commit has no such module.
    """
    import torch

    import impls

    name, channels = MODULES[problem.operation]
    try:
        kind = getattr(impls.evoformer, name)
    except (AttributeError, ImportError) as error:
        raise AbsentError(f"this commit has no module {name}: {error}") from None
    with torch.device("meta"):
        return kind(**channels, c=problem.c, N_head=problem.N_head, gated=True, backend=backend)


def build_stack(problem: Problem, backend: Any) -> Any:
    """The modules of every block of ``problem`` over ``backend``, as ``build`` makes them."""
    from torch.nn import ModuleDict, ModuleList

    blocks = range(problem.blocks or 0)
    return ModuleList(ModuleDict({part.operation: build(part, backend) for part in problem.parts}) for _ in blocks)


def inputs_of(problem: Problem, draw: Draw) -> Inputs:
    """The tensors of ``problem``."""
    if problem.level == "core":
        return core_inputs(problem, draw)
    stacked = problem.level == "stack"
    module = build_stack(problem, "eager") if stacked else build(problem, "eager")
    shapes = {name: tuple(x.shape) for name, x in module.state_dict().items()}
    return stack_inputs(problem, draw, shapes) if stacked else module_inputs(problem, draw, shapes)


def call_of(problem: Problem, backend: Any, direction: str, inputs: Inputs) -> Call:
    """One call of ``backend`` on ``inputs``: at the core, or of the module or the stack over it."""
    import torch

    if problem.level == "stack":
        return call_of_stack(problem, backend, direction, inputs)
    names, arguments = list(inputs.arguments), list(inputs.arguments.values())
    if problem.level == "core":
        wanted = arguments

        def attend() -> Tensor:
            return backend(*arguments)
    else:
        module = build(problem, backend)
        module.load_state_dict(inputs.parameters, assign=True)
        wanted = [*arguments, *module.parameters()]

        def attend() -> Tensor:
            return module(*arguments, mask=inputs.mask)

    if direction == "forward":

        def forward(cotangent: Tensor) -> Outputs:
            with torch.no_grad():
                return {"o": attend()}

        return forward

    def training(cotangent: Tensor) -> Outputs:
        o = attend()
        gradients = torch.autograd.grad(o, wanted, cotangent)
        return {"o": o, **{f"d{name}": gradient for name, gradient in zip(names, gradients, strict=False)}}

    return training


def call_of_stack(problem: Problem, backend: Any, direction: str, inputs: Inputs) -> Call:
    """One call of all blocks over ``backend``: m and z after them and, in training, the gradients of both."""
    import torch

    blocks = build_stack(problem, backend)
    blocks.load_state_dict(inputs.parameters, assign=True)
    blocks.requires_grad_(False)

    def call(cotangent: Tensor) -> Outputs:
        m, z = first = tuple(inputs.arguments.values())
        with torch.set_grad_enabled(direction == "training"):
            for block in blocks:
                m = m + block["msa_row"](m, z)
                m = m + block["msa_column"](m)
                z = z + block["triangle_starting"](z)
                z = z + block["triangle_ending"](z)
        outputs = {"m": m, "z": z}
        if direction == "training":
            outputs["dm"], outputs["dz"] = torch.autograd.grad((m, z), first, apart(cotangent, m, z))
        return outputs

    return call
