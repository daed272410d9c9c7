"""The fuzzer finds wrong kernels, shrinks what it finds, repeats it, and goes on from its corpus."""

from __future__ import annotations

import itertools
import json
import random
import shlex
from pathlib import Path

import fuzz
import pytest
from mutants import MUTANTS
from relations import RELATIONS

import impls
from impls.__main__ import main
from impls.conformance.cases import Case, random_case
from impls.conformance.judge import judge
from impls.interface import Backend

pytestmark = pytest.mark.usefixtures("one_thread")


FINDS = (
    # The answer to compare with rounds in float64 as well: two right answers, further apart than one budget.
    ("sdpa_flash", "kind=values batch=3 H=2 Q=2 K=2 c=16 dtype=float64 quirks=high seed=1892836218"),
    ("sdpa_math", "kind=values batch=3 H=3 Q=16 K=2 c=16 dtype=float64 quirks=high+expanded seed=1886051979"),
    # The products of a logit added to its bias one by one: each rounds as the large bias does.
    ("chunked", "kind=values batch= H=2 Q=11 K=2 c=64 bias_shape=1x11x2 quirks=offset+strided seed=311874854"),
    ("chunked", "kind=values batch= H=2 Q=4 K=28 c=30 bias_shape=2x4x1 dtype=float64 grad=v quirks=offset seed=9"),
)  # fmt: skip
"""What runs of the fuzzer found: a backend, and the smallest problem on which it was rejected."""


@pytest.mark.parametrize(("name", "case"), FINDS)
def test_what_was_found_stays_right(name: str, case: str) -> None:
    verdict = judge(impls.get(name), Case.parse(case))
    assert verdict.status == "passed", verdict.reasons


def run(folder: Path, backend: Backend, problems: int, seed: int = 0) -> fuzz.Fuzz:
    found = fuzz.Fuzz([backend], fuzz.Corpus.read(folder / "corpus.jsonl"), random.Random(seed))
    found.run(lambda: found.counts["problems"] >= problems)
    return found


def test_a_wrong_kernel_is_found_shrunk_and_written_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mutant = MUTANTS["last_key_dropped_at_odd_lengths"]
    found = run(tmp_path, Backend(mutant.name, "", mutant.attend), 40)
    by_budget = [failure for failure in found.failures if failure.what == "wrong numbers"]
    assert 0 < len(by_budget) <= fuzz.SHRUNK
    assert len(set(found.failures)) == len(found.failures)
    assert {(f.case.batch, f.case.H, f.case.Q, f.case.K) for f in by_budget} == {((), 1, 1, 3)}
    related = [failure for failure in found.failures if failure.what in RELATIONS]
    assert related
    assert all(str(failure) in capsys.readouterr().out for failure in found.failures[:1])
    written = [json.loads(line) for line in (tmp_path / "failures.jsonl").read_text().splitlines()]
    assert [entry["command"] for entry in written] == [failure.command for failure in found.failures]


@pytest.mark.parametrize("name", ["heads_rolled", "masked_values_leak", "dbias_not_summed", "mask_shifted"])
def test_relations_alone_reject_wrong_kernels(name: str) -> None:
    backend, rng = Backend(name, "", MUTANTS[name].attend), random.Random(0)
    outcomes = {
        relation.name: any(
            fuzz.broken(relation, backend, random_case(rng, **relation.fixed)) not in ("", None) for _ in range(20)
        )
        for relation in RELATIONS.values()
    }
    assert any(outcomes.values()), outcomes


def test_the_printed_command_repeats_the_failure(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    case = Case("values", (), 2, 3, 5, 4, mask="full_row", dtype="float64")
    wrong = Backend("eager", "", MUTANTS["masked_values_leak"].attend)
    relation = fuzz.Failure("eager", "padding_changes_nothing", (), case)
    numbers = fuzz.Failure("eager", "wrong numbers", (), case.with_(quirks=("poison",), mask="random", K=40))
    python, script, *arguments = shlex.split(relation.command)
    assert (python, script) == ("python", "tests/fuzz.py")
    assert fuzz.main(arguments) == 0
    assert "eager: padding_changes_nothing: holds" in capsys.readouterr().out
    assert main(shlex.split(numbers.command)[3:]) == 0
    monkeypatch.setattr(impls, "get", lambda name: wrong)
    assert fuzz.main(arguments) == 1
    monkeypatch.setattr("impls.conformance.check.get", lambda name: wrong)
    assert main(shlex.split(numbers.command)[3:]) == 1


def test_the_corpus_keeps_what_came_closest_and_is_tried_first(tmp_path: Path) -> None:
    first = run(tmp_path, impls.get("sdpa_math"), 30)
    again = fuzz.Fuzz(first.backends, fuzz.Corpus.read(tmp_path / "corpus.jsonl"), random.Random(1))
    assert again.corpus.closest == first.corpus.closest
    known = first.corpus.cases()
    assert 0 < len(known) <= 30
    assert set(itertools.islice(again.problems(), len(known))) == set(known)
    later = run(tmp_path, impls.get("sdpa_math"), len(known) + 20, seed=1)
    assert all(later.corpus.closest[place][0] >= ratio for place, (ratio, _) in first.corpus.closest.items())


def test_the_same_seed_tries_the_same(tmp_path: Path) -> None:
    runs = [run(tmp_path / name, impls.get("eager"), 12, seed=5) for name in "ab"]
    assert runs[0].corpus.closest == runs[1].corpus.closest
    assert runs[0].counts == runs[1].counts


def test_an_interrupted_run_keeps_its_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = fuzz.Fuzz([impls.get("eager")], fuzz.Corpus(tmp_path / "corpus.jsonl"), random.Random(0))

    def interrupted() -> bool:
        if found.counts["problems"] == 5:
            raise KeyboardInterrupt
        return False

    found.run(interrupted)
    assert fuzz.Corpus.read(tmp_path / "corpus.jsonl").closest == found.corpus.closest != {}
    assert found.summary().startswith("5 problems, 5 answers, 5 relations, 0 failures")


def test_neighbours_are_problems() -> None:
    rng = random.Random(0)
    for _ in range(200):
        case = fuzz.neighbour(random_case(rng), rng)
        assert case.inputs().q.shape == (*case.batch, case.H, case.Q, case.c)
        assert Case.parse(str(case)) == case


def test_a_backend_that_cannot_run_is_refused() -> None:
    with pytest.raises(ValueError, match="sdpa_cudnn: needs CUDA"):
        fuzz.runnable(("sdpa_cudnn",), "cpu")
    assert {"eager", "chunked", "sdpa"} <= {backend.name for backend in fuzz.runnable(None, "cpu")}
