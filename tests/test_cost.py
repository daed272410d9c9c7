"""The closed forms against published numbers and against the modules themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import impls
from impls import cost, evoformer
from impls.problem import OPERATIONS, Problem
from impls.zoo import AF2, EXTRA, ZOO, af2


def module(problem: Problem) -> torch.nn.Module:
    sizes = {"c": problem.c, "N_head": problem.N_head}
    match problem.operation:
        case "msa_row":
            return evoformer.MSARowAttentionWithPairBias(problem.c_in, problem.c_z, **sizes)
        case "msa_column":
            return evoformer.MSAColumnAttention(problem.c_in, **sizes)
        case "msa_global_column":
            return evoformer.MSAColumnGlobalAttention(problem.c_in, **sizes)
        case "template_pointwise":
            return evoformer.TemplatePointwiseAttention(problem.c_t, problem.c_in, **sizes)
        case triangle:
            return evoformer.TriangleAttention(problem.c_in, triangle.removeprefix("triangle_"), **sizes)


@pytest.mark.parametrize(
    ("problem", "layer_norms", "count"),
    [
        (af2("msa_column", **EXTRA), False, 20_608),
        (af2("msa_column", **EXTRA), True, 20_736),
        (af2("msa_global_column"), False, 13_440),
        (af2("msa_global_column"), True, 13_568),
        (af2("msa_row"), True, 329_984),
        (af2("msa_row", **EXTRA), True, 22_016),
        (af2("msa_column"), True, 328_704),
        (af2("triangle_starting"), True, 82_944),
        (af2("triangle_ending"), True, 82_944),
    ],
)
def test_published_parameter_counts(problem: Problem, layer_norms: bool, count: int) -> None:
    assert cost.parameters(problem, layer_norms=layer_norms) == count


@pytest.mark.parametrize(
    ("c_in", "plain", "gated"), [(256, 262_400, 328_192), (128, 65_664, 82_176), (64, 16_448, 20_608)]
)
def test_width_conserving_counts(c_in: int, plain: int, gated: int) -> None:
    """4 c^2 + c, and 5 c^2 + 2 c with the gate, whether one head or eight share the width."""
    for N_head in (1, 8):
        sizes = (c_in, c_in, c_in // N_head, N_head)
        assert cost.attention_parameters(*sizes, gated=False) == plain
        assert cost.attention_parameters(*sizes, gated=True) == gated


def test_heads_of_full_width_cost_eightfold() -> None:
    assert cost.attention_parameters(256, 256, 256, 8, gated=False) == 2_097_408


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("layer_norms", [True, False])
def test_counts_are_the_modules(operation: str, layer_norms: bool) -> None:
    problem = af2(operation, c_z=24)
    counted = sum(
        x.numel() for name, x in module(problem).named_parameters() if layer_norms or not name.startswith("layer_norm")
    )
    assert cost.parameters(problem, layer_norms=layer_norms) == counted


@pytest.mark.parametrize(
    ("operation", "S", "R", "scores", "gigabytes"),
    [
        ("msa_column", 512, 300, 629_145_600, 2.517),
        ("msa_column", 5120, 300, 62_914_560_000, 251.7),
        ("msa_global_column", 5120, 300, 12_288_000, 0.04915),
    ],
)
def test_published_scores(operation: str, S: int, R: int, scores: int, gigabytes: float) -> None:
    problem = af2(operation, S=S, R=R)
    assert cost.scores(problem) == scores
    assert cost.score_bytes(problem) / 1e9 == pytest.approx(gigabytes, rel=3e-4)
    assert cost.score_bytes(problem.with_(dtype="bfloat16")) * 2 == cost.score_bytes(problem)


def test_global_saves_a_factor_of_s() -> None:
    plain, shared = (cost.scores(af2(op, S=2000, R=300, N_head=8)) for op in ("msa_column", "msa_global_column"))
    assert (plain, shared) == (9_600_000_000, 4_800_000)
    assert plain // shared == 2000


@pytest.mark.parametrize(
    ("name", "scores"),
    [
        ("row.init", 6.7e7),
        ("row.ft", 6.0e8),
        ("row.extra.init", 5.4e8),
        ("row.extra.ft", 6.0e9),
        ("col.init", 3.4e7),
        ("col.ft", 8.1e8),
        ("colglobal.init", 2.1e6),
        ("colglobal.ft", 1.6e7),
        ("colplain.extra.ft", 8.1e10),
        ("tri.start.init", 6.7e7),
        ("tri.start.ft", 2.3e8),
        ("tri.tokens.640", 1.0e9),
        ("tri.tokens.768", 1.8e9),
        ("tri.template", 2.7e8),
        ("tmpl.pointwise.init", 1.0e6),
        ("tmpl.pointwise.ft", 2.4e6),
    ],
)
def test_scores_of_the_zoo(name: str, scores: float) -> None:
    assert cost.scores(ZOO[name]) == pytest.approx(scores, rel=0.05)


def test_every_operation_is_in_the_zoo() -> None:
    assert {problem.operation for problem in ZOO.values()} == set(OPERATIONS) == set(AF2)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("direction", ["forward", "training"])
def test_flops_are_those_that_torch_counts(operation: str, direction: str) -> None:
    problem = af2(operation, B=2, S=6, R=5, T=3, N_head=3, c=4, c_in=12, c_z=7, c_t=9, direction=direction)
    q, k, v, bias, mask, cotangent = problem.core_inputs()
    with FlopCounterMode(display=False) as counter:
        o = impls.get("eager")(q, k, v, bias, mask)
        if direction == "training":
            o.backward(cotangent)
    assert counter.get_total_flops() == cost.core_flops(problem)

    inputs = problem.module_inputs()
    if direction == "training":
        inputs = {name: x.requires_grad_() for name, x in inputs.items()}
    with torch.set_grad_enabled(direction == "training"), FlopCounterMode(display=False) as counter:
        out = module(problem)(**inputs)
        if direction == "training":
            out.sum().backward()
    assert counter.get_total_flops() == cost.module_flops(problem)


def test_least_bytes_moved_is_what_the_tensors_hold() -> None:
    problem = af2("msa_row", B=2, S=6, R=5, N_head=3, c=4, mask="random", direction="training")
    q, k, v, bias, mask, cotangent = problem.core_inputs()
    o, gradients = q, (q, k, v, bias)
    forward = (q, k, v, bias, mask, o)
    bytes_of = lambda tensors: sum(x.numel() * x.element_size() for x in tensors)  # noqa: E731
    assert cost.least_bytes_moved(problem.with_(direction="forward")) == bytes_of(forward)
    assert cost.least_bytes_moved(problem) == bytes_of((*forward, *forward, cotangent, *gradients))


def test_plain_arithmetic_needs_no_torch() -> None:
    code = "import sys; from impls import cost, zoo; cost.scores(zoo.ZOO['row.ft']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_output_bytes_are_those_of_the_tensors() -> None:
    """Row attention at S=3, R=5, 2 heads of 4: o has 3 x 2 x 5 x 4 numbers, as dq, dk and dv; dbias 2 x 5 x 5."""
    problem = Problem(operation="msa_row", S=3, R=5, N_head=2, c=4)
    assert cost.output_bytes(problem) == 4 * 120
    assert cost.output_bytes(problem.with_(direction="training")) == 4 * (4 * 120 + 50)
