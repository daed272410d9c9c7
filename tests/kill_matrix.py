"""Which families of cases reject which wrong kernel. ``python tests/kill_matrix.py`` tries all and writes the record.

The record is ``results/conformance/kill_matrix.jsonl``; ``test_conformance`` holds it against the mutants there are.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from mutants import MUTANTS, Mutant

from impls.cases import Case, cases
from impls.conformance import judge
from impls.interface import Backend

RECORD = Path(__file__).parent.parent / "results" / "conformance" / "kill_matrix.jsonl"
FAMILIES = tuple(dict.fromkeys(case.family for case in cases() if case.grad))


def one_of_each_family_first(dtype: str) -> list[Case]:
    """The training cases of a dtype, in rounds: the first of every family, then the second of every family."""
    families: dict[str, list[Case]] = {}
    for case in cases():
        if case.dtype == dtype and case.grad:
            families.setdefault(case.family, []).append(case)
    rounds = itertools.zip_longest(*families.values())
    return [case for one_of_each in rounds for case in one_of_each if case]


def killers(mutant: Mutant, dtype: str) -> Iterator[str]:
    """The families of cases that reject ``mutant``, each once."""
    backend, found = Backend(mutant.name, "a mutant", mutant.attend), set()
    for case in one_of_each_family_first(dtype):
        if case.family not in found and judge(backend, case).status == "failed":
            found.add(case.family)
            yield case.family


def row(mutant: Mutant) -> dict[str, dict[str, int]]:
    """By how many families ``mutant`` is rejected in each of its dtypes, and in how many dtypes by each family."""
    found = {dtype: set(killers(mutant, dtype)) for dtype in mutant.dtypes}
    by_family = {family: sum(family in families for families in found.values()) for family in FAMILIES}
    return {
        "families_by_dtype": {dtype: len(families) for dtype, families in found.items()},
        "dtypes_by_family": {family: n for family, n in by_family.items() if n},
    }


def recorded() -> dict[str, dict[str, dict[str, int]]]:
    """The rows of the record, by mutant."""
    rows = map(json.loads, RECORD.read_text().splitlines())
    return {row["mutant"]: row for row in rows}


def as_text(matrix: dict[str, dict[str, dict[str, int]]]) -> str:
    """One line a mutant: a column for each family of cases, with the number of dtypes it was rejected in."""
    width = max(map(len, matrix))
    letters = itertools.zip_longest(*FAMILIES, fillvalue=" ")
    header = [" " * width + "  " + " ".join(letter) for letter in letters]
    lines = [
        f"{name:<{width}}  " + " ".join(str(entry["dtypes_by_family"].get(family, ".")) for family in FAMILIES)
        for name, entry in matrix.items()
    ]
    return "\n".join(header + lines)


def main() -> None:
    torch.set_num_threads(1)
    matrix = {}
    for mutant in MUTANTS.values():
        matrix[mutant.name] = row(mutant)
        print(f"{len(matrix)}/{len(MUTANTS)} {mutant.name}", file=sys.stderr)
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"schema": 1, "mutant": name, **entry}) + "\n" for name, entry in matrix.items())
    RECORD.write_text("".join(lines))
    print(as_text(matrix))


if __name__ == "__main__":
    main()
