"""What must hold between answers of one backend, with no reference: on random problems, forward and gradients."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import impls
from impls.budget import run
from impls.cases import Case, random_case
from impls.problem import CoreInputs

pytestmark = pytest.mark.usefixtures("one_thread")

FAST = [name for name in impls.names() if not impls.get(name).traits.compiles]
SOME = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def problems(**fixed) -> st.SearchStrategy[Case]:
    """Random float64 problems in plain layout, with a mask and every gradient."""
    fixed = {"dtype": "float64", "quirks": (), "mask": "full_row", "H_kv": None, "bias_dtype": None} | fixed
    return st.integers(0, 2**32).map(lambda seed: random_case(random.Random(seed), **fixed))


def answer(name: str, inputs: CoreInputs) -> dict[str, Tensor]:
    """o and gradients, by the most that the backend takes: without the bias's gradient if it has none."""
    backend, inputs = impls.get(name), leaves(inputs)
    try:
        return run(backend, inputs)
    except impls.UnsupportedProblem as reason:
        if inputs.bias is None or "gradient of the bias" not in str(reason):
            pytest.skip(str(reason))
        return run(backend, inputs._replace(bias=inputs.bias.detach()))


def leaves(inputs: CoreInputs) -> CoreInputs:
    """Inputs that all require gradients."""
    fresh = {name: x.detach().clone().requires_grad_() for name, x in inputs._asdict().items()
             if x is not None and name in ("q", "k", "v", "bias")}  # fmt: skip
    return inputs._replace(**fresh)


def close(found: Tensor, expected: Tensor, what: str) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, msg=lambda text: f"{what}: {text}")


def on_keys(x: Tensor, order: Tensor) -> Tensor:
    return x if x.shape[-1] == 1 else x[..., order]


@pytest.mark.parametrize("name", FAST)
@given(case=problems())
@SOME
def test_the_order_of_keys_does_not_matter(name: str, case: Case) -> None:
    inputs = case.inputs()
    q, k, v, bias, mask, cotangent = inputs
    order = torch.randperm(case.K)
    bias = None if bias is None else on_keys(bias, order)
    shuffled = answer(name, CoreInputs(q, k[..., order, :], v[..., order, :], bias, mask[..., order], cotangent))
    plain = answer(name, inputs)
    close(shuffled["o"], plain["o"], "o")
    close(shuffled["dq"], plain["dq"], "dq")
    close(shuffled["dk"], plain["dk"][..., order, :], "dk")
    close(shuffled["dv"], plain["dv"][..., order, :], "dv")
    if "dbias" in plain:
        close(shuffled["dbias"], on_keys(plain["dbias"], order), "dbias")


@pytest.mark.parametrize("name", FAST)
@given(case=problems())
@SOME
def test_the_order_of_heads_goes_through(name: str, case: Case) -> None:
    q, k, v, bias, mask, cotangent = inputs = case.inputs()
    order = torch.randperm(case.H)
    per_head = bias is not None and bias.shape[-3] > 1
    bias = bias[..., order, :, :] if per_head else bias
    shuffled = answer(
        name, CoreInputs(*(x[..., order, :, :] for x in (q, k, v)), bias, mask, cotangent[..., order, :, :])
    )
    for tensor, expected in answer(name, inputs).items():
        expected = expected if tensor == "dbias" and not per_head else expected[..., order, :, :]
        close(shuffled[tensor], expected, tensor)


@pytest.mark.parametrize("name", FAST)
@given(case=problems(), extra=st.integers(1, 40))
@SOME
def test_padding_changes_nothing(name: str, case: Case, extra: int) -> None:
    """More keys, all masked, with garbage in them: the same answer, and zero gradients of the padding."""
    q, k, v, bias, mask, cotangent = inputs = case.inputs()
    garbage = torch.full((*k.shape[:-2], extra, case.c), torch.nan, dtype=k.dtype)
    if bias is not None and bias.shape[-1] > 1:
        bias = torch.cat([bias, torch.full((*bias.shape[:-1], extra), 1e4, dtype=bias.dtype)], -1)
    padded = answer(
        name,
        CoreInputs(
            q, torch.cat([k, garbage], -2), torch.cat([v, garbage], -2), bias,
            torch.cat([mask, torch.zeros(*mask.shape[:-1], extra, dtype=torch.bool)], -1), cotangent,
        ),
    )  # fmt: skip
    plain = answer(name, inputs)
    for tensor in ("o", "dq"):
        close(padded[tensor], plain[tensor], tensor)
    for tensor in ("dk", "dv"):
        close(padded[tensor][..., : case.K, :], plain[tensor], tensor)
        assert not padded[tensor][..., case.K :, :].any()
    if "dbias" in plain and case.bias_shape[-1] > 1:
        close(padded["dbias"][..., : case.K], plain["dbias"], "dbias")
        assert not padded["dbias"][..., case.K :].any()


@pytest.mark.parametrize("name", FAST)
@given(case=problems())
@SOME
def test_batch_entries_know_nothing_of_each_other(name: str, case: Case) -> None:
    case = case.with_(batch=(3, *case.batch), bias_shape=None, grad=("q", "k", "v"))
    q, k, v, bias, mask, cotangent = inputs = case.inputs()
    whole = answer(name, inputs)
    for i in range(3):
        alone = answer(name, CoreInputs(q[i], k[i], v[i], bias, mask[i], cotangent[i]))
        for tensor, expected in alone.items():
            close(whole[tensor][i], expected, tensor)


