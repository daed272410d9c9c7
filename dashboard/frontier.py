"""The memory frontier as a picture: how far every backend gets along S and R before memory runs out.

python -m benchmarks frontier --memory 24GB --op msa_row --json limits.json
python -m dashboard.scaling --frontier limits.json --out frontier.svg
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from dashboard import charts
from dashboard.units import si

SCHEMA = 1
AXES = {"S": "largest S (sequences)", "R": "largest R (residues)"}
SIZES = ("S", "R", "T", "N_head", "c")
WIDTH = 300
TICKS = [digit * 10**power for power in range(8) for digit in (1, 2, 5)]


def draw(limits: Path, out: Path) -> list[str]:
    """Draw the limits of a file to ``out``, as SVG; in words, what it leaves out.

    Raises ValueError for a file that is no record of limits, or of which nothing can be drawn.
    """
    import vl_convert

    record = json.loads(limits.read_text(encoding="utf-8"))
    if not isinstance(record, dict) or (record.get("record"), record.get("schema")) != ("frontier", SCHEMA):
        raise ValueError(f"{limits} is no record of limits: write one with `python -m benchmarks frontier --json`")
    spec = frontier(record)
    if spec is None:
        raise ValueError(f"{limits} has no limit that could be drawn: {'; '.join(unknown(record))}")
    out.write_text(vl_convert.vegalite_to_svg(spec | {"background": "white"}), encoding="utf-8")
    return unknown(record)


def unknown(record: Mapping[str, Any]) -> list[str]:
    """Why a backend has no limit."""
    return list(
        dict.fromkeys(f"{x['backend']} {x['direction']}: {x['reason']}" for x in record["limits"] if not x["largest"])
    )


def frontier(record: Mapping[str, Any]) -> charts.Spec | None:
    """The chart: for each problem and axis a panel for each direction, with a point and its size for each backend.

    ``record`` is what ``python -m benchmarks frontier --json`` writes. None if no limit is known.
    """
    known = [limit for limit in record["limits"] if limit["largest"]]
    rows = [
        {
            "title": f"What fits {si(record['memory'], 'B')}: {name}",
            "hconcat": [_panels(axis, own) for axis in AXES if (own := [x for x in limits if x["axis"] == axis])],
        }
        for name, limits in ((name, list(of)) for name, of in groupby(known, key=lambda x: _name(x["problem"])))
    ]
    return charts.with_scales(charts.chart(vconcat=rows), (x["backend"] for x in known)) if rows else None


def _panels(axis: str, limits: Sequence[Mapping[str, Any]]) -> charts.Spec:
    """One problem along one axis."""
    values = [
        {name: limit[name] for name in ("largest", "backend", "direction")} | {"text": f"{limit['largest']:,}"}
        for limit in limits
    ]
    sizes = [limit["largest"] for limit in limits]
    x = {
        "field": "largest", "type": "quantitative", "title": AXES[axis],
        "scale": {"type": "log", "domain": [min(sizes) / 1.5, 2 * max(sizes)]},
        "axis": {"values": TICKS, "format": "~s"},
    }  # fmt: skip
    y = {"field": "backend", "type": "nominal", "sort": list(charts.ORDER), "title": None, "axis": {"grid": True}}
    colour = charts.backend_colour() | {"legend": None}
    return {
        "data": {"values": values},
        "facet": {"row": {"field": "direction", "type": "nominal", "title": None}},
        "spec": {
            "width": WIDTH, "height": {"step": 20}, "encoding": {"x": x, "y": y},
            "layer": [
                {
                    "mark": {"type": "point", "size": 60, "strokeWidth": 2},
                    "encoding": {
                        "color": colour, "fill": colour, "shape": charts.backend_shape() | {"legend": None},
                    },
                },
                {
                    "mark": {"type": "text", "dx": 9, "align": "left", "fontSize": 11},
                    "encoding": {"text": {"field": "text"}},
                },
            ],
        },
    }  # fmt: skip


def _name(problem: Mapping[str, Any]) -> str:
    """The problem that the limits start from: ``"msa_row, S=128, R=256, N_head=8, c=32, float32"``."""
    sizes = [f"{name}={problem[name]}" for name in SIZES if problem[name] is not None]
    level = " (module)" if problem["level"] == "module" else ""
    return ", ".join([problem["operation"] + level, *sizes, problem["dtype"]])
