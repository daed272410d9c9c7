"""``make compare``: the backends side by side on AlphaFold's shapes, cut to what a quick look can afford.

Heads, widths and biases are those of ``impls.zoo``; S and R are shorter, so that plain attention takes a fraction of a
second. The suite in ``benchmarks/`` measures the real lengths.
"""

from __future__ import annotations

import pytest
import torch

import impls
from impls.conformance.budget import run
from impls.problem import Problem
from impls.zoo import ZOO

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHORT = {
    "row.init": {"S": 16, "R": 128},
    "col.init": {"S": 128, "R": 16},
    "colglobal.init": {"S": 1024, "R": 64},
    "tri.start.init": {"R": 96},
    "tmpl.pointwise.init": {"R": 64},
}
PROBLEMS = {
    f"{name} {' '.join(f'{axis}={n}' for axis, n in sizes.items())} {direction}": ZOO[name].with_(
        device=DEVICE, mask="padding", direction=direction, **sizes
    )
    for name, sizes in SHORT.items()
    for direction in ("forward", "training")
}


@pytest.mark.parametrize("name", impls.names())
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_side_by_side(name: str, problem: Problem, benchmark, request: pytest.FixtureRequest) -> None:
    backend = impls.get(name)
    if reasons := backend.why_not(problem.core()):
        pytest.skip(f"{name}: {'; '.join(reasons)}")
    benchmark.group = next(title for title, other in PROBLEMS.items() if other == problem)
    inputs = problem.core_inputs()

    def call() -> None:
        run(backend, inputs)
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    benchmark.pedantic(call, rounds=7, warmup_rounds=2)
