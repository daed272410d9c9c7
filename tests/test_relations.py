"""The relations of ``relations.py`` hold for every backend, on random problems, forward and gradients."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from relations import RELATIONS, Relation

import impls
from impls.conformance.cases import Case, random_case

pytestmark = pytest.mark.usefixtures("one_thread")

FAST = [name for name in impls.names() if not impls.get(name).traits.compiles]
SOME = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("relation", RELATIONS.values(), ids=RELATIONS)
@given(seed=st.integers(0, 2**32))
@SOME
def test_holds(relation: Relation, name: str, seed: int) -> None:
    try:
        relation.holds(impls.get(name), random_case(random.Random(seed), **relation.fixed))
    except impls.UnsupportedProblem as reason:
        pytest.skip(str(reason))


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
