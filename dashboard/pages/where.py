"""Who wins where: what that page needs beside the cells of a commit, in one data file, ``where``.

limits   [{"machine", "env", "bytes"}, ...]: memory that a call may need there, by the last sweep that says so
inputs   how many numbers a call is given, the output's cotangent among them: by "operation level", then by its
         sizes "S,R,T,N_head,c" ("" for an axis that it lacks), at every combination of the sizes in the record
widths   bytes of a number, by dtype
colours  {"domain": [backend, ...], "range": [colour, ...]}
shares   the specification of the share-of-workloads curve, without values
"""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
from scipy.stats import t as student

from dashboard import charts
from dashboard.pages import where_charts
from dashboard.pages.record import Record
from dashboard.scaling import CONFIDENCE
from dashboard.texts import seven_digits
from impls import cost
from impls.problem import OPERATIONS, Problem
from impls.zoo import af2

AXES = ("S", "R", "T", "N_head", "c")
LEVELS = ("core", "module")
DEGREES = 10


def files(record: Record) -> dict[str, Any]:
    """The page's data file."""
    cells = record.history.cells
    backends = sorted(cells["backend"].unique())
    content = {
        "limits": _limits(record.history.sweeps),
        "inputs": _inputs(cells[(cells["size"] != "") & (cells["B"] == 1)]),
        "widths": cost.BYTES,
        "quantiles": [seven_digits(student.ppf((1 + CONFIDENCE) / 2, free)) for free in range(1, DEGREES + 1)],
        "colours": charts.scales(backends)["colours"],
        "shares": charts.with_scales(where_charts.shares(), backends),
    }
    return {"where": content}


def _limits(sweeps: pd.DataFrame) -> list[dict[str, Any]]:
    known = sweeps[pd.to_numeric(sweeps["memory_limit"], errors="coerce") > 0]
    last = known.drop_duplicates(["machine", "env"], keep="last")
    return [
        {"machine": row.machine, "env": row.env, "bytes": int(row.memory_limit)}
        for row in last.itertuples()
    ]  # fmt: skip


def _inputs(cells: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Of operations that are known; others' inputs are not counted."""
    found = {}
    for (operation, level), own in cells.groupby(["operation", "level"]):
        if operation not in OPERATIONS or level not in LEVELS:
            continue
        sizes = [sorted({int(size) for size in own[axis].dropna() if size >= 1}) or [None] for axis in AXES]
        found[f"{operation} {level}"] = {
            ",".join("" if size is None else str(size) for size in place): numbers(
                af2(operation, **{axis: n for axis, n in zip(AXES, place, strict=True) if n is not None}), level
            )
            for place in itertools.product(*sizes)
        }
    return found


def numbers(problem: Problem, level: str) -> int:
    """How many numbers a call of the core or the whole module is given: its inputs and the output's cotangent."""
    if level == "core":
        return cost.least_bytes_moved(problem.with_(direction="forward")) // cost.BYTES[problem.dtype]
    p = problem
    rows = p.B * p.R * (p.S if p.operation.startswith("msa") else p.R)
    pairs = p.B * p.R**2
    beside = {"msa_row": pairs * p.c_z, "template_pointwise": pairs * p.T * p.c_t}
    return 2 * rows * p.c_in + beside.get(p.operation, 0)
