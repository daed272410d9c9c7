"""The static site: one page of ours that needs nothing but itself, and asv's pages beside it."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dashboard.listing import Listed
from dashboard.operations import OPERATIONS, describe
from dashboard.payload import SiteData, to_json
from dashboard.units import ratio

SITE = Path(__file__).parent / "site"
LATELY = 3
"""So many of the newest changes stand on the first page."""
LEVELS = ("core", "module", "stack")
DTYPES = ("float32", "bfloat16", "float16", "float64")
SCRIPTS = (
    "format.js", "data.js", "loading.js", "shared.js", "pages.js", "choices.js", "series_table.js", "data_table.js",
    "details.js", "charts.js", "pages/*.js", "main.js",
)  # fmt: skip


def write_site(data: SiteData, out: Path, asv_pages: bool) -> Path:
    """Write ``out/index.html`` and ``out/data/``; ``asv_pages`` says whether ``out/asv/`` exists."""
    shutil.rmtree(out / "data", ignore_errors=True)
    (out / "data").mkdir(parents=True)
    for name, content in data.files.items():
        text = f"receive({to_json(name)}, {to_json(content)});\n"
        (out / "data" / f"{name}.js").write_text(text, encoding="ascii")
    page = out / "index.html"
    page.write_text(render(data.page, asv_pages, data.changes), encoding="utf-8", errors="backslashreplace")
    return page


def render(data: dict[str, Any], asv_pages: bool, changes: Sequence[Listed] = ()) -> str:
    """The page's HTML for ``SiteData.page``, and what changed, newest first."""
    script = "\n".join(path.read_text(encoding="utf-8") for path in sources(*SCRIPTS))
    library = chart_library() if data["views"] else ""
    environment = Environment(
        loader=FileSystemLoader(SITE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("index.html.j2").render(
        asv_pages=asv_pages,
        built=data["built"],
        data=Markup(to_json(data)),
        empty=not data["views"],
        changes=changes,
        lately=changes[:LATELY],
        findings=data["findings"],
        in_short=in_short(data),
        script=Markup(script),
        library=Markup(library),
        script_hashes=[_hash(script), _hash(library)],
        style=Markup("\n".join(path.read_text(encoding="utf-8") for path in sources("page.css", "pages/*.css"))),
    )


def sources(*patterns: str) -> list[Path]:
    """The site's own files, in this order."""
    return [path for pattern in patterns for path in sorted(SITE.glob(pattern))]


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
