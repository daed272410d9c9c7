"""What must hold between answers of one backend, with no reference: relations that any right attention has.

A relation draws what it needs beside the case (an order of keys, a constant) from the case's seed, and raises
AssertionError where it does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor

from impls.conformance.budget import run
from impls.conformance.cases import LEAVES, Case
from impls.interface import Backend, UnsupportedProblem
from impls.problem import CoreInputs

Answer = Callable[[CoreInputs], dict[str, Tensor]]
"""From inputs to ``o`` and all gradients that the backend has."""
Check = Callable[[Answer, Case, CoreInputs, Generator], None]

PLAIN = {"dtype": "float64", "quirks": (), "mask": "full_row", "H_kv": None, "bias_dtype": None}
"""What a case must be for a relation: float64 in plain layout, with a mask."""


@dataclass(frozen=True)
class Relation:
    """One relation, and which cases it is about: those whose fields are as in ``fixed``."""

    name: str
    check: Check
    fixed: dict[str, Any] = field(hash=False)

    def holds(self, backend: Backend, case: Case) -> None:
        """Raises AssertionError where ``backend`` breaks it, UnsupportedProblem where it declines the case."""
        generator = Generator().manual_seed(case.seed)
        self.check(lambda inputs: answer(backend, inputs), case, case.inputs(), generator)


RELATIONS: dict[str, Relation] = {}


def relation(**fixed: Any) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        RELATIONS[check.__name__] = Relation(check.__name__, check, PLAIN | fixed)
        return check

    return register


def answer(backend: Backend, inputs: CoreInputs) -> dict[str, Tensor]:
    """o and gradients, by the most that the backend takes: without the bias's gradient if it has none."""
    inputs = leaves(inputs)
    try:
        return run(backend, inputs)
    except UnsupportedProblem as reason:
        if inputs.bias is None or "gradient of the bias" not in str(reason):
            raise
        return run(backend, inputs._replace(bias=inputs.bias.detach()))


def leaves(inputs: CoreInputs) -> CoreInputs:
    """Inputs that all require gradients."""
    fresh = {name: x.detach().clone().requires_grad_() for name, x in inputs._asdict().items()
             if x is not None and name in LEAVES}  # fmt: skip
    return inputs._replace(**fresh)


def close(found: Tensor, expected: Tensor, what: str) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, msg=lambda text: f"{what}: {text}")


def on_keys(x: Tensor, order: Tensor) -> Tensor:
    return x if x.shape[-1] == 1 else x[..., order]


@relation()
def the_order_of_keys_does_not_matter(answer: Answer, case: Case, inputs: CoreInputs, generator: Generator) -> None:
    q, k, v, bias, mask, cotangent = inputs
    order = torch.randperm(case.K, generator=generator)
    bias = None if bias is None else on_keys(bias, order)
    shuffled = answer(CoreInputs(q, k[..., order, :], v[..., order, :], bias, mask[..., order], cotangent))
    plain = answer(inputs)
    close(shuffled["o"], plain["o"], "o")
    close(shuffled["dq"], plain["dq"], "dq")
    close(shuffled["dk"], plain["dk"][..., order, :], "dk")
    close(shuffled["dv"], plain["dv"][..., order, :], "dv")
    if "dbias" in plain:
        close(shuffled["dbias"], on_keys(plain["dbias"], order), "dbias")


@relation()
def the_order_of_heads_goes_through(answer: Answer, case: Case, inputs: CoreInputs, generator: Generator) -> None:
    q, k, v, bias, mask, cotangent = inputs
    order = torch.randperm(case.H, generator=generator)
    per_head = bias is not None and bias.shape[-3] > 1
    bias = bias[..., order, :, :] if per_head else bias
    shuffled = answer(CoreInputs(*(x[..., order, :, :] for x in (q, k, v)), bias, mask, cotangent[..., order, :, :]))
    for tensor, expected in answer(inputs).items():
        expected = expected if tensor == "dbias" and not per_head else expected[..., order, :, :]
        close(shuffled[tensor], expected, tensor)


@relation()
def padding_changes_nothing(answer: Answer, case: Case, inputs: CoreInputs, generator: Generator) -> None:
    """More keys, all masked, with garbage in them: the same answer, and zero gradients of the padding."""
    q, k, v, bias, mask, cotangent = inputs
    extra = int(torch.randint(1, 41, (), generator=generator))
    garbage = k.new_full((*k.shape[:-2], extra, case.c), torch.nan)
    if bias is not None and bias.shape[-1] > 1:
        bias = torch.cat([bias, bias.new_full((*bias.shape[:-1], extra), 1e4)], -1)
    padded = answer(
        CoreInputs(
            q, torch.cat([k, garbage], -2), torch.cat([v, garbage], -2), bias,
            torch.cat([mask, mask.new_zeros(*mask.shape[:-1], extra)], -1), cotangent,
        )
    )  # fmt: skip
    plain = answer(inputs)
    for tensor in ("o", "dq"):
        close(padded[tensor], plain[tensor], tensor)
    for tensor in ("dk", "dv"):
        close(padded[tensor][..., : case.K, :], plain[tensor], tensor)
        assert not padded[tensor][..., case.K :, :].any(), f"{tensor} of the padding is not zero"
    if "dbias" in plain and case.bias_shape[-1] > 1:
        close(padded["dbias"][..., : case.K], plain["dbias"], "dbias")
        assert not padded["dbias"][..., case.K :].any(), "dbias of the padding is not zero"


