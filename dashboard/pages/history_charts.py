"""The chart of a cell over commits, as a Vega-Lite specification without data."""

from __future__ import annotations

from typing import Any

from dashboard.charts import Spec, backend_colour, backend_shape, chart, logarithmic


def over_commits(unit: str) -> Spec:
    """A quantity over commits, oldest first: every backend a line with its interval, changes and events marked.

    Values: ``commit`` (its hash) or ``date`` (ms) for the axis that the page sets, ``text``, and by ``kind``

    * ``measured``: ``backend``, ``value``, ``low``, ``high``, ``dot`` (whether the point itself is drawn)
    * ``change``: ``backend``, ``value``, ``tier`` ("confirmed" or "suspect"), ``up`` (whether it grew), ``label``
    * ``event``: ``label``, a letter
    """
    y = logarithmic("value", unit)
    of_backend = {"y": y, "color": backend_colour(), "tooltip": {"field": "text"}}
    band = {"type": "area", "opacity": 0.22, "line": False}
    return chart(
        encoding={"x": {}},
        layer=[
            _layer({"type": "rule", "strokeDash": [3, 3], "opacity": 0.6}, "event", {"tooltip": {"field": "text"}}),
            _layer(
                band,
                "measured",
                {**of_backend, "y": logarithmic("low", unit), "y2": {"field": "high"}},
                "isValid(datum.low)",
            ),
            _layer({"type": "line", "strokeWidth": 1.5}, "measured", of_backend),
            _layer(
                {"type": "point", "filled": True, "size": 45, "opacity": 1},
                "measured",
                {**of_backend, "shape": backend_shape()},
                "datum.dot",
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
                    "change",
                    of_backend,
                    f"{'' if up else '!'}datum.up && datum.tier === '{tier}'",
                )
                for up, shape in ((True, "triangle-up"), (False, "triangle-down"))
                for tier in ("confirmed", "suspect")
            ),
            _layer(
                {"type": "text", "dy": -14, "fontSize": 11},
                "change",
                {"y": y, "text": {"field": "label"}},
                "datum.label",
            ),
            _layer(
                {"type": "text", "fontWeight": "bold", "fontSize": 12},
                "event",
                {"y": {"value": -8}, "text": {"field": "label"}, "tooltip": {"field": "text"}},
            ),
        ],
    )


def _layer(mark: Spec, kind: str, encoding: dict[str, Any], also: str = "true") -> Spec:
    return {"mark": mark, "transform": [{"filter": f"datum.kind === '{kind}' && {also}"}], "encoding": encoding}
