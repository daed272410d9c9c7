"""Ways in which a module's parameters and inputs differ from plain, contiguous, normally distributed numbers.

As ``impls.conformance.quirks`` for the core: names and meanings stand in ``QUIRKS``, values first, then layouts, then
how a module is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from impls.conformance.quirks import window

if TYPE_CHECKING:
    from impls.conformance.modules.cases import ModuleInputs


def values(names: tuple[str, ...], inputs: ModuleInputs) -> ModuleInputs:
    """``inputs`` with other values, by the quirks among ``names`` that are about values."""
    for name, function in VALUES.items():
        if name in names:
            inputs = function(inputs)
    return inputs


def layouts(names: tuple[str, ...], arguments: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same values laid out otherwise in memory, by the quirks among ``names`` that are about layouts."""
    if "numbers" in names:
        arguments = numbers(arguments)
    for name, function in VIEWS.items():
        if name in names:
            arguments = {argument: function(x) for argument, x in arguments.items()}
    return arguments


def describe(name: str) -> str:
    """What a quirk does, in a sentence."""
    return " ".join((QUIRKS[name].__doc__ or "").split())


# Values


def faint(inputs: ModuleInputs) -> ModuleInputs:
    """Inputs so small that the 1e-5 in LayerNorm counts."""
    return _arguments(inputs, lambda x: x / 256)


def far(inputs: ModuleInputs) -> ModuleInputs:
    """Inputs around 16, which LayerNorm must bring back to zero."""
    return _arguments(inputs, lambda x: x + 16)


def uneven(inputs: ModuleInputs) -> ModuleInputs:
    """Channels whose means differ, as those of trained models do: from -4 for the first to 4 for the last."""
    return _arguments(inputs, lambda x: x + torch.linspace(-4, 4, x.shape[-1]))


def sharp(inputs: ModuleInputs) -> ModuleInputs:
    """Queries eight times as large: attention to a single key."""
    return _parameters(inputs, {"linear_q.weight": lambda w: w * 8})


def flat(inputs: ModuleInputs) -> ModuleInputs:
    """Zero queries and zero pair bias, as zero-initialised weights make them: every key weighs the same."""
    return _parameters(inputs, {"linear_q.weight": torch.zeros_like, "linear_z.weight": torch.zeros_like})


def shut(inputs: ModuleInputs) -> ModuleInputs:
    """A gate that lets a three-thousandth through."""
    return _parameters(inputs, {"linear_g.bias": lambda b: b - 8})


def initial(inputs: ModuleInputs) -> ModuleInputs:
    """AlphaFold's initial parameters: LayerNorm 1 and 0, an open gate, and an output of zeros."""
    ones, zeros = torch.ones_like, torch.zeros_like
    return _parameters(
        inputs,
        {"layer_norm.weight": ones, "layer_norm.bias": zeros, "layer_norm_z.weight": ones, "layer_norm_z.bias": zeros,
         "linear_g.weight": zeros, "linear_g.bias": ones, "linear_o.weight": zeros, "linear_o.bias": zeros},
    )  # fmt: skip


def poison(inputs: ModuleInputs) -> ModuleInputs:
    """NaN wherever the mask is False; a mask of pairs becomes that of the residues in its first row, squared."""
    arguments = dict(inputs.arguments)
    if (mask := arguments.get("mask")) is None:
        return inputs
    if "t" in arguments:
        hidden, name = mask[..., None, None].expand(arguments["t"].shape[:-1]), "t"
    else:
        if "linear_z.weight" in inputs.parameters and "z" not in arguments:
            mask = arguments["mask"] = mask[..., :1, :] & mask[..., :1, :].mT
        hidden, name = mask, "x"
    arguments[name] = torch.where(hidden[..., None], arguments[name], torch.nan)
    return inputs._replace(arguments=arguments)


def _arguments(inputs: ModuleInputs, change: Callable[[Tensor], Tensor]) -> ModuleInputs:
    floating = {name: change(x) for name, x in inputs.arguments.items() if x.is_floating_point()}
    return inputs._replace(arguments=inputs.arguments | floating)


def _parameters(inputs: ModuleInputs, changes: dict[str, Callable[[Tensor], Tensor]]) -> ModuleInputs:
    known = {name: change(inputs.parameters[name]) for name, change in changes.items() if name in inputs.parameters}
    return inputs._replace(parameters=inputs.parameters | known)


# Layouts


def numbers(arguments: dict[str, Tensor]) -> dict[str, Tensor]:
    """A mask of zeros and ones in the dtype of x instead of a bool one."""
    if "mask" not in arguments:
        return arguments
    return arguments | {"mask": arguments["mask"].to(arguments["x"].dtype)}


def strided(x: Tensor) -> Tensor:
    """Every second element along the last two axes of a larger tensor; what lies between is NaN."""
    return window(x, slice(None, None, 2), lambda n: 2 * n)


def margins(x: Tensor) -> Tensor:
    """A window into a larger tensor filled with NaN: a read past the end of any row shows."""
    return window(x, slice(4, -5), lambda n: n + 9)


def moved(x: Tensor) -> Tensor:
    """The second last axis stored first, as a transposed view of another tensor."""
    return x.movedim(-2, 0).contiguous().movedim(0, -2) if x.dim() > 1 else x


# Calls


def inference() -> None:
    """Under ``torch.inference_mode`` instead of ``torch.no_grad``; without gradients."""


def other_mode() -> None:
    """In training mode without gradients, and in evaluation mode with them."""


VALUES = {f.__name__: f for f in (faint, far, uneven, sharp, flat, shut, initial, poison)}
VIEWS = {f.__name__: f for f in (strided, margins, moved)}
LAYOUTS = ("numbers", *VIEWS)
CALLS: dict[str, Callable[..., object]] = {f.__name__: f for f in (inference, other_mode)}
QUIRKS: dict[str, Callable[..., object]] = {**VALUES, "numbers": numbers, **VIEWS, **CALLS}
