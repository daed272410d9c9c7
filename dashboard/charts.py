"""Charts as Vega-Lite specifications without data: the page draws them in the browser, ``figures.py`` to SVG and PNG.

Every chart tells backends apart by colour (Okabe and Ito's, which colour-blind readers can tell apart) and by shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Spec = dict[str, Any]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
EAGER_COLOUR = "#7f7f7f"
ORDER = ("chunked", "sdpa", "flex", "compiled", "sdpa_math", "sdpa_flash", "flash_attn", "xformers", "eager")
TICKS = [float(f"{digit}e{power}") for power in range(-7, 16) for digit in (1, 2, 3, 5)]
FORMATS = {
    "s": "datum.value < 0.001 ? format(datum.value * 1e6, '~r') + ' µs' :"
    " datum.value < 1 ? format(datum.value * 1e3, '~r') + ' ms' : format(datum.value, '~r') + ' s'",
    "B": "datum.value < 1e3 ? format(datum.value, '~r') + ' B' : datum.value < 1e6 ? format(datum.value / 1e3, '~r')"
    " + ' kB' : datum.value < 1e9 ? format(datum.value / 1e6, '~r') + ' MB' : format(datum.value / 1e9, '~r') + ' GB'",
    "FLOP/s": "datum.value < 1e9 ? format(datum.value / 1e6, '~r') + ' MFLOP/s' : datum.value < 1e12 ?"
    " format(datum.value / 1e9, '~r') + ' GFLOP/s' : format(datum.value / 1e12, '~r') + ' TFLOP/s'",
    "share": "format(datum.value * 100, '~r') + ' %'",
    "×": "format(datum.value, '~r') + '×'",
}


def scaling(unit: str) -> Spec:
    """A quantity over a size, both logarithmic.

    Values: ``size``, ``value``, ``low``, ``high``, ``backend``, ``kind`` ("measured", "predicted", or "joint": where a
    predicted line begins), ``text``.
    """
    x = {"field": "size", "type": "quantitative", "scale": {"type": "log", "nice": False, "padding": 12}, "title": None}
    return chart(encoding={"x": x}, layer=_backend_lines(unit))


def _backend_lines(unit: str) -> list[Spec]:
    """A line, an interval and a point for every backend; what is predicted is dashed and hollow."""
    y = logarithmic("value", unit)
    measured, predicted = "datum.kind === 'measured'", "datum.kind === 'predicted'"
    common = {"y": y, "color": backend_colour(), "tooltip": {"field": "text"}}
    return [
        {
            "mark": {"type": "line", "strokeWidth": 1.5},
            "transform": [{"filter": measured}],
            "encoding": common,
        },
        {
            "mark": {"type": "line", "strokeWidth": 1, "strokeDash": [3, 3]},
            "transform": [{"filter": f"{predicted} || datum.kind === 'joint'"}],
            "encoding": common,
        },
        {
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.4},
            "transform": [{"filter": "isValid(datum.low)"}],
            "encoding": {**common, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "size": 55, "strokeWidth": 1.5},
            "transform": [{"filter": f"{measured} || {predicted}"}],
            "encoding": {
                **common,
                "shape": backend_shape(),
                "fillOpacity": {"condition": {"test": measured, "value": 1}, "value": 0},
                "fill": backend_colour(),
            },
        },
    ]


def speedups() -> Spec:
    """How many times as fast as eager, for each operation and direction, with intervals.

    Values: ``operation``, ``direction``, ``backend``, ``speedup``, ``low``, ``high``, ``text``.
    """
    x = {
        "field": "speedup",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 10},
        "title": "times as fast as eager",
        "axis": {"labelExpr": FORMATS["×"], "values": [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50]},
    }
    y = {
        "field": "operation",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"labelLimit": 400, "grid": True},
    }
    offset = {"field": "backend", "type": "nominal", "sort": list(ORDER), "scale": {"paddingInner": 0.1}}
    layered = {
        "width": 300,
        "height": {"step": 9},
        "encoding": {"x": x, "y": y, "yOffset": offset, "color": backend_colour(), "tooltip": {"field": "text"}},
        "layer": [
            {
                "mark": {"type": "rule", "color": EAGER_COLOUR, "strokeDash": [4, 3]},
                "data": {"values": [{"eager": 1}]},
                "encoding": {
                    "x": {**x, "field": "eager"},
                    **{channel: {"value": None} for channel in ("y", "yOffset", "color", "tooltip")},
                },
            },
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.4},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 55},
                "encoding": {"shape": backend_shape(), "opacity": {"value": 1}},
            },
        ],
    }
    facet = {"field": "direction", "type": "nominal", "title": None, "header": {"labelFontWeight": "bold"}}
    return {**chart(), "facet": {"column": facet}, "spec": layered}


def logarithmic(field: str, unit: str) -> Spec:
    """The encoding of a quantity on the upright axis."""
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 8},
        "title": None,
        "axis": {"labelExpr": FORMATS[unit], "values": TICKS},
    }


def backend_colour() -> Spec:
    """The encoding of a backend's colour; ``with_backends`` fills in its domain."""
    return {"field": "backend", "type": "nominal", "title": None, "scale": {"name": "colours"}}


def backend_shape() -> Spec:
    """The encoding of a backend's shape; ``with_backends`` fills in its domain."""
    return {"field": "backend", "type": "nominal", "title": None, "scale": {"name": "shapes"}}


def scales(backends: Iterable[str]) -> dict[str, Spec]:
    """Domains and ranges of the two scales: a backend keeps its colour and shape whatever else is shown."""
    known = [name for name in ORDER if name != "eager"]
    names = sorted(set(backends), key=lambda name: (known.index(name) if name in known else len(known), name))
    style = {name: (known + [n for n in names if n not in known]).index(name) for name in names if name != "eager"}
    colours = [EAGER_COLOUR if name == "eager" else COLOURS[style[name] % 6] for name in names]
    shapes = ["stroke" if name == "eager" else SHAPES[style[name] % 7] for name in names]
    return {"colours": {"domain": names, "range": colours}, "shapes": {"domain": names, "range": shapes}}


def with_data(spec: Spec, values: list[dict[str, Any]], **top: Any) -> Spec:
    """``spec`` with its values, and the scales' domains for the backends in them."""
    return {**with_scales(spec, (str(value["backend"]) for value in values)), **top, "data": {"values": values}}


def with_scales(spec: Spec, backends: Iterable[str]) -> Spec:
    """``spec`` with its scales' domains for ``backends``."""
    ours = scales(backends)

    def fill(part: Any) -> Any:
        if isinstance(part, dict):
            if set(part) == {"name"} and part["name"] in ours:
                return ours[part["name"]]
            return {name: fill(inner) for name, inner in part.items()}
        return [fill(inner) for inner in part] if isinstance(part, list) else part

    filled: Spec = fill(spec)
    return filled


def chart(**parts: Any) -> Spec:
    """A specification with our fonts, sizes and frame, and ``parts``."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "config": {
            "font": "system-ui, 'DejaVu Sans', sans-serif",
            "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "gridOpacity": 0.35},
            "legend": {"labelFontSize": 12, "symbolSize": 80, "symbolOpacity": 1},
            "title": {"fontSize": 13, "anchor": "start"},
            "header": {"labelFontSize": 13},
            "view": {"stroke": None},
        },
        **parts,
    }
