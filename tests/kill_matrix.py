"""Which families of cases reject what is wrong. ``python tests/kill_matrix.py`` tries all and writes the record.

The record is ``results/conformance/``: ``kill_matrix.jsonl`` of the wrong kernels, ``module_kill_matrix.jsonl`` of the
wrong modules, an operation at a time. Tests hold it against the mutants there are.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from meeting_mutants import MUTANTS
from module_mutants import MODULE_MUTANTS

from impls.conformance.cases import GROUPS, Case, cases
from impls.conformance.judge import AnyCase, Verdict, judge
from impls.conformance.modules.cases import module_cases
from impls.conformance.modules.judge import judge_module
from impls.interface import Backend

FOLDER = Path(__file__).parent.parent / "results" / "conformance"


@dataclass(frozen=True)
class Trial:
    """Something wrong, the dtypes in which it is, and the cases that ought to show it."""

    name: dict[str, str]
    dtypes: tuple[str, ...]
    judge: Callable[[Any], Verdict]
    cases: tuple[AnyCase, ...]

    def __str__(self) -> str:
        return " ".join(self.name.values())


def kernels() -> list[Trial]:
    """The wrong kernels, each on all cases but the operations' own forward ones."""
    tried = tuple(case for case in cases() if case.grad or case.kind in GROUPS)
    return [
        Trial({"mutant": name}, mutant.dtypes, partial(judge, Backend(name, "a mutant", mutant.attend)), tried)
        for name, mutant in MUTANTS.items()
    ]


def modules() -> list[Trial]:
    """The wrong modules, in each operation in which they are wrong."""
    return [
        Trial(
            {"mutant": name, "operation": operation},
            mutant.dtypes,
            partial(judge_module, mutant.subject),
            module_cases((operation,)),
        )
        for name, mutant in MODULE_MUTANTS.items()
        for operation in mutant.operations
    ]


RECORDS = {"kill_matrix.jsonl": kernels, "module_kill_matrix.jsonl": modules}


def killers(trial: Trial, dtype: str, likely: Collection[str] = ()) -> Iterator[str]:
    """The families of cases that reject it, each once, those that are ``likely`` to before the others. Of every family
    one case is tried first that is masked and in training, if there is one, then the others in any order, large ones
    last.
    """
    families: dict[str, list[AnyCase]] = {}
    for case in sorted(trial.cases, key=lambda case: (case.mask != "full_row", not case.grad)):
        if case.dtype == dtype:
            families.setdefault(case.family, []).append(case)
    rng = random.Random(0)
    for first, *others in list(families.values()):
        rng.shuffle(others)
        families[first.family] = sorted((first, *others), key=large)
    found = set()
    for tried_first in (True, False):
        tried = [members for family, members in families.items() if (family in likely) == tried_first]
        for case in itertools.chain.from_iterable(itertools.zip_longest(*tried)):
            if case and case.family not in found and shows(trial.judge(case)):
                found.add(case.family)
                yield case.family


def killed_twice(trial: Trial, dtype: str, record: dict[str, dict[str, Any]]) -> bool:
    """Whether two families reject it; those that did when the ``record`` was written are tried first."""
    likely = record[str(trial)]["dtypes_by_family"] if str(trial) in record else ()
    return len(list(itertools.islice(killers(trial, dtype, likely), 2))) == 2


def large(case: AnyCase) -> bool:
    """Whether it takes seconds."""
    return isinstance(case, Case) and case.core().scores > 2**20


def shows(verdict: Verdict) -> bool:
    """Whether it is rejected for what it is there for: none is meant to raise anything."""
    return verdict.status == "failed" and not verdict.reasons[0].startswith("raised")


def row(trial: Trial) -> dict[str, Any]:
    """By how many families it is rejected in each of its dtypes, and in how many dtypes by each family."""
    found = {dtype: set(killers(trial, dtype)) for dtype in trial.dtypes}
    by_family = {family: sum(family in families for families in found.values()) for family in families_of([trial])}
    return {
        "schema": 1,
        **trial.name,
        "cases": len(trial.cases),
        "families_by_dtype": {dtype: len(families) for dtype, families in found.items()},
        "dtypes_by_family": {family: n for family, n in by_family.items() if n},
    }


def families_of(trials: list[Trial]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(case.family for trial in trials for case in trial.cases))


def recorded(file: str) -> dict[str, dict[str, Any]]:
    """The rows of a record, by what stands for a trial there."""
    rows = map(json.loads, (FOLDER / file).read_text().splitlines())
    return {" ".join(row[key] for key in ("mutant", "operation") if key in row): row for row in rows}


def as_text(matrix: dict[str, dict[str, Any]], families: tuple[str, ...]) -> str:
    """One line a trial: a column for each family of cases, with the number of dtypes it was rejected in."""
    width = max(map(len, matrix))
    letters = itertools.zip_longest(*families, fillvalue=" ")
    header = [" " * width + "  " + " ".join(letter) for letter in letters]
    lines = [
        f"{name:<{width}}  " + " ".join(str(entry["dtypes_by_family"].get(family, ".")) for family in families)
        for name, entry in matrix.items()
    ]
    return "\n".join(header + lines)


def main(files: list[str]) -> None:
    torch.set_num_threads(1)
    for file in files or RECORDS:
        trials = RECORDS[file]()
        with (FOLDER / file).open("w") as record:
            for n, trial in enumerate(trials, 1):
                record.write(json.dumps(row(trial)) + "\n")
                print(f"{n}/{len(trials)} {trial}", file=sys.stderr)
        print(as_text(recorded(file), families_of(trials)))


if __name__ == "__main__":
    main(sys.argv[1:])
