"""The scaling page: what theory says of every size, and how fast the machine itself is.

    scaling  {"curves": [curve, ...], "roofs": {place: {commit: roof}}, "quantiles": [of Student's t, ...],
              "memories": [bytes, ...], "story": [point, ...], "charts": {name: specification}}
    curve    {"operation", "level", "dtype", "direction", "mask", "axis", "fixed": {axis: size}, "sizes", "flops",
              "moved", "scores", "output"}
    roof     {"flops": FLOP/s of a matrix product, "bytes": B/s of a copy}, each only if it was measured
    point    {"backend": which attention, "size": S, "value": bytes}

A curve varies one axis and keeps the ``fixed``; its lists, one number a size, are closed forms of ``impls.cost``:
FLOPs, least bytes moved, bytes of the score tensor, and bytes of what the core returns. Places and commits are named as
in the page's address. The page itself fits what was measured, series by series, as it is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd
from scipy.stats import t as student

from dashboard import charts
from dashboard.naming import number
from dashboard.pages import scaling_charts
from dashboard.pages.record import Record
from dashboard.scaling import AXES, CONFIDENCE, problem
from dashboard.texts import seven_digits
from impls import cost
from impls.problem import Problem

ABOUT = ("operation", "level", "dtype", "direction", "mask")
FIXED = ("B", "S", "R", "T", "N_head", "c")
BEYOND = {"S": (512, 1024, 2048, 5120), "R": (384, 512, 768)}
"""Sizes that are predicted where they were not measured: the largest that models are trained with."""
MATMUL_FLOPS, COPY_BYTES = 2 * 512**3, 2 * 4 * 2**24
"""What a sweep's anchors do (``benchmarks/instrument/anchor.py``): the copy reads 64 MB and writes as many."""
DEGREES = 30
STORY = Problem(operation="msa_column", R=300, N_head=8, dtype="float32")
STORY_SIZES = (*(2**power for power in range(5, 13)), 5120, 10240)


def files(record: Record) -> dict[str, Any]:
    """The page's one data file."""
    units = {"time": "s", "memory": "B", "rate": "FLOP/s"}
    specs = {name: scaling_charts.growth(unit) for name, unit in units.items()}
    specs |= {"roofline": scaling_charts.roofline()}
    names = sorted(record.history.cells["backend"].unique())
    return {
        "scaling": {
            "curves": curves(record.history.cells),
            "roofs": roofs(record.history.sweeps),
            "quantiles": [seven_digits(student.ppf((1 + CONFIDENCE) / 2, free)) for free in range(1, DEGREES + 1)],
            "memories": [gigabytes * 10**9 for gigabytes in scaling_charts.MEMORIES],
            "story": list(story()),
            "charts": {name: charts.with_scales(spec, names) for name, spec in specs.items()}
            | {"story": scaling_charts.story()},
        }
    }


def curves(cells: pd.DataFrame) -> list[dict[str, Any]]:
    """The curves on which ``cells`` lie; none for what is no attention of ``impls``, or whose problem is not known."""
    places = cells[["size", *ABOUT, *FIXED]].drop_duplicates().to_dict("records")
    found: dict[tuple[Any, ...], set[int]] = {}
    for place in places:
        axis = place["size"].partition("=")[0]
        sizes = {name: int(place[name]) for name in FIXED if not math.isnan(place[name])}
        if axis in AXES and place["size"] == f"{axis}={sizes.get(axis)}" and {"B", "c"} <= sizes.keys():
            fixed = tuple((name, size) for name, size in sizes.items() if name != axis)
            key = (*(place[name] for name in ABOUT), axis, fixed)
            found.setdefault(key, set()).add(sizes[axis])
    return [curve for key, sizes in found.items() for curve in _curve(key, sizes | set(BEYOND.get(key[-2], ())))]


def _curve(key: tuple[Any, ...], sizes: Iterable[int]) -> list[dict[str, Any]]:
    """One curve, or none if ``impls`` does not know the problem."""
    *about, axis, fixed = key
    own = dict(zip(ABOUT, about, strict=True))
    try:
        problems = [problem(own, dict(fixed) | {axis: size}) for size in sorted(sizes)]
    except ValueError:
        return []
    flops = cost.module_flops if own["level"] == "module" else cost.core_flops
    counts = {
        "flops": flops, "moved": cost.least_bytes_moved, "scores": cost.score_bytes, "output": cost.output_bytes,
    }  # fmt: skip
    numbers = {name: [count(one) for one in problems] for name, count in counts.items()}
    return [own | {"axis": axis, "fixed": dict(fixed), "sizes": sorted(sizes)} | numbers]


def roofs(sweeps: pd.DataFrame) -> dict[str, dict[str, dict[str, float]]]:
    """The best rates of the anchors in the sweeps of each place and commit."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for sweep in sweeps.to_dict("records"):
        threads = number(sweep["threads"])
        place = f"{sweep['machine']}/{sweep['env']}/{'?' if threads is None else int(threads)}"
        commit = sweep["commit"][:8] + "+" * sweep["dirty"]
        anchors = sweep["anchors"] if isinstance(sweep["anchors"], dict) else {}
        for name, anchor, work in (("flops", "matmul", MATMUL_FLOPS), ("bytes", "copy", COPY_BYTES)):
            seconds = number(anchors.get(anchor))
            if seconds and seconds > 0:
                roof = found.setdefault(place, {}).setdefault(commit, {})
                roof[name] = max(roof.get(name, 0.0), float(f"{work / seconds:.7g}"))
    return found


def story() -> Iterable[dict[str, Any]]:
    """Two score tensors, which eager attention holds at once, of column attention and of its global form."""
    for operation in ("msa_column", "msa_global_column"):
        for size in STORY_SIZES:
            held = 2 * cost.score_bytes(STORY.with_(operation=operation, S=size))
            yield {"backend": scaling_charts.STORY[operation], "size": size, "value": held}
