"""The share-of-workloads curve (a performance profile, Dolan and More 2002) as a Vega-Lite specification."""

from __future__ import annotations

from dashboard.charts import FORMATS, Spec, backend_colour, backend_shape, chart

TIMES = [0.1, 0.2, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000]


def shares() -> Spec:
    """On what share of the problems a backend is at least so many times as good as eager, every backend a step line.

    Values: ``times``, ``share``, ``backend``, ``kind`` ("step" of the line, or "sign": where its shape is drawn),
    ``text``.
    """
    x = {
        "field": "times",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False},
        "axis": {"labelExpr": FORMATS["×"], "values": TIMES},
    }
    y = {
        "field": "share",
        "type": "quantitative",
        "scale": {"domain": [0, 1]},
        "title": None,
        "axis": {"labelExpr": FORMATS["share"], "values": [0, 0.25, 0.5, 0.75, 1]},
    }
    return chart(
        encoding={"x": x, "y": y, "color": backend_colour(), "tooltip": {"field": "text"}},
        layer=[
            {
                "mark": {"type": "line", "interpolate": "step-before", "strokeWidth": 1.8},
                "transform": [{"filter": "datum.kind === 'step'"}],
                "encoding": {"color": backend_colour()},
            },
            {
                "mark": {"type": "point", "size": 60, "filled": True},
                "transform": [{"filter": "datum.kind === 'sign'"}],
                "encoding": {"color": backend_colour(), "shape": backend_shape(), "opacity": {"value": 1}},
            },
        ],
    )
