"""Depth: right backends drift from float64 as eager does, whatever the depth, and a fault inside one of them shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from misbehaving import ALONE, cell

import impls
from benchmarks.instrument import journal
from benchmarks.instrument.cells import Selection
from benchmarks.instrument.drift import drift
from benchmarks.instrument.findings import Finding
from benchmarks.instrument.inputs import seeded
from benchmarks.instrument.problems import STACKED, Problem
from benchmarks.instrument.specimen import call_of, inputs_of
from benchmarks.instrument.truth import truth

STACK = Problem("evoformer", "stack", "float32", N_head=2, c=8, R=7, S=5, blocks=3)
eager = impls.get("eager").attend


def found(problem: Problem, backend: impls.Backend, direction: str = "training") -> dict[str, float]:
    """The drift of every tensor in units of eager's."""
    inputs = inputs_of(problem, seeded(problem, "cpu"))
    right = truth(problem, inputs, most=1)
    errors = right.errors(call_of(problem, backend, direction, inputs)(right.cotangent))
    return {name: pair["error"] / pair["budget"] for name, pair in errors.items()}


def backend(attend) -> impls.Backend:
    return impls.Backend("planted", "planted", attend)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["eager", "sdpa_math", "chunked"])
def test_right_backends_drift_as_eager_does(name: str, dtype: str) -> None:
    drifts = found(replace(STACK, dtype=dtype), impls.get(name))
    assert set(drifts) == {"m", "z", "dm", "dz"}
    assert all(0.5 < ratio < 1.5 for ratio in drifts.values()), drifts
    assert set(found(replace(STACK, dtype=dtype), impls.get(name), "forward")) == {"m", "z"}


def test_rounding_inside_a_backend_shows() -> None:
    def half(q, k, v, bias, mask):
        return eager(*(None if x is None else x.bfloat16() for x in (q, k, v, bias)), mask).to(q.dtype)

    drifts = found(STACK, backend(half))
    assert min(drifts.values()) > 1000
    judged = Finding([cell("planted", problem=STACK)])
    judged.errors = {name: {"error": ratio, "budget": 1.0} for name, ratio in drifts.items()}
    judged.judge()
    assert judged.status == "inaccurate"
    assert "times as far from float64 as eager's" in judged.reason


def test_a_fault_in_the_backward_pass_shows_in_the_gradients_alone() -> None:
    def detached(q, k, v, bias, mask):
        return eager(q, k, v, None if bias is None else bias.detach(), mask)

    drifts = found(STACK, backend(detached))
    assert max(drifts["m"], drifts["z"]) < 1.5
    assert drifts["dz"] > 1000


def test_drift_is_a_root_mean_square() -> None:
    inputs = inputs_of(STACK, seeded(STACK, "cpu"))
    right = drift(STACK, inputs)
    off = {name: x.clone() for name, x in right.exact.items()}
    off["m"] += 0.25
    off["z"][0, 0, 0] += 7**0.5 * 7**0.5 * 0.5  # one of R x R rows of channels, by 7 / 2
    off["dz"][..., 0] = torch.nan
    errors = right.errors(off)
    assert errors["m"]["error"] == pytest.approx(0.25)
    assert errors["z"]["error"] == pytest.approx(0.5)
    assert errors["dm"]["error"] == 0
    assert errors["dz"]["error"] is None


def test_rounding_adds_up_with_depth() -> None:
    def eagers(blocks: int) -> float:
        problem = replace(STACK, blocks=blocks)
        return drift(problem, inputs_of(problem, seeded(problem, "cpu"))).budget["m"].item()

    assert eagers(1) < eagers(4) < eagers(16)


def test_a_stack_is_its_blocks() -> None:
    parts = [replace(STACK, operation=name, level="module", blocks=None) for name in STACKED]
    assert STACK.scores == 3 * sum(part.scores for part in parts)
    assert STACK.flops("training") == 9 * sum(part.flops("forward") for part in parts)
    assert STACK.key == "evoformer stack S=5 R=7 N_head=2 c=8 blocks=3 float32"
    assert sum(x.nbytes for x in inputs_of(STACK, seeded(STACK, "cpu")).arguments.values()) * 2 == STACK.input_bytes


def test_a_sweep_measures_drift_and_nothing_else(sweep_over, tmp_path) -> None:
    sweep = sweep_over(tmp_path, ALONE)
    cells = [cell(name, problem=STACK) for name in ("eager", "wrong", "refuses", "trip")]
    cells.append(cell("chunked", "training", STACK))
    readings = sweep.measure(cells, Selection())
    statuses = [readings[c.place]["status"] for c in cells]
    assert statuses == ["ok", "inaccurate", "unsupported", "crashed", "ok"]
    records = {r["params"]["backend"]: r for r in journal.read(sweep.origin.journal) if r["record"] == "cell"}
    assert records["eager"]["seconds"] is None
    assert records["eager"]["bytes"] is None
    assert records["eager"]["error"] == pytest.approx(1, abs=0.3)
    assert records["eager"]["problem"]["blocks"] == 3
    assert set(records["chunked"]["errors"]) == {"m", "z", "dm", "dz"}
    assert records["wrong"]["error"] > 2