@pytest.mark.parametrize("name", FAST)
@given(case=problems(), constant=st.floats(-50, 50))
@SOME
def test_a_constant_on_a_row_of_logits_changes_nothing(name: str, case: Case, constant: float) -> None:
    inputs = case.inputs()
    bias = torch.zeros(case.H, case.Q, 1, dtype=torch.float64) if inputs.bias is None else inputs.bias
    plain = answer(name, inputs._replace(bias=bias))
    for tensor, found in answer(name, inputs._replace(bias=bias + constant)).items():
        close(found, plain[tensor], tensor)


@pytest.mark.parametrize("name", FAST)
@given(case=problems(mask="none"))
@SOME
def test_a_key_twice_with_half_the_weight_each_is_the_same(name: str, case: Case) -> None:
    q, k, v, bias, mask, cotangent = inputs = case.inputs()
    bias = torch.zeros(1, 1, case.K, dtype=torch.float64) if bias is None else bias.expand(*bias.shape[:-1], case.K)
    k2, v2 = (torch.cat([x, x[..., :1, :]], -2) for x in (k, v))
    bias2 = torch.cat([bias, bias[..., :1]], -1)
    bias2[..., [0, -1]] -= math.log(2)
    twice = answer(name, CoreInputs(q, k2, v2, bias2, mask, cotangent))
    plain = answer(name, inputs._replace(bias=bias))
    close(twice["o"], plain["o"], "o")
    close(twice["dq"], plain["dq"], "dq")
    for tensor in ("dk", "dv"):
        first, last = twice[tensor][..., :1, :], twice[tensor][..., -1:, :]
        close(torch.cat([first + last, twice[tensor][..., 1:-1, :]], -2), plain[tensor], tensor)


@pytest.mark.parametrize("name", FAST)
@given(case=problems())
@SOME
def test_values_of_one_give_one(name: str, case: Case) -> None:
    """And no gradient of the logits, which cannot change that."""
    inputs = case.inputs()
    found = answer(name, inputs._replace(v=torch.ones_like(inputs.v)))
    some = inputs.mask.any(-1)[..., None, None, None].expand(found["o"].shape)
    close(found["o"], some.double(), "o")
    for tensor in ("dq", "dk"):
        close(found[tensor], torch.zeros_like(found[tensor]), tensor)


@pytest.mark.parametrize("name", FAST)
@given(case=problems())
@SOME
def test_gradients_are_linear_in_the_cotangent(name: str, case: Case) -> None:
    inputs = case.inputs()
    other = torch.randn_like(inputs.cotangent)
    first, second, both = (
        answer(name, inputs._replace(cotangent=x)) for x in (inputs.cotangent, other, 2 * inputs.cotangent - 3 * other)
    )
    for tensor in first.keys() - {"o"}:
        close(both[tensor], 2 * first[tensor] - 3 * second[tensor], tensor)


@pytest.mark.parametrize("name", FAST)
@given(case=problems())
@SOME
def test_the_gradient_of_a_broadcast_bias_is_the_sum(name: str, case: Case) -> None:
    inputs = case.inputs()
    if inputs.bias is None:
        inputs = inputs._replace(bias=torch.randn(case.H, 1, case.K, dtype=torch.float64))
    small = answer(name, inputs)
    large = answer(name, inputs._replace(bias=inputs.bias.expand(*inputs.q.shape[:-1], case.K)))
    close(small["o"], large["o"], "o")
    if "dbias" in small:
        close(small["dbias"], large["dbias"].sum_to_size(inputs.bias.shape), "dbias")


@pytest.mark.parametrize("name", FAST)
@given(case=problems(H_kv=1, bias_shape=None, grad=("q", "k", "v")))
@SOME
def test_heads_that_share_keys_are_queries_of_one_head(name: str, case: Case) -> None:
    inputs = case.inputs()
    shared = answer(name, inputs)
    one_head = inputs._replace(**{x: getattr(inputs, x).flatten(-3, -2).unsqueeze(-3) for x in ("q", "cotangent")})
    every_head = inputs._replace(**{x: getattr(inputs, x).repeat_interleave(case.H, -3) for x in ("k", "v")})
    flat, repeated = answer(name, one_head), answer(name, every_head)
    for tensor in ("o", "dq"):
        close(shared[tensor], flat[tensor].reshape(inputs.q.shape), tensor)
        close(shared[tensor], repeated[tensor], tensor)
    for tensor in ("dk", "dv"):
        close(shared[tensor], flat[tensor], tensor)
        close(shared[tensor], repeated[tensor].sum(-3, keepdim=True), tensor)


@pytest.mark.parametrize("name", FAST)
def test_gradcheck(name: str) -> None:
    case = Case("msa_row", (2,), 2, 3, 4, 2, (2, 1, 3, 4), "full_row", "float64")
    q, k, v, bias, mask, _ = case.inputs()
    backend = impls.get(name)
    for wanted in ((q, k, v, bias), (q, k, v)):
        for x in (q, k, v, bias):
            x.requires_grad_(any(x is y for y in wanted))
        if reasons := backend.why_not(case.with_(grad=("q", "k", "v", "bias")[: len(wanted)]).core()):
            continue
        assert torch.autograd.gradcheck(lambda q, k, v, bias: backend(q, k, v, bias, mask), (q, k, v, bias))
        return
    pytest.skip("; ".join(reasons))
