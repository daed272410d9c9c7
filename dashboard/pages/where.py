"""Who wins where: what that page needs beside the cells of a commit, in one data file, ``where``.

limits     [{"machine", "env", "bytes"}, ...]: memory that a call may need there, by the last sweep that says so
numbers    how many numbers a problem has: [inputs (the output's cotangent among them), scores, outputs forward,
           outputs in training]; by "operation level", then by its sizes "S,R,T,N_head,c" ("" for an axis that it
           lacks), at every combination of the sizes in the record
widths     bytes of a number, by dtype
quantiles  Student's t for a 95 % interval, by degrees of freedom from 1 on
colours    {"domain": [backend, ...], "range": [colour, ...]}
shares     the specification of the share-of-workloads curve, without values
"""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
from scipy.stats import t as student

from dashboard import charts
from dashboard.naming import number
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
        "numbers": _numbers(cells[(cells["size"] != "") & (cells["B"] == 1)]),
        "widths": cost.BYTES,
        "quantiles": [seven_digits(student.ppf((1 + CONFIDENCE) / 2, free)) for free in range(1, DEGREES + 1)],
        "colours": charts.scales(backends)["colours"],
        "shares": charts.with_scales(where_charts.shares(), backends),
    }
    return {"where": content}


def _limits(sweeps: pd.DataFrame) -> list[dict[str, Any]]:
    last: dict[tuple[str, str], int] = {}
    for sweep in sweeps[["machine", "env", "memory_limit"]].to_dict("records"):
        limit = number(sweep["memory_limit"])
        if limit and limit > 0:
            last[sweep["machine"], sweep["env"]] = int(limit)
    return [{"machine": machine, "env": env, "bytes": limit} for (machine, env), limit in last.items()]


def _numbers(cells: pd.DataFrame) -> dict[str, dict[str, list[int]]]:
    """Of operations that are known; others have no closed forms."""
    found = {}
    for (operation, level), own in cells.groupby(["operation", "level"]):
        if operation in OPERATIONS and level in LEVELS:
            sizes = [sorted({int(size) for size in own[axis].dropna() if size >= 1}) for axis in AXES]
            places = itertools.product(*(lengths or [0] for lengths in sizes))
            found[f"{operation} {level}"] = {_key(place): counts(_problem(operation, place), level) for place in places}
    return found


def _key(place: tuple[int, ...]) -> str:
    """ "128,256,,8,32": the sizes along AXES, none where there is no such axis (0)."""
    return ",".join(str(size or "") for size in place)


def _problem(operation: str, place: tuple[int, ...]) -> Problem:
    return af2(operation, **{axis: size for axis, size in zip(AXES, place, strict=True) if size})


def counts(problem: Problem, level: str) -> list[int]:
    """Numbers in the inputs of a call of the core or the whole module, in its scores, and in what it returns.

    The last is given twice: forward, and in training.
    """
    forward, training = (problem.with_(direction=direction) for direction in ("forward", "training"))
    inputs = cost.least_bytes_moved(forward) if level == "core" else _module_inputs(forward)
    held = (inputs, cost.score_bytes(forward), cost.output_bytes(forward), cost.output_bytes(training))
    return [bytes_ // cost.BYTES[problem.dtype] for bytes_ in held]


def _module_inputs(p: Problem) -> int:
    """Bytes of the module's inputs and of its output's cotangent."""
    rows = p.B * p.R * (p.S if p.operation.startswith("msa") else p.R)
    pairs = p.B * p.R**2
    beside = {"msa_row": pairs * p.c_z, "template_pointwise": pairs * p.T * p.c_t}
    return (2 * rows * p.c_in + beside.get(p.operation, 0)) * cost.BYTES[p.dtype]
