"""The charts of the page "trust"."""

from __future__ import annotations

from typing import Any

from dashboard.charts import COLOURS, FORMATS, ORDER, SHAPES, Spec, backend_colour, backend_shape, chart

OVER_MEDIAN = "format((datum.value - 1) * 100, '+.1~f') + ' %'"
SHARES = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]


def noise() -> Spec:
    """The smallest change that each cell can show, an operation a row.

    Values: ``share``, ``operation``, ``backend``, ``text``.
    """
    x = {
        "field": "share",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "title": "smallest change that can be shown",
        "axis": {"labelExpr": FORMATS["share"], "values": SHARES},
    }
    y = {
        "field": "operation",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"grid": True},
    }
    offset = {"field": "backend", "type": "nominal", "sort": list(ORDER)}
    points = {
        "mark": {"type": "point", "size": 40, "strokeWidth": 1.5},
        "encoding": {
            "x": x, "y": y, "yOffset": offset, "color": backend_colour(), "fill": backend_colour(),
            "shape": backend_shape(), "tooltip": {"field": "text"},
        },
    }  # fmt: skip
    return chart(layer=[points])


def samples() -> Spec:
    """The samples of one cell in the order taken, over their median; the shaded band is the median's interval.

    Values: ``order``, ``value``, ``backend`` ("process 1", ...), ``round``, ``text``, and in each ``low`` and ``high``.
    """
    x, y = _in_order("sample")
    band = {
        "transform": [{"aggregate": [{"op": "min", "field": end, "as": end} for end in ("low", "high")]}],
        "mark": {"type": "rect", "opacity": 0.15},
        "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}, "x": {"value": 0}, "x2": {"value": "width"}},
    }
    steps = {
        "transform": [
            {"aggregate": [{"op": "min", "field": "order", "as": "first"}], "groupby": ["round"]},
            {"calculate": "datum.first - 0.5", "as": "border"},
            {"filter": "datum.first > 1"},
        ],
        "mark": {"type": "rule", "strokeDash": [2, 3], "opacity": 0.5},
        "encoding": {"x": {**x, "field": "border"}},
    }
    points = {
        "mark": {"type": "point", "filled": True, "size": 55},
        "encoding": {"x": x, "y": y, **_named("process", 6), "tooltip": {"field": "text"}},
    }
    spec = chart(layer=[band, steps, points])
    spec["config"]["legend"]["orient"] = "bottom"
    return spec


def anchors() -> Spec:
    """What no commit changes, over commits, over its median.

    Values: ``order``, ``value``, ``backend`` (the anchor's name), ``text``.
    """
    x, y = _in_order("commit, the newest last")
    common: dict[str, Any] = {
        "x": x,
        "y": y,
        "color": _style(("matmul", "copy"), COLOURS),
        "tooltip": {"field": "text"},
    }
    line = {"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": common}
    shape = {"shape": _style(("matmul", "copy"), SHAPES)}
    return chart(layer=[line, {"mark": {"type": "point", "filled": True, "size": 45}, "encoding": common | shape}])


def _in_order(title: str) -> tuple[Spec, Spec]:
    """The axes of what is shown in its order, over its median."""
    x = {
        "field": "order",
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False, "nice": False, "padding": 12},
        "axis": {"tickMinStep": 1},
    }
    y = {
        "field": "value",
        "type": "quantitative",
        "scale": {"zero": False, "padding": 8},
        "title": None,
        "axis": {"labelExpr": OVER_MEDIAN},
    }
    return x, y


def _named(noun: str, most: int) -> Spec:
    """Colour and shape of "noun 1", "noun 2", ..."""
    names = tuple(f"{noun} {at + 1}" for at in range(most))
    return {"color": _style(names, COLOURS), "shape": _style(names, SHAPES)}


def _style(names: tuple[str, ...], values: tuple[str, ...]) -> Spec:
    return {
        "field": "backend",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(names), "range": list(values[: len(names)])},
    }
