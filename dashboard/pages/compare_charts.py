"""Ratios by operation, of two commits or of backends to eager, as a Vega-Lite specification without data."""

from __future__ import annotations

from dashboard.charts import FORMATS, Spec, backend_colour, backend_shape, chart

HEAD_OVER_BASE = ("time at head over time at base", "(left of 1 is faster)")
OVER_EAGER = ("times as fast as eager", "(right of 1 is faster)")


def ratios(title: tuple[str, str]) -> Spec:
    """What ``title`` says, a point a cell with its interval, by operation.

    Values: ``operation``, ``backend``, ``ratio``, ``low``, ``high``, ``clear`` (whether the interval leaves 1 out),
    ``text``.
    """
    x = {
        "field": "ratio",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "title": list(title),
        "axis": {
            "labelExpr": FORMATS["×"],
            "values": [0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 5, 10, 20, 50, 100],
        },
    }
    y = {
        "field": "operation",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"labelLimit": 260, "grid": True},
    }
    offset = {"field": "offset", "type": "quantitative", "scale": {"domain": [0, 1]}}
    of_cell = {
        "x": x,
        "y": y,
        "yOffset": offset,
        "color": backend_colour(),
        "opacity": {"condition": {"test": "datum.clear", "value": 1}, "value": 0.2},
        "tooltip": {"field": "text"},
    }
    return chart(
        layer=[
            {
                "mark": {"type": "rule", "strokeDash": [4, 3]},
                "data": {"values": [{"one": 1}]},
                "encoding": {"x": {**x, "field": "one"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {**of_cell, "x": {**x, "field": "low"}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 50},
                "encoding": {**of_cell, "shape": backend_shape()},
            },
        ],
    )
