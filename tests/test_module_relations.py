"""What must hold between answers of one module, with no reference: on random problems, forward and every gradient."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import impls
from impls.conformance.modules.budget import answer
from impls.conformance.modules.cases import ModuleCase, ModuleInputs, random_module_case
from impls.conformance.modules.judge import over

pytestmark = pytest.mark.usefixtures("one_thread")

OURS = over(impls.get("chunked"))
SOME = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
MSA = ("msa_row", "msa_column", "msa_global_column")


def problems(*operations: str, **fixed) -> st.SearchStrategy[ModuleCase]:
    """Random float64 problems of these operations in plain layout, with a mask and every gradient."""
    fixed = {"dtype": "float64", "quirks": (), "mask": "full_row"} | fixed

    def draw(operation: str, seed: int) -> ModuleCase:
        return random_module_case(random.Random(seed), operation=operation, **fixed)

    return st.builds(draw, st.sampled_from(operations), st.integers(0, 2**32))


def answered(case: ModuleCase, inputs: ModuleInputs) -> dict[str, Tensor]:
    """out, and the gradient of every floating argument and parameter."""
    fresh = {name: x.detach().clone() for name, x in inputs.arguments.items()}
    for x in fresh.values():
        x.requires_grad_(x.is_floating_point())
    form, parameters = OURS.form(case, inputs.parameters)
    return answer(form, inputs._replace(arguments=fresh, parameters=parameters), case.wanted)


def changed(
    inputs: ModuleInputs, change: Callable[[Tensor], Tensor], names: tuple[str, ...] = ("x", "z", "t", "mask")
) -> ModuleInputs:
    """The same parameters, with ``change`` made to these arguments and the cotangent."""
    arguments = {name: change(x) if name in names else x for name, x in inputs.arguments.items()}
    return inputs._replace(arguments=arguments, cotangent=change(inputs.cotangent))


def close(found: Tensor, expected: Tensor, what: str) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, msg=lambda text: f"{what}: {text}")


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        close(found[name], x, name)


@given(case=problems(*MSA, gated=True), data=st.randoms())
@SOME
def test_the_order_of_sequences_goes_through(case: ModuleCase, data: random.Random) -> None:
    """And changes no gradient of z or of a parameter."""
    inputs, order = case.inputs(), torch.randperm(case.S, generator=torch.Generator().manual_seed(data.getrandbits(32)))
    expected = answered(case, inputs)
    shuffled = answered(case, changed(inputs, lambda x: x.index_select(len(case.batch), order), ("x", "mask")))
    for name in ("out", "dx"):
        expected[name] = expected[name].index_select(len(case.batch), order)
    same(shuffled, expected)


@given(case=problems("msa_column", "msa_global_column", gated=True), data=st.randoms())
@SOME
def test_columns_know_nothing_of_their_order(case: ModuleCase, data: random.Random) -> None:
    inputs, order = case.inputs(), torch.randperm(case.R, generator=torch.Generator().manual_seed(data.getrandbits(32)))
    expected = answered(case, inputs)
    shuffled = answered(case, changed(inputs, lambda x: x.index_select(len(case.batch) + 1, order)))
    for name in ("out", "dx"):
        expected[name] = expected[name].index_select(len(case.batch) + 1, order)
    same(shuffled, expected)


@given(case=problems("triangle_starting", "triangle_ending", "msa_row"), data=st.randoms())
@SOME
def test_residues_may_be_numbered_otherwise(case: ModuleCase, data: random.Random) -> None:
    """In every representation at once."""
    order = torch.randperm(case.R, generator=torch.Generator().manual_seed(data.getrandbits(32)))
    first = len(case.batch)

    def renumbered(x: Tensor) -> Tensor:
        pair = x.shape[first] == x.shape[first + 1] == case.R and case.operation != "msa_row"
        return x.index_select(first + 1, order).index_select(first, order) if pair else x.index_select(first + 1, order)

    def of_pairs(x: Tensor) -> Tensor:
        return x.index_select(first + 1, order).index_select(first, order)

    inputs = case.inputs()
    moved = changed(inputs, renumbered, ("x", "mask"))
    if "z" in moved.arguments:
        moved.arguments["z"] = of_pairs(moved.arguments["z"])
    expected = answered(case, inputs)
    for name in ("out", "dx"):
        expected[name] = renumbered(expected[name])
    if "dz" in expected:
        expected["dz"] = of_pairs(expected["dz"])
    same(answered(case, moved), expected)


@given(case=problems("triangle_ending"))
@SOME
def test_the_ending_node_is_the_starting_node_of_the_transpose(case: ModuleCase) -> None:
    inputs, first = case.inputs(), len(case.batch)
    starting = answered(
        case.with_(operation="triangle_starting"), changed(inputs, lambda x: x.transpose(first, first + 1))
    )
    for name in ("out", "dx"):
        starting[name] = starting[name].transpose(first, first + 1)
    same(answered(case, inputs), starting)


@given(case=problems("msa_row"))
@SOME
def test_the_gradient_of_z_is_the_sum_over_the_sequences(case: ModuleCase) -> None:
    """And so is every parameter's."""
    inputs, axis = case.inputs(), len(case.batch)
    whole = answered(case, inputs)
    alone = [
        answered(case.with_(S=1), changed(inputs, lambda x, s=s: x.narrow(axis, s, 1), ("x", "mask")))
        for s in range(case.S)
    ]
    for name, x in whole.items():
        parts = [one[name] for one in alone]
        close(torch.cat(parts, axis) if name in ("out", "dx") else sum(parts), x, name)


