"""The static site: one page of ours that needs nothing but itself, and asv's pages beside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dashboard.alarms import Event
from dashboard.operations import OPERATIONS, describe
from dashboard.payload import to_json
from dashboard.units import ratio

SITE = Path(__file__).parent / "site"
EVENTS, CELLS_OF_AN_EVENT = 100, 40
"""The newest so many are shown, and of each so many cells; the feed has all."""
LEVELS = ("core", "module", "stack")
DTYPES = ("float32", "bfloat16", "float16", "float64")
SCRIPTS = ("format.js", "data.js", "choices.js", "table.js", "details.js", "charts.js", "main.js")


def write_page(data: dict[str, Any], out: Path, asv_pages: bool, events: Sequence[Event] = ()) -> Path:
    """Write ``out/index.html`` from ``payload.page_data``; ``asv_pages`` says whether ``out/asv/`` exists."""
    out.mkdir(parents=True, exist_ok=True)
    page = out / "index.html"
    page.write_text(render(data, asv_pages, events), encoding="utf-8", errors="backslashreplace")
    return page


def render(data: dict[str, Any], asv_pages: bool, events: Sequence[Event] = ()) -> str:
    """The page's HTML for ``payload.page_data``, and what changed, oldest commit first."""
    script = "\n".join((SITE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    library = chart_library() if data["views"] else ""
    environment = Environment(
        loader=FileSystemLoader(SITE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("index.html.j2").render(
        asv_pages=asv_pages,
        built=data["built"],
        data=Markup(to_json(data)),
        empty=not data["views"],
        events=list(reversed(events))[:EVENTS],
        SHOWN=CELLS_OF_AN_EVENT,
        findings=data["findings"],
        in_short=in_short(data),
        script=Markup(script),
        library=Markup(library),
        script_hashes=[_hash(script), _hash(library)],
        style=Markup((SITE / "page.css").read_text(encoding="utf-8")),
    )


@cache
def chart_library() -> str:
    """Vega, Vega-Lite and vega-embed as one script, from vl-convert; "" where that is not installed."""
    try:
        import vl_convert
    except ImportError:
        return ""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return f"(() => {{\n{bundle}\n}})();".replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(script: str) -> str:
    """What a content security policy calls ``script``."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def in_short(data: dict[str, Any]) -> list[dict[str, str]]:
    """The newest commit's verdicts in words, for readers without JavaScript and for terminals."""
    if not data["views"]:
        return []
    order = list(OPERATIONS)
    verdicts = sorted(
        data["views"][0]["commits"][0]["verdicts"],
        key=lambda verdict: (
            LEVELS.index(verdict["level"]) if verdict["level"] in LEVELS else 0,
            order.index(verdict["operation"]) if verdict["operation"] in order else len(order),
            DTYPES.index(verdict["dtype"]) if verdict["dtype"] in DTYPES else len(DTYPES),
            verdict["direction"],
        ),
    )
    return [
        {
            "title": _title(verdict),
            "answer": _answer(verdict),
            "text": " ".join(verdict["sentences"]),
        }
        for verdict in verdicts
    ]


def _answer(verdict: dict[str, Any]) -> str:
    over_eager = "" if verdict["speedup"] is None else f": {ratio(verdict['speedup'])} eager at {verdict['at']}"
    return f"use {verdict['answer']}{over_eager}" if verdict["use"] else verdict["answer"]


def _title(verdict: dict[str, Any]) -> str:
    whole = ", whole module" if verdict["level"] == "module" else ""
    return f"{describe(verdict['operation']).title}{whole}, {verdict['dtype']}, {verdict['direction']}"
