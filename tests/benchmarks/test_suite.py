"""The suite as asv sees it: the same on every machine, standard library only, and nothing but its own benchmarks."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from asv_runner.benchmarks.mark import SkipNotImplemented
from asv_runner.discovery import disc_benchmarks

import impls
from benchmarks import axes
from benchmarks.__main__ import patterns
from benchmarks.instrument.cells import Selection, beside, left_out
from benchmarks.instrument.effort import EFFORTS, effort, listed, parse_memory
from benchmarks.quantities import read_once
from benchmarks.suite import series_of

ROOT = Path(__file__).resolve().parents[2] / "benchmarks"
FILES = sorted(ROOT.rglob("*.py"))
BENCHMARKS = {benchmark.name: benchmark for benchmark in disc_benchmarks(str(ROOT))}
CELLS = [cell for module in axes.MODULES for series in series_of(module) for cell in series.cells()]


def test_every_backend_is_on_the_axis():
    assert set(axes.BACKENDS) == set(impls.names()) - {"reference"}
    assert set(axes.COMPILING) == {name for name in axes.BACKENDS if impls.get(name).traits.compiles}


@pytest.mark.parametrize("name", axes.CUDA_ONLY)
def test_cuda_only_backends_say_so(name):
    problem = impls.CoreProblem((1, 2), 2, 16, 16, 16, dtype="bfloat16", device="cpu")
    assert any("CUDA" in reason for reason in impls.get(name).why_not(problem))


def imports(tree: ast.Module) -> list[str]:
    """What a module imports when it is imported."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or ".")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_import_the_standard_library_only(path):
    allowed = {*sys.stdlib_module_names, "benchmarks", "asv_runner"}
    assert {name.split(".")[0] for name in imports(ast.parse(path.read_text()))} <= allowed


def test_asv_finds_the_series_and_nothing_else():
    found = {}
    for name in BENCHMARKS:
        module, series, quantity = name.split(".")
        found.setdefault((module, series), set()).add(quantity)
    for (_, series), quantities in found.items():
        directions = {f"{kind}_{d}" for kind in ("seconds", "bytes", "error") for d in axes.DIRECTIONS}
        special = {"Compile": "seconds_compile", "OverBlocks": "error_depth"}
        alone = {f"{special.get(series)}_{d}" for d in axes.DIRECTIONS}
        assert quantities == (alone if series in special else directions)
    assert (
        {module for module, _ in found} == set(axes.MODULES) == {p.stem for p in ROOT.glob("*.py")} & set(axes.MODULES)
    )
    assert sorted(axes.MODULES) == list(axes.MODULES)


@pytest.mark.parametrize("module", axes.MODULES)
def test_every_series_says_its_version_itself(module):
    for series in series_of(module):
        assert isinstance(vars(type(series))["version"], str)


def test_units_and_types():
    units = {benchmark.type: benchmark.unit for benchmark in BENCHMARKS.values()}
    assert units == {"seconds": "seconds", "bytes": "bytes", "error": "x budget", "drift": "x eager"}


def test_ranges_reach_the_real_ones():
    assert {(max(axes.SIZES["S"]), max(axes.SIZES["R"]), min(axes.SIZES["N_head"]), max(axes.SIZES["N_head"]))} == {
        (5120, 768, 1, 16)
    }
    assert {"float32", "bfloat16"} <= set(axes.DTYPES)


def test_a_benchmark_returns_its_own_cell():
    (series,) = (s for s in series_of("msa_row") if type(s).__name__ == "OverR")
    values = (256, "float32", "sdpa")
    reading = {"status": "ok", "reason": "", "samples": [0.1, 0.2], "bytes": 7, "error": 0.5, "compile_seconds": None}
    readings = {"OverR(256, 'float32', 'sdpa') forward": reading}
    assert series.seconds_forward(readings, *values) == {"samples": [0.1, 0.2], "number": 1}
    assert series.bytes_forward(readings, *values) == 7
    assert series.error_forward(readings, *values) == 0.5
    with pytest.raises(SkipNotImplemented, match="not selected"):
        series.seconds_training(readings, *values)
    for status, error in (
        ("too_big", SkipNotImplemented),
        ("unsupported", SkipNotImplemented),
        ("crashed", RuntimeError),
    ):
        reading.update(status=status, reason="because")
        with pytest.raises(error, match=f"{status}: because"):
            series.seconds_forward(readings, *values)
    reading.update(status="inaccurate", reason="dq is 3 times over")
    assert series.error_forward(readings, *values) == 0.5
    with pytest.raises(SkipNotImplemented, match="inaccurate: dq is 3 times over"):
        series.seconds_forward(readings, *values)


