"""The tensors that are measured: seeded, and laid out as a model's projections leave them.

q, k, v and bias are views of what linear layers over the MSA or the pair representation, in their own order of axes,
would produce. Backends that want another layout pay for it in their own time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.instrument.problems import CHANNELS, PAIR_CHANNELS, Problem

if TYPE_CHECKING:
    from torch import Tensor

Draw = Callable[..., "Tensor"]

MODULES: dict[str, tuple[str, dict[str, Any]]] = {
    "msa_row": ("MSARowAttentionWithPairBias", {"c_m": CHANNELS["msa_row"], "c_z": PAIR_CHANNELS}),
    "msa_column": ("MSAColumnAttention", {"c_m": CHANNELS["msa_column"]}),
    "msa_global_column": ("MSAColumnGlobalAttention", {"c_m": CHANNELS["msa_global_column"]}),
    "triangle_starting": ("TriangleAttention", {"c_z": CHANNELS["triangle_starting"], "node": "starting"}),
    "triangle_ending": ("TriangleAttention", {"c_z": CHANNELS["triangle_ending"], "node": "ending"}),
}
"""Name and channels of each operation's module in ``impls.evoformer``."""


@dataclass
class Inputs:
    """Arguments of one call by name, the cotangent of its output, and for a module its parameters by name."""

    arguments: dict[str, Tensor]
    mask: Tensor | None
    cotangent: Tensor
    parameters: dict[str, Tensor]

    def tensors(self) -> list[Tensor]:
        """Everything that exists before the call."""
        masks = [] if self.mask is None else [self.mask]
        return [*self.arguments.values(), *masks, self.cotangent, *self.parameters.values()]


def seeded(problem: Problem, device: str) -> Draw:
    """A source of standard normal tensors in ``problem``'s dtype: the same numbers for all dtypes and devices."""
    import torch

    seed = zlib.crc32(problem.key.removesuffix(problem.dtype).encode())
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(device=device, dtype=getattr(torch, problem.dtype))

    return draw


def core_inputs(problem: Problem, draw: Draw) -> Inputs:
    """q, k, v and bias of ``problem``'s core call, which require gradients, and the cotangent of o."""
    S, R, T, H, c = problem.S or 0, problem.R, problem.T or 0, problem.N_head, problem.c
    if problem.operation in ("msa_row", "msa_column"):
        order = (0, 1, 3, 2, 4) if problem.operation == "msa_row" else (0, 2, 3, 1, 4)
        q, k, v, cotangent = (draw(1, S, R, H, c).permute(order) for _ in range(4))
    elif problem.operation == "msa_global_column":
        q, cotangent = (draw(1, R, H, c).unsqueeze(2) for _ in range(2))
        k, v = (draw(1, S, R, c).transpose(1, 2).unsqueeze(2) for _ in range(2))
    elif problem.operation == "template_pointwise":
        q, cotangent = (draw(1, R, R, H, c).unsqueeze(-2) for _ in range(2))
        k, v = (draw(1, T, R, R, H, c).permute(0, 2, 3, 4, 1, 5) for _ in range(2))
    else:
        order = (0, 1, 3, 2, 4) if problem.operation == "triangle_starting" else (0, 2, 3, 1, 4)
        q, k, v, cotangent = (draw(1, R, R, H, c).permute(order) for _ in range(4))
    arguments = {"q": q, "k": k, "v": v}
    if problem.has_bias:
        bias = draw(1, R, R, H).movedim(-1, 1).unsqueeze(1)
        arguments["bias"] = bias.transpose(-1, -2) if problem.operation == "triangle_ending" else bias
    return Inputs({name: x.requires_grad_() for name, x in arguments.items()}, None, cotangent, {})


def module_inputs(problem: Problem, draw: Draw, shapes: dict[str, tuple[int, ...]]) -> Inputs:
    """x and z of ``problem``'s module, a padding mask, the output's cotangent, and parameters of these ``shapes``."""
    S, R, C = problem.S or 0, problem.R, CHANNELS[problem.operation]
    table = (1, S, R) if problem.operation.startswith("msa") else (1, R, R)
    arguments = {"x": draw(*table, C)}
    if problem.operation == "msa_row":
        arguments["z"] = draw(1, R, R, PAIR_CHANNELS)
    parameters = weights(draw, shapes)
    attended = 1 if problem.operation in ("msa_column", "msa_global_column", "triangle_ending") else 2
    arguments = {name: x.requires_grad_() for name, x in arguments.items()}
    return Inputs(arguments, padding(table, attended, draw), draw(*table, C), parameters)


def stack_inputs(problem: Problem, draw: Draw, shapes: dict[str, tuple[int, ...]]) -> Inputs:
    """m and z of a stack, one cotangent for both (m's numbers, then z's), and parameters of these ``shapes``."""
    S, R = problem.S or 0, problem.R
    m, z = draw(1, S, R, CHANNELS["msa_row"]), draw(1, R, R, PAIR_CHANNELS)
    arguments = {"m": m.requires_grad_(), "z": z.requires_grad_()}
    return Inputs(arguments, None, draw(m.numel() + z.numel()), weights(draw, shapes))


def apart(cotangent: Tensor, m: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """A stack's cotangent as those of m and z."""
    return cotangent[: m.numel()].view_as(m), cotangent[m.numel() :].view_as(z)


def weights(draw: Draw, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Parameters by name: weights normal with variance 1 / fan-in, LayerNorm's scales near 1, the rest small."""
    found = {}
    for name, shape in sorted(shapes.items()):
        values = draw(*shape) * (shape[-1] ** -0.5 if len(shape) > 1 else 0.1)
        found[name] = values + 1 if "layer_norm" in name and name.endswith("weight") else values
    return found


def padding(shape: tuple[int, ...], attended: int, draw: Draw) -> Tensor:
    """A mask of ``shape``, True where valid: every row along axis ``attended`` ends in up to a quarter of padding."""
    import torch

    rows = list(shape)
    rows[attended] = 1
    share = draw(*rows).float().sigmoid() / 4
    position = torch.arange(shape[attended], device=share.device) / shape[attended]
    axes = [1] * len(shape)
    axes[attended] = -1
    return position.view(axes) < 1 - share
