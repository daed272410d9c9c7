"""Bytes beyond the inputs: the same whenever they are measured, predicted exactly, and for sizes no machine holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

import impls
from benchmarks.instrument.inputs import seeded
from benchmarks.instrument.memory import highest, measured, predicted
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.specimen import call_of, inputs_of

SCALARS = 64
"""PyTorch allocates a few numbers of 8 bytes that fake tensors do not."""

SMALL = [
    Problem("msa_row", "core", "float32", N_head=2, c=8, R=48, S=5),
    Problem("msa_column", "core", "float32", N_head=2, c=8, R=7, S=40),
    Problem("msa_global_column", "core", "float32", N_head=4, c=8, R=5, S=60),
    Problem("triangle_ending", "core", "float32", N_head=2, c=8, R=24),
    Problem("template_pointwise", "core", "float32", N_head=2, c=8, R=12, T=3),
    Problem("msa_row", "module", "float32", N_head=2, c=8, R=32, S=5, mask="padding"),
    Problem("msa_global_column", "module", "float32", N_head=4, c=8, R=5, S=60, mask="padding"),
]
COLUMN = Problem("msa_column", "core", "float32", N_head=8, c=32, R=300, S=5120)
GLOBAL = Problem("msa_global_column", "core", "float32", N_head=8, c=8, R=300, S=5120)


def really(problem: Problem, backend: str, direction: str) -> int:
    inputs = inputs_of(problem, seeded(problem, "cpu"))
    call = call_of(problem, impls.get(backend), direction, inputs)
    call(inputs.cotangent)
    return measured(call, inputs.cotangent)[0]


@pytest.mark.parametrize("direction", ["forward", "training"])
@pytest.mark.parametrize("problem", SMALL, ids=lambda problem: problem.key)
@pytest.mark.parametrize("backend", ["eager", "chunked"])
def test_prediction_is_measurement(backend, problem, direction):
    found = really(problem, backend, direction)
    assert abs(found - predicted(problem, impls.get(backend), direction, "cpu")) <= SCALARS


def test_kernels_that_copy_inside_need_no_more_than_copies_of_their_inputs():
    """A bfloat16 product on the CPU copies what is transposed, out of fake tensors' sight."""
    problem = replace(SMALL[1], dtype="bfloat16")
    beyond = really(problem, "eager", "forward") - predicted(problem, impls.get("eager"), "forward", "cpu")
    assert 0 <= beyond <= problem.input_bytes


@pytest.mark.parametrize("backend", ["eager", "sdpa", "chunked"])
@pytest.mark.parametrize("direction", ["forward", "training"])
def test_three_times_the_same(backend, direction):
    assert len({really(SMALL[0], backend, direction) for _ in range(3)}) == 1


def test_eager_column_attention_that_no_machine_holds():
    assert COLUMN.scores == 62_914_560_000
    need = predicted(COLUMN, impls.get("eager"), "forward", "cpu")
    assert need == pytest.approx(2 * 251.658e9, rel=0.01)


def test_the_global_core_is_four_orders_smaller():
    assert GLOBAL.scores == 12_288_000
    need = predicted(GLOBAL, impls.get("eager"), "forward", "cpu")
    assert need == pytest.approx(2 * 49.152e6, rel=0.01)


def test_a_closed_form_is_taken_for_what_cannot_be_faked():
    closed = impls.Backend(
        "closed", "", impls.get("eager").attend, traits=impls.Traits(fake=False), bytes_beyond_inputs=lambda p: p.scores
    )
    core, module = SMALL[0], SMALL[5]
    assert predicted(core, closed, "forward", "cpu") == core.scores
    assert predicted(module, closed, "forward", "cpu") > module.scores
    unknown = impls.Backend("unknown", "", closed.attend, traits=impls.Traits(fake=False))
    assert predicted(core, unknown, "forward", "cpu") is None


def test_highest_is_the_largest_running_sum():
    assert highest([5, 3, -6, 4, -2, 1]) == 8
    assert highest([]) == 0
