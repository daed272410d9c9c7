"""Cold inputs: calls really go round over more memory than the cache has, and nothing but the time is another."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from misbehaving import ALONE, TINY, cell

import impls
from benchmarks.instrument import affinity, cold, journal
from benchmarks.instrument.cells import Selection
from benchmarks.instrument.effort import cold_inputs
from benchmarks.instrument.inputs import seeded
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.specimen import call_of, inputs_of

MB = 2**20
PROBLEMS = (
    TINY, replace(TINY, operation="triangle_ending", S=None), replace(TINY, operation="msa_global_column"),
    replace(TINY, level="module", mask="padding"),
)  # fmt: skip


def cpus(folder: Path, caches: dict[str, list[tuple[str, str, str]]]) -> Path:
    for cpu, of_cpu in caches.items():
        for index, files in enumerate(of_cpu):
            cache = folder / cpu / "cache" / f"index{index}"
            cache.mkdir(parents=True)
            for name, text in zip(("level", "size", "shared_cpu_list"), files, strict=True):
                (cache / name).write_text(text + "\n")
    return folder


def test_the_last_level_counts_and_a_shared_cache_once(tmp_path: Path) -> None:
    own = {f"cpu{n}": [("1", "32K", str(n)), ("2", "1024K", str(n)), ("3", "32768K", "0-1")] for n in (0, 1)}
    folder = cpus(tmp_path, own | {"cpu2": [("1", "32K", "2"), ("3", "16384K", "2-3")]})
    assert cold.cache_bytes([0, 1], folder) == 32 * MB
    assert cold.cache_bytes([0, 2], folder) == 48 * MB


def test_an_unknown_cache_is_reckoned_with(tmp_path: Path) -> None:
    assert cold.cache_bytes([0], tmp_path) == cold.cache_bytes(None) == cold.UNKNOWN


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key)
def test_copies_are_the_same_elsewhere(problem: Problem) -> None:
    inputs = inputs_of(problem, seeded(problem, "cpu"))
    first, second, *_ = cold.copies(inputs, cache=MB, memory=10**9)
    assert first is inputs
    assert list(second.arguments) == list(inputs.arguments)
    for x, y in zip(first.tensors(), second.tensors(), strict=True):
        assert torch.equal(x, y)
        assert (x.stride(), x.requires_grad, y.is_leaf) == (y.stride(), y.requires_grad, True)
        assert x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr()


@pytest.mark.parametrize("cache", [0, 1000, MB])
def test_the_others_exceed_the_cache_twice(cache: int) -> None:
    inputs = inputs_of(TINY, seeded(TINY, "cpu"))
    copies = cold.copies(inputs, cache, memory=10**9)
    one, *others = (sum(x.nbytes for x in copy.tensors()) for copy in copies)
    assert sum(others) > 2 * cache
    assert sum(others) <= 2 * cache + one


def test_copies_are_bounded_by_memory() -> None:
    inputs = inputs_of(TINY, seeded(TINY, "cpu"))
    one = sum(x.nbytes for x in inputs.tensors())
    assert len(cold.copies(inputs, cache=MB, memory=40 * one)) == 10
    assert cold.copies(inputs, cache=MB, memory=one) == [inputs]


def test_calls_go_round() -> None:
    """By the addresses that a backend is given."""
    seen: list[int] = []

    def watch(q, k, v, bias, mask):
        seen.append(q.data_ptr())
        return impls.get("eager").attend(q, k, v, bias, mask)

    copies = cold.copies(inputs_of(TINY, seeded(TINY, "cpu")), cache=10_000, memory=10**9)
    backend = impls.Backend("watch", "watch", watch)
    turn = cold.in_turn([partial(call_of(TINY, backend, "forward", copy), copy.cotangent) for copy in copies])
    first, *_ = [turn() for _ in range(2 * len(copies))]
    assert len(copies) > 1
    assert seen == 2 * [copy.arguments["q"].data_ptr() for copy in copies]
    assert torch.equal(first["o"], turn()["o"])


def test_a_cold_sweep_times_copies_and_counts_the_bytes_of_one(sweep_over, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("AXIALBENCH_INPUTS", "cold")
    problem = replace(TINY, R=64, S=16)  # half a megabyte: a few hundred copies
    sweep = sweep_over(tmp_path, replace(ALONE, patience=60.0))
    sweep.measure([cell("eager", problem=problem)], Selection())
    began, found, _ = journal.read(sweep.origin.journal)
    assert began["inputs"] == "cold"
    assert found["status"] == "ok", found["reason"]
    assert found["seconds"]["copies"] > 2 * cold.cache_bytes(affinity.allowed()) / problem.input_bytes
    assert found["bytes"] == found["predicted_bytes"]


def test_what_is_neither_warm_nor_cold_is_refused() -> None:
    assert not cold_inputs({})
    with pytest.raises(ValueError, match="AXIALBENCH_INPUTS='tepid': expected warm or cold"):
        cold_inputs({"AXIALBENCH_INPUTS": "tepid"})
