"""The chart of a cell over commits, as a Vega-Lite specification without data."""

from __future__ import annotations

from typing import Any

from dashboard.charts import Spec, backend_colour, backend_shape, chart, logarithmic


def over_commits(unit: str) -> Spec:
    """A quantity over commits, oldest first: every backend a line with its interval, changes and events marked.

    Values by data set, each with ``commit`` (its hash) or ``date`` (ms) for the axis that the page sets, and ``text``:

    * ``measured``, and ``dots`` (those of which the point is drawn): ``backend``, ``value``, ``low``, ``high``
    * ``changes``: ``backend``, ``value``, ``tier`` ("confirmed" or "suspect"), ``up`` (whether it grew), ``label``
    * ``events``: ``label``, a letter
    """
    y = logarithmic("value", unit)
    of_backend = {"y": y, "color": backend_colour()}
    told = {**of_backend, "tooltip": {"field": "text"}}
    band = {"type": "area", "opacity": 0.22, "line": False}
    return chart(
        encoding={"x": {}},
        layer=[
            _layer({"type": "rule", "strokeDash": [3, 3], "opacity": 0.6}, "events", {"tooltip": {"field": "text"}}),
            _layer(
                band,
                "measured",
                {**of_backend, "y": logarithmic("low", unit), "y2": {"field": "high"}},
            ),
            _layer({"type": "line", "strokeWidth": 1.5}, "measured", of_backend),
            _layer(
                {"type": "point", "filled": True, "size": 45, "opacity": 1},
                "dots",
                {**told, "shape": backend_shape()},
            ),
            *(
                _layer(
                    {
                        "type": "point",
                        "shape": shape,
                        "size": 160,
                        "strokeWidth": 2,
                        "filled": tier == "confirmed",
                        "opacity": 1,
                    },
                    "changes",
                    told,
                    f"{'' if up else '!'}datum.up && datum.tier === '{tier}'",
                )
                for up, shape in ((True, "triangle-up"), (False, "triangle-down"))
                for tier in ("confirmed", "suspect")
            ),
            _layer(
                {"type": "text", "dy": -14, "fontSize": 11},
                "changes",
                {"y": y, "text": {"field": "label"}},
            ),
            _layer(
                {"type": "text", "fontWeight": "bold", "fontSize": 12},
                "events",
                {"y": {"value": -8}, "text": {"field": "label"}, "tooltip": {"field": "text"}},
            ),
        ],
    )


def _layer(mark: Spec, data: str, encoding: dict[str, Any], only: str = "") -> Spec:
    """A layer of one data set: filters over thousands of values are slow where expressions are interpreted."""
    transform = {"transform": [{"filter": only}]} if only else {}
    return {"data": {"name": data}, "mark": mark, "encoding": encoding} | transform
