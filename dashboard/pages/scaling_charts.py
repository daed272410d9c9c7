"""The scaling page's charts, as Vega-Lite specifications without data."""

from __future__ import annotations

from dashboard.charts import COLOURS, SHAPES, TICKS, Spec, backend_colour, backend_shape, chart, logarithmic, scaling

MEMORIES = (16, 24, 40, 80, 141)
"""GB of the machines that people have: lines in the memory charts."""
STORY = {"msa_column": "column attention", "msa_global_column": "global attention"}


def growth(unit: str) -> Spec:
    """``charts.scaling`` with rings where two backends change places and, for bytes, the memories of machines.

    Values: as there; ``kind`` may be "joint", where a predicted line begins, and "crossing".
    """
    spec = scaling(unit)
    walls = _walls() if unit == "B" else []
    return spec | {"layer": [*walls, *spec["layer"], _crossings(unit)]}


def _crossings(unit: str) -> Spec:
    return {
        "mark": {"type": "point", "size": 320, "strokeWidth": 2, "filled": False},
        "transform": [{"filter": "datum.kind === 'crossing'"}],
        "encoding": {"y": logarithmic("value", unit), "tooltip": {"field": "text"}},
    }


def _walls() -> list[Spec]:
    """A line for each of MEMORIES, and its name: side by side, for the lines lie close together."""
    walls = [{"wall": gigabytes * 1e9, "name": f"{gigabytes} GB"} for gigabytes in MEMORIES]
    y = logarithmic("wall", "B")
    lines = {
        "data": {"values": walls},
        "mark": {"type": "rule", "strokeDash": [1, 3], "strokeWidth": 1.5},
        "encoding": {"y": y, "x": {"value": 0}, "x2": {"value": "width"}},
    }
    names = [
        {
            "data": {"values": [wall]},
            "mark": {"type": "text", "align": "left", "baseline": "bottom", "fontSize": 11},
            "encoding": {"y": y, "x": {"value": 4 + 46 * at}, "text": {"field": "name"}},
        }
        for at, wall in enumerate(walls)
    ]
    return [lines, *names]


def roofline() -> Spec:
    """FLOP/s over FLOPs for each byte that must move, both logarithmic, under the machine's roof.

    Values: ``intensity``, ``value``, ``low``, ``high``, ``backend``, ``kind`` ("measured" or "roof"), ``text``; the
    roof's last point also ``name``, its first ``slope``: what its level and its slope are.
    """
    x = {
        "field": "intensity",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "title": "FLOPs for each byte that must move",
        "axis": {"values": TICKS},
    }
    y = logarithmic("value", "FLOP/s")
    roof, measured = [{"filter": "datum.kind === 'roof'"}], [{"filter": "datum.kind === 'measured'"}]
    common = {"y": y, "color": backend_colour(), "tooltip": {"field": "text"}}
    return chart(
        encoding={"x": x},
        layer=[
            {"mark": {"type": "line", "strokeWidth": 2}, "transform": roof, "encoding": {"y": y}},
            {
                "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -3, "fontSize": 11},
                "transform": [*roof, {"filter": "isValid(datum.name)"}],
                "encoding": {"y": y, "text": {"field": "name"}},
            },
            {
                "mark": {"type": "text", "align": "left", "baseline": "top", "dx": 6, "dy": 4, "fontSize": 11},
                "transform": [*roof, {"filter": "isValid(datum.slope)"}],
                "encoding": {"y": y, "text": {"field": "slope"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.4},
                "transform": measured,
                "encoding": {**common, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "size": 55, "strokeWidth": 1.5},
                "transform": measured,
                "encoding": {**common, "shape": backend_shape(), "fill": backend_colour()},
            },
        ],
    )


def story() -> Spec:
    """What the scores of the two column attentions take over S, and the memories of machines.

    Values: ``size``, ``value``, ``backend`` (one of STORY), ``text``.
    """
    names = list(STORY.values())
    x = {"field": "size", "type": "quantitative", "scale": {"type": "log", "nice": False, "padding": 12}}
    common = {
        "y": logarithmic("value", "B"),
        "color": {"field": "backend", "title": None, "scale": {"domain": names, "range": [COLOURS[1], COLOURS[0]]}},
        "tooltip": {"field": "text"},
    }
    shape = {"field": "backend", "title": None, "scale": {"domain": names, "range": list(SHAPES[:2])}}
    return chart(
        encoding={"x": {**x, "title": "S (sequences)"}},
        layer=[
            *_walls(),
            {"mark": {"type": "line", "strokeWidth": 1, "strokeDash": [3, 3]}, "encoding": common},
            {"mark": {"type": "point", "size": 55, "strokeWidth": 1.5}, "encoding": {**common, "shape": shape}},
        ],
    )
