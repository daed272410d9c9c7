"""The instrument's own check: right kernels pass, wrong ones do not, whole or by sample, at the core and in modules."""

from __future__ import annotations

import pytest
import torch

import impls
from benchmarks.instrument import exact
from benchmarks.instrument.inputs import MODULES, Inputs, seeded
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.specimen import call_of, inputs_of
from benchmarks.instrument.truth import sample, truth

CORES = [
    Problem("msa_row", "core", "float32", N_head=3, c=8, R=20, S=7),
    Problem("msa_column", "core", "bfloat16", N_head=2, c=8, R=6, S=21),
    Problem("msa_global_column", "core", "float32", N_head=4, c=8, R=6, S=30),
    Problem("triangle_starting", "core", "float32", N_head=3, c=8, R=17),
    Problem("triangle_ending", "core", "float32", N_head=2, c=8, R=16),
    Problem("template_pointwise", "core", "float32", N_head=2, c=8, R=9, T=3),
]
BLOCKS = [
    Problem(
        operation, "module", "float32", N_head=2, c=8, R=18, S=11 if operation[:3] == "msa" else None, mask="padding"
    )
    for operation in MODULES
]
EVERYTHING = 2**30


def ratios(problem: Problem, most: int, change=lambda outputs: None, backend: str = "eager") -> dict[str, float]:
    inputs = inputs_of(problem, seeded(problem, "cpu"))
    right = truth(problem, inputs, most)
    outputs = call_of(problem, impls.get(backend), "training", inputs)(right.cotangent)
    outputs = {name: x.detach().clone() for name, x in outputs.items()}
    change(outputs)
    errors = right.errors(outputs)
    assert set(errors) == set(outputs)
    return {name: found["error"] / found["budget"] for name, found in errors.items()}


@pytest.mark.parametrize("problem", CORES + BLOCKS, ids=lambda problem: problem.key)
@pytest.mark.parametrize("share", [1, 5, 100])
@pytest.mark.parametrize("backend", ["eager", "sdpa_math"])
def test_right_kernels_are_within_their_budget(problem, share, backend):
    assert max(ratios(problem, problem.scores // share, backend=backend).values()) <= 1


@pytest.mark.parametrize("problem", CORES + BLOCKS, ids=lambda problem: problem.key)
@pytest.mark.parametrize("share", [1, 5])
def test_an_error_in_any_tensor_shows_in_that_tensor(problem, share):
    names = ratios(problem, problem.scores // share)
    for name in names:

        def change(outputs, name=name):
            outputs[name] *= 1.02 if problem.dtype == "float32" else 1.5

        found = ratios(problem, problem.scores // share, change)
        assert found.pop(name) > 1
        assert max(found.values()) <= 1


def test_what_is_not_finite_has_no_error():
    def change(outputs):
        outputs["dk"][..., 0, 0] = torch.nan

    inputs = inputs_of(CORES[0], seeded(CORES[0], "cpu"))
    right = truth(CORES[0], inputs, EVERYTHING)
    outputs = {name: x.detach().clone() for name, x in right.exact.items()}
    change(outputs)
    assert right.errors(outputs)["dk"]["error"] is None
    assert right.errors(outputs)["dq"]["error"] == 0


def test_a_sample_is_seeded_and_small():
    problem = Problem("msa_column", "core", "float32", N_head=8, c=32, R=300, S=2048)
    chosen = sample(problem, 2**24)
    assert chosen == sample(problem, 2**24)
    assert len(chosen.rows) * len(chosen.heads) * problem.S**2 <= 2**24
    whole = sample(CORES[0], EVERYTHING)
    assert whole.rows == whole.heads == slice(None)


def test_the_exact_answer_is_the_published_example():
    """Two keys: softmax([0.5, 0]) over values 1 and 2, 0.62 x 1 + 0.38 x 2."""
    q, k, v = (torch.tensor(x, dtype=torch.float64).view(1, 1, -1, 1) for x in ([1.0], [0.5, 0.0], [1.0, 2.0]))
    o = exact.attention(q, k, v)
    assert o.item() == pytest.approx(1.377540668798145)


def test_inputs_are_the_same_for_every_dtype_and_lie_as_projections_leave_them():
    problem = Problem("triangle_ending", "core", "float32", N_head=2, c=8, R=6)
    single = inputs_of(problem, seeded(problem, "cpu"))
    half = Problem("triangle_ending", "core", "bfloat16", N_head=2, c=8, R=6)
    rounded = inputs_of(half, seeded(half, "cpu"))
    assert isinstance(single, Inputs)
    for name, x in single.arguments.items():
        assert torch.equal(x.bfloat16(), rounded.arguments[name])
    assert single.arguments["q"].stride()[-3:] == (8, 6 * 2 * 8, 1)
    assert single.arguments["bias"].stride()[-2:] == (2, 6 * 2)
