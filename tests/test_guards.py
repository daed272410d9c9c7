"""The cases reach every place where attention kernels are known to go wrong; and biases stay as small as they come."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch

import impls
from benchmarks.instrument.memory import measured
from impls.conformance.budget import run
from impls.conformance.cases import LEAVES, LENGTHS, Case, cases
from impls.interface import Backend
from impls.masks import on_keys
from impls.problem import DTYPES, CoreInputs

pytestmark = pytest.mark.usefixtures("one_thread")

HALF = ("bfloat16", "float16")
ALL = cases()
GARBAGE_IN_A_BIAS_SHOWS = ("trifast", "cuequivariance", "deepspeed_evo")
FAST = [name for name in impls.names() if not impls.get(name).traits.compiles]
SPANS = list(product((False, True), repeat=4))
"""Whether a bias spans the batch, S, the heads and the queries, or is broadcast along them."""


def quirky(*names: str) -> Callable[[Case], bool]:
    return lambda case: set(names) <= set(case.quirks)


EVERYWHERE: dict[str, Callable[[Case], bool]] = {
    "NaN around the inputs": quirky("margins"),
    "NaN and infinities in masked keys and values": lambda case: quirky("poison")(case) and case.mask != "none",
    "a constant of up to 1e4": quirky("offset"),
    "logits about -120": quirky("deep"),
    "logits about +88": quirky("high"),
    "numbers below the smallest normal one": quirky("tiny"),
    "a bias of -inf along a row": quirky("empty_row"),
    "a row without a valid key": lambda case: case.mask == "full_row",
    "the same call again": lambda case: case.repeats > 1,
}
IN_TWO_DTYPES: dict[str, Callable[[Case], bool]] = {
    "more queries than keys": lambda case: case.Q > case.K > 1,
    "more keys than queries": lambda case: case.K > case.Q > 1,
    "one key": lambda case: case.K == 1,
    "no key": lambda case: case.K == 0 and bool(case.grad),
    **{f"a gradient of {name} alone": lambda case, name=name: case.grad == (name,) for name in LEAVES},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("guard", EVERYWHERE)
def test_a_case_in_every_dtype_has(guard: str, dtype: str) -> None:
    assert any(EVERYWHERE[guard](case) and case.grad for case in ALL if case.dtype == dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("guard", IN_TWO_DTYPES)
def test_a_case_has(guard: str, dtype: str) -> None:
    assert any(IN_TWO_DTYPES[guard](case) for case in ALL if case.dtype == dtype)


@pytest.mark.parametrize("block", [8, 16, 32, 64, 128])
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_lengths_lie_around_multiples_that_are_no_multiples_of_the_next(block: int, beside: int) -> None:
    """As queries and as keys, and a second multiple as well as the first."""
    wanted = {n + beside for n in (block, 3 * block) if 3 * block <= 192 or n == block}
    assert wanted <= set(LENGTHS)
    assert wanted <= {case.Q for case in ALL if case.Q == case.K and case.kind == "lengths"}


@pytest.mark.parametrize("n", [65_535, 65_536])
def test_the_grid_limit_is_tried_in_the_cheapest_operation(n: int) -> None:
    assert any(case.batch == (n,) and case.Q == 1 and case.grad for case in ALL)


@pytest.mark.parametrize("spans", SPANS, ids=str)
def test_a_bias_of_every_kind_is_tried_with_its_gradient_and_in_float32_beside_half(spans: tuple[bool, ...]) -> None:
    kinds = [
        case for case in ALL if case.kind == "bias_axes" and tuple(n > 1 for n in (case.bias_shape or ())[:4]) == spans
    ]
    assert any(case.bias_dtype is None and "bias" in case.grad for case in kinds)
    assert any(case.bias_dtype == "float32" and case.dtype in HALF and "bias" in case.grad for case in kinds)


# A bias keeps its size


def problem(spans: tuple[bool, ...]) -> CoreInputs:
    """A problem whose logits outweigh everything else, with a bias that spans some of its axes."""
    full = (2, 3, 4, 64)
    shape = (*(n if span else 1 for n, span in zip(full, spans, strict=True)), 64)
    return Case("bias_axes", full[:2], 4, 64, 64, 4, shape).inputs()


def peak(backend: Backend, inputs: CoreInputs) -> int:
    """Bytes beyond the inputs at the peak of one call."""
    return measured(lambda cotangent: run(backend, inputs), inputs.cotangent)[0]


def for_the_bias(backend: Backend, spans: tuple[bool, ...]) -> float:
    """Bytes that a forward call takes for its bias, as a share of what that bias in full would be."""
    inputs = problem(spans)
    full = inputs.cotangent[..., :1].numel() * inputs.k.shape[-2] * inputs.q.element_size()
    return (peak(backend, inputs) - peak(backend, inputs._replace(bias=None))) / full


@pytest.mark.parametrize("spans", SPANS, ids=str)
@pytest.mark.parametrize("name", FAST)
def test_no_bias_is_expanded_in_memory(name: str, spans: tuple[bool, ...]) -> None:
    """aqlaboratory/openfold-3#206. The logits may be there anyway; a second tensor of that size is not."""
    if reasons := impls.get(name).why_not(Case("bias_axes", (2, 3), 4, 64, 64, 4, (64,)).core()):
        pytest.skip(reasons[0])
    assert for_the_bias(impls.get(name), spans) < 0.2


@pytest.mark.parametrize("spans", SPANS, ids=str)
@pytest.mark.parametrize("name", ["eager", "sdpa_math"])
def test_a_bias_that_is_expanded_shows(name: str, spans: tuple[bool, ...]) -> None:
    def expanding(q, k, v, bias, mask):
        bias = None if bias is None else bias.expand(*q.shape[:-1], k.shape[-2]).clone()
        return impls.get(name).attend(q, k, v, bias, mask)

    assert for_the_bias(Backend("expanding", "", expanding), spans) > 0.9


# What the interface does not ask


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", [name for name in FAST if name not in GARBAGE_IN_A_BIAS_SHOWS])
def test_nan_in_the_bias_of_a_masked_key_reaches_nothing(name: str, garbage: float) -> None:
    """As docs/interface.md says of these backends."""
    backend, case = impls.get(name), Case("values", (2,), 3, 5, 9, 4, (2, 3, 5, 9), "full_row", grad=LEAVES)
    if any("gradient of the bias" in reason for reason in backend.why_not(case.core())):
        case = case.with_(grad=LEAVES[:3])
    if reasons := backend.why_not(case.core()):
        pytest.skip(reasons[0])
    inputs = case.inputs()
    hidden = inputs.bias.detach().masked_fill(~on_keys(inputs.mask), garbage)
    answer = run(backend, inputs._replace(bias=hidden.requires_grad_("bias" in case.grad)))
    for tensor, expected in run(backend, inputs).items():
        torch.testing.assert_close(answer[tensor], expected, rtol=0, atol=0, msg=tensor)