@relation()
def batch_entries_know_nothing_of_each_other(
    answer: Answer, case: Case, inputs: CoreInputs, generator: Generator
) -> None:
    grad = tuple(name for name in case.grad if name != "bias")
    q, k, v, bias, mask, cotangent = inputs = case.with_(
        batch=(3, *case.batch), bias_shape=None, bias_dtype=None, grad=grad
    ).inputs()
    whole = answer(inputs)
    for i in range(3):
        alone = answer(CoreInputs(q[i], k[i], v[i], bias, None if mask is None else mask[i], cotangent[i]))
        for tensor, expected in alone.items():
            close(whole[tensor][i], expected, tensor)


@relation()
def a_constant_on_a_row_of_logits_changes_nothing(
    answer: Answer, case: Case, inputs: CoreInputs, generator: Generator
) -> None:
    constant = 100 * torch.rand((), generator=generator).item() - 50
    bias = inputs.q.new_zeros(case.H, case.Q, 1) if inputs.bias is None else inputs.bias
    plain = answer(inputs._replace(bias=bias))
    for tensor, found in answer(inputs._replace(bias=bias + constant)).items():
        close(found, plain[tensor], tensor)


@relation(mask="none")
def a_key_twice_with_half_the_weight_each_is_the_same(
    answer: Answer, case: Case, inputs: CoreInputs, generator: Generator
) -> None:
    q, k, v, bias, mask, cotangent = inputs
    bias = q.new_zeros(1, 1, case.K) if bias is None else bias.expand(*bias.shape[:-1], case.K)
    k2, v2 = (torch.cat([x, x[..., :1, :]], -2) for x in (k, v))
    bias2 = torch.cat([bias, bias[..., :1]], -1).detach()
    bias2[..., [0, -1]] -= math.log(2)
    twice = answer(CoreInputs(q, k2, v2, bias2, mask, cotangent))
    plain = answer(inputs._replace(bias=bias))
    close(twice["o"], plain["o"], "o")
    close(twice["dq"], plain["dq"], "dq")
    for tensor in ("dk", "dv"):
        first, last = twice[tensor][..., :1, :], twice[tensor][..., -1:, :]
        close(torch.cat([first + last, twice[tensor][..., 1:-1, :]], -2), plain[tensor], tensor)


@relation()
def values_of_one_give_one(answer: Answer, case: Case, inputs: CoreInputs, generator: Generator) -> None:
    """And no gradient of the logits, which cannot change that."""
    found = answer(inputs._replace(v=torch.ones_like(inputs.v)))
    some = inputs.mask.any(-1)[..., None, None, None].expand(found["o"].shape)
    close(found["o"], some.double(), "o")
    for tensor in ("dq", "dk"):
        close(found[tensor], torch.zeros_like(found[tensor]), tensor)


@relation()
def gradients_are_linear_in_the_cotangent(answer: Answer, case: Case, inputs: CoreInputs, generator: Generator) -> None:
    other = torch.randn(inputs.q.shape, generator=generator).to(inputs.q)
    cotangents = (inputs.cotangent, other, 2 * inputs.cotangent - 3 * other)
    first, second, both = (answer(inputs._replace(cotangent=x)) for x in cotangents)
    for tensor in first.keys() - {"o"}:
        close(both[tensor], 2 * first[tensor] - 3 * second[tensor], tensor)


@relation()
def the_gradient_of_a_broadcast_bias_is_the_sum(
    answer: Answer, case: Case, inputs: CoreInputs, generator: Generator
) -> None:
    if inputs.bias is None:
        inputs = inputs._replace(bias=torch.randn(case.H, 1, case.K, generator=generator).to(inputs.q))
    small = answer(inputs)
    large = answer(inputs._replace(bias=inputs.bias.expand(*inputs.q.shape[:-1], case.K)))
    close(small["o"], large["o"], "o")
    if "dbias" in small:
        close(small["dbias"], large["dbias"].sum_to_size(inputs.bias.shape), "dbias")


@relation(H_kv=1, bias_shape=None, grad=LEAVES[:3])
def heads_that_share_keys_are_queries_of_one_head(
    answer: Answer, case: Case, inputs: CoreInputs, generator: Generator
) -> None:
    shared = answer(inputs)
    one_head = inputs._replace(**{x: getattr(inputs, x).flatten(-3, -2).unsqueeze(-3) for x in ("q", "cotangent")})
    every_head = inputs._replace(**{x: getattr(inputs, x).repeat_interleave(case.H, -3) for x in ("k", "v")})
    flat, repeated = answer(one_head), answer(every_head)
    for tensor in ("o", "dq"):
        close(shared[tensor], flat[tensor].reshape(inputs.q.shape), tensor)
        close(shared[tensor], repeated[tensor], tensor)
    for tensor in ("dk", "dv"):
        close(shared[tensor], flat[tensor], tensor)
        close(shared[tensor], repeated[tensor].sum(-3, keepdim=True), tensor)