@given(case=problems(*impls.problem.OPERATIONS))
@SOME
def test_batch_entries_know_nothing_of_each_other(case: ModuleCase) -> None:
    case = case.with_(batch=(3, *case.batch))
    inputs = case.inputs()
    whole = answered(case, inputs)
    alone = [answered(case.with_(batch=case.batch[1:]), changed(inputs, lambda x, i=i: x[i])) for i in range(3)]
    for name, x in whole.items():
        parts = [one[name] for one in alone]
        close(torch.stack(parts) if name in ("out", "dx", "dz", "dt") else sum(parts), x, name)


@given(case=problems("msa_global_column", gated=False, masked_rows="zero"))
@SOME
def test_global_attention_is_single_head_attention_of_as_many_queries_as_heads(case: ModuleCase) -> None:
    inputs = case.inputs()
    p, x, mask = inputs.parameters, *(inputs.arguments[name] for name in ("x", "mask"))
    m = torch.nn.functional.layer_norm(x, x.shape[-1:], p["layer_norm.weight"], p["layer_norm.bias"])
    mask, m = mask.mT, m.transpose(-2, -3)
    mean = (m * mask[..., None]).sum(-2) / mask.sum(-1, keepdim=True).clamp(min=1)
    q = (mean @ p["linear_q.weight"].T).unflatten(-1, (1, case.N_head, case.c))
    k, v = ((m @ p[f"linear_{name}.weight"].T).unsqueeze(-3) for name in "kv")
    o = impls.get("reference")(q, k, v, None, mask).flatten(-3)
    close(answered(case, inputs)["out"], (o @ p["linear_o.weight"].T + p["linear_o.bias"]).unsqueeze(-3), "out")


@given(case=problems(*MSA, gated=True, masked_rows="zero"), extra=st.integers(1, 4))
@SOME
def test_padding_of_the_alignment_changes_nothing(case: ModuleCase, extra: int) -> None:
    """More sequences and more residues, all masked: the same answer, and zero gradients of what is padded.

    (Not so where a row with no valid key attends to all of them, padding too.)
    """
    inputs, S, R = case.inputs(), len(case.batch), len(case.batch) + 1

    def padded(x: Tensor, value: float | bool) -> Tensor:
        return lengthened(lengthened(x, S, extra, value), R, extra, value)

    arguments = {"x": padded(inputs.arguments["x"], 3.0), "mask": padded(inputs.arguments["mask"], False)}
    if "z" in inputs.arguments:
        arguments["z"] = padded(inputs.arguments["z"], -2.0)
    found = answered(case, ModuleInputs(inputs.parameters, arguments, padded(inputs.cotangent, 0.0)))
    inside = {"out": (case.S, case.R), "dx": (case.S, case.R), "dz": (case.R, case.R)}
    for name, expected in answered(case, inputs).items():
        whole = found[name]
        if name in inside:
            rows, columns = inside[name]
            part = whole.narrow(S, 0, rows).narrow(R, 0, columns)
            if name != "out":
                assert whole.count_nonzero() == part.count_nonzero(), f"{name} of padding is zero"
            whole = part
        close(whole, expected, name)


@given(case=problems("triangle_starting", "triangle_ending", mask="none"), extra=st.integers(1, 4))
@SOME
def test_padding_of_the_pairs_changes_nothing(case: ModuleCase, extra: int) -> None:
    inputs, first = case.inputs(), len(case.batch)

    def padded(x: Tensor, value: float | bool) -> Tensor:
        return lengthened(lengthened(x, first, extra, value), first + 1, extra, value)

    valid = torch.ones(inputs.cotangent.shape[:-1], dtype=torch.bool)
    arguments = {"x": padded(inputs.arguments["x"], 3.0), "mask": padded(valid, False)}
    found = answered(case, ModuleInputs(inputs.parameters, arguments, padded(inputs.cotangent, 0.0)))
    for name, expected in answered(case, inputs).items():
        whole = found[name]
        if name in ("out", "dx"):
            part = whole.narrow(first, 0, case.R).narrow(first + 1, 0, case.R)
            assert name == "out" or whole.count_nonzero() == part.count_nonzero()
            whole = part
        close(whole, expected, name)


@given(case=problems("template_pointwise"), extra=st.integers(1, 4))
@SOME
def test_padding_of_the_templates_changes_nothing(case: ModuleCase, extra: int) -> None:
    inputs, T = case.inputs(), len(case.batch)
    t, mask = inputs.arguments["t"], inputs.arguments["mask"]
    some = mask.any(-1, keepdim=True)
    inputs.arguments["mask"] = mask = mask | ~some
    more = {"t": lengthened(t, T, extra, torch.nan), "mask": lengthened(mask, T, extra, False)}
    found = answered(case, inputs._replace(arguments=inputs.arguments | more))
    padding = found["dt"].narrow(T, case.T, extra)
    assert not padding.any()
    found["dt"] = found["dt"].narrow(T, 0, case.T)
    expected = answered(case, inputs)
    for name in ("out", "dx", "dt", "dlinear_q.weight", "dlinear_o.weight"):
        close(found[name], expected[name], name)


def lengthened(x: Tensor, axis: int, extra: int, value: float | bool) -> Tensor:
    """``x`` with so many more of ``value`` along an axis."""
    shape = [*x.shape[:axis], extra, *x.shape[axis + 1 :]]
    return torch.cat([x, x.new_full(shape, value)], axis)
