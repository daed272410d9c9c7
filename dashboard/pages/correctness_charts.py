"""The chart of the page "correctness"."""

from __future__ import annotations

from dashboard.charts import FORMATS, Spec, backend_colour, backend_shape, scaling

LIMIT = 2
"""Times eager's drift; a stack above it is ``inaccurate`` (results/README.md)."""


def drift() -> Spec:
    """A stack's drift over its blocks, in units of eager's, and the line above which it is wrong.

    The drift's axis is nearly linear around 1, where right backends are, and logarithmic for those that are far off.
    Values: ``size``, ``value``, ``backend``, ``text``.
    """
    y = {
        "field": "value",
        "type": "quantitative",
        "scale": {"type": "symlog", "domainMin": 0, "padding": 8},
        "title": None,
        "axis": {"labelExpr": FORMATS["×"], "values": [0, 0.5, 1, 1.5, 2, 3, 5, 10, 100, 1000, 10000]},
    }
    common = {"y": y, "color": backend_colour(), "tooltip": {"field": "text"}}
    limit = {"data": {"values": [{"limit": LIMIT, "text": "above: wrong"}]}}
    at_limit = {"y": {**y, "field": "limit"}, "x": {"value": 0}}
    red = {"color": "#d55e00"}
    return {
        **scaling("×"),
        "layer": [
            {
                **limit,
                "mark": {"type": "rule", "strokeDash": [6, 3], **red},
                "encoding": {**at_limit, "x2": {"value": "width"}},
            },
            {
                **limit,
                "mark": {"type": "text", "align": "left", "dx": 6, "dy": -8, "fontSize": 12, **red},
                "encoding": {**at_limit, "text": {"field": "text"}},
            },
            {"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": common},
            {
                "mark": {"type": "point", "size": 55, "strokeWidth": 1.5},
                "encoding": {**common, "shape": backend_shape(), "fill": backend_colour()},
            },
        ],
    }