def test_a_second_read_of_the_same_sweep_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    benchmark = BENCHMARKS["msa_row.OverS.bytes_forward"]
    benchmark.set_param_idx(0)
    benchmark.set_cache({"OverS(32, 'float32', 'eager') forward": {"status": "ok", "reason": "", "bytes": 5}})
    assert benchmark.do_run() == 5
    with pytest.raises(RuntimeError, match="--interleave-rounds"):
        benchmark.do_run()
    benchmark.set_param_idx(1)
    with pytest.raises(SkipNotImplemented):
        benchmark.do_run()
    read_once("something else", tmp_path / "read")


@pytest.mark.parametrize("effort", EFFORTS)
def test_patterns_select_exactly_the_cells(effort):
    """And fit on a command line, of which Linux takes no word longer than 128 kB."""
    kept = [cell for cell in CELLS if not left_out(cell, EFFORTS[effort]) and cell.backend not in axes.CUDA_ONLY]
    chosen = Selection(benchmarks=tuple(patterns(kept, CELLS)))
    places = {(cell.module, cell.series, *cell.params.values()) for cell in kept}
    selected = {(cell.module, cell.series, *cell.params.values()) for cell in CELLS if chosen.has(cell)}
    assert selected == places
    assert 0 < len(places) < len(CELLS) / 2
    assert sum(map(len, chosen.benchmarks)) < 10_000


def test_quick_effort_records_every_backend_of_what_it_measures():
    """A backend that is left out where others are measured is in the journal with its reason, and nothing else is."""
    quick = EFFORTS["quick"]
    measured = [cell for cell in CELLS if not left_out(cell, quick)]
    recorded = beside(measured, CELLS)
    assert {cell.place for cell in measured} < {cell.place for cell in recorded}
    for problem in {cell.problem for cell in recorded}:
        assert any(cell.problem == problem for cell in measured)
        here = {cell.backend for cell in recorded if cell.problem == problem and cell.series != "Compile"}
        assert here == set(axes.BACKENDS)
    small = next(c for c in recorded if c.backend == "flex" and c.problem.R == 64 and c.module == "triangle")
    assert "builds code" in left_out(small, quick)
    assert len(recorded) < 1.6 * len(measured)


def test_quick_effort_lets_code_be_built_at_one_centre():
    built = [c for c in CELLS if c.backend in axes.COMPILING and not left_out(c, EFFORTS["quick"])]
    assert {(c.problem.key, c.direction) for c in built} == {(built[0].problem.key, "forward")}


def test_selections_by_environment():
    environ = {"AXIALBENCH_OPS": "template, triangle_ending", "AXIALBENCH_DTYPES": "bfloat16"}
    chosen = [cell for cell in CELLS if Selection.from_environment(environ).has(cell)]
    assert {c.problem.operation for c in chosen} == {"template_pointwise", "triangle_ending"}
    assert {c.problem.dtype for c in chosen} == {"bfloat16"}
    assert Selection.from_environment({}).as_dict() is None


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"AXIALBENCH_OPS names msa_rwo; expected some of .*msa_row"):
        Selection.from_environment({"AXIALBENCH_OPS": "msa_rwo"})
    with pytest.raises(ValueError, match="AXIALBENCH_EFFORT='huge': expected one of quick, full"):
        effort({"AXIALBENCH_EFFORT": "huge"})
    assert listed("X", ("a", "b"), {"X": " a,b ,"}) == {"a", "b"}
    assert effort({}).name == "full"


@pytest.mark.parametrize(
    ("text", "amount"), [("8GB", 8 * 10**9), ("1.5 GiB", 3 * 2**29), ("123", 123), ("2M", 2 * 10**6)]
)
def test_amounts_of_memory(text, amount):
    assert parse_memory(text) == amount


def test_no_amount_of_memory():
    with pytest.raises(ValueError, match="'plenty' is no amount of memory"):
        parse_memory("plenty")
