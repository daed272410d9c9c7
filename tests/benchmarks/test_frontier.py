"""The memory frontier: where bisection ends; just below it a call fits a limited process, just above it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import impls
from benchmarks.frontier.limits import MOST, UnpredictedError, asking, limit
from benchmarks.instrument.cells import Cell
from benchmarks.instrument.inputs import seeded
from benchmarks.instrument.memory import measured
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.specimen import call_of, inputs_of
from benchmarks.instrument.workers import WorkerProcess

ROOT = Path(__file__).resolve().parents[2]
MB = 10**6
BUDGET = 100 * MB
ROW = Problem("msa_row", "core", "float32", N_head=2, c=16, R=64, S=4)


def cell(backend: str, direction: str = "forward", problem: Problem = ROW) -> Cell:
    return Cell("frontier", problem.operation, {"backend": backend}, problem, direction)


@pytest.mark.parametrize("largest", [1, 2, 63, 64, 65, 1000, 12345])
def test_bisection_ends_at_the_largest_that_fits(largest: int) -> None:
    found = limit(cell("eager"), "R", BUDGET, lambda problem: BUDGET + (largest < problem.R))
    assert (found.largest, found.needs) == (largest, BUDGET)
    assert found.reason == f"R={largest + 1} needs 100 MB"


def test_where_not_even_one_fits_the_largest_is_none() -> None:
    found = limit(cell("eager"), "S", 10, lambda problem: 11)
    assert (found.largest, found.needs, found.reason) == (0, None, "S=1 needs 11 bytes")


def test_what_always_fits_ends_the_search() -> None:
    found = limit(cell("eager"), "S", 10, lambda problem: 1)
    assert found.largest == MOST
    assert "the search ends" in found.reason


def test_a_refusal_is_a_limit_with_its_reason() -> None:
    def need(problem: Problem) -> int:
        if problem.R > 100:
            raise UnpredictedError("R must not exceed 100")
        return 1

    found = limit(cell("eager"), "R", 10, need)
    assert (found.largest, found.reason) == (100, "R=101: R must not exceed 100")
    found = limit(cell("eager", problem=replace(ROW, R=200)), "R", 10, need)
    assert (found.largest, found.reason) == (None, "R must not exceed 100")


@pytest.fixture(scope="module")
def worker():
    found = WorkerProcess({"device": "cpu", "threads": 1, "limit": BUDGET}, os.environ | {"PYTHONPATH": str(ROOT)})
    yield found
    found.stop()


@pytest.mark.parametrize(("backend", "said"), [("compiled", "its memory cannot be predicted"), ("trifast", "CUDA")])
def test_no_prediction_has_a_reason(worker, backend: str, said: str) -> None:
    one = cell(backend, problem=Problem("triangle_starting", "core", "float32", N_head=4, c=16, R=16))
    found = limit(one, "R", BUDGET, asking(worker, one))
    assert found.largest is None
    assert said in found.reason


CELLS = [
    (backend, direction, axis)
    for backend in ("eager", "chunked")
    for direction in ("forward", "training")
    for axis in ("S", "R")
]


@pytest.mark.parametrize(("backend", "direction", "axis"), CELLS)
def test_the_largest_fits_and_one_more_does_not(worker, backend: str, direction: str, axis: str) -> None:
    """By what one call really allocates: inputs and all."""
    one = cell(backend, direction)
    found = limit(one, axis, BUDGET, asking(worker, one))
    below, above = (needed(one, axis, found.largest + more) for more in (0, 1))
    assert below <= BUDGET < above, found
    assert abs(below - found.needs) <= 64


def needed(one: Cell, axis: str, n: int) -> int:
    problem = replace(one.problem, **{axis: n})
    inputs = inputs_of(problem, seeded(problem, "cpu"))
    call = call_of(problem, impls.get(one.backend), one.direction, inputs)
    peak, _ = measured(call, inputs.cotangent)
    return peak + sum(x.untyped_storage().nbytes() for x in inputs.tensors())


LIMITED = """
import json, resource, sys
import torch
torch.set_num_threads(1)
import impls
from benchmarks.instrument.inputs import seeded
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.specimen import call_of, inputs_of

problem, backend, direction, budget = json.load(sys.stdin)
def run(problem):
    inputs = inputs_of(problem, seeded(problem, "cpu"))
    call_of(problem, impls.get(backend), direction, inputs)(inputs.cotangent)
problem = Problem(**problem)
run(Problem(problem.operation, "core", "float32", N_head=1, c=8, R=8, S=8))
status = open("/proc/self/status").read()
used = next(int(row.split()[1]) * 1024 for row in status.splitlines() if row.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (used + budget, resource.RLIM_INFINITY))
try:
    run(problem)
except RuntimeError as error:
    assert "allocate memory" in str(error), error
    print("out of memory")
else:
    print("fits")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts mappings on Linux only")
@pytest.mark.parametrize(
    ("backend", "direction", "axis"),
    [("eager", "forward", "S"), ("eager", "training", "R"), ("chunked", "training", "R")],
)
def test_a_limited_process_agrees(worker, backend: str, direction: str, axis: str) -> None:
    """With a twentieth of the budget to spare, for what the allocator itself needs: below it runs, above it fails."""
    one = cell(backend, direction)
    need, budget = asking(worker, one), BUDGET * 21 // 20
    for most, said in ((BUDGET, "fits"), (BUDGET * 11 // 10, "out of memory")):
        problem = replace(one.problem, **{axis: limit(one, axis, most, need).largest})
        order = json.dumps([vars(problem), backend, direction, budget])
        environ = os.environ | {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0"}
        ran = subprocess.run(
            [sys.executable, "-c", LIMITED],
            cwd=ROOT,
            env=environ,
            input=order,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.stdout.strip() == said, (problem, ran.stdout, ran.stderr)


def frontier(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "frontier", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_says_it_in_a_table_and_in_json(tmp_path: Path) -> None:
    chosen = ["--op", "template", "--direction", "forward", "--backend", "eager", "--backend", "compiled"]
    ran = frontier("--memory", "100MB", *chosen, "--json", str(tmp_path / "limits.json"))
    assert ran.returncode == 0, ran.stderr
    eager, compiled = json.loads((tmp_path / "limits.json").read_text())["limits"]
    assert (eager["backend"], eager["axis"], compiled["largest"]) == ("eager", "R", None)
    assert eager["needs"] <= 100 * MB
    assert f"{eager['largest']:,}" in ran.stdout
    assert "compiled forward: its memory cannot be predicted" in " ".join(ran.stdout.split())


def test_what_is_no_amount_of_memory_is_refused() -> None:
    ran = frontier("--memory", "lots")
    assert ran.returncode == 2
    assert "'lots' is no amount of memory" in ran.stderr
