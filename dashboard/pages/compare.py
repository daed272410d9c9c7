"""Two commits side by side: what that page needs beside their cells, in one data file, ``compare``.

``anchors``   for each view a list: for each of its commits, newest first, the least seconds of each anchor, or null
``recorded``  the comparisons of ``results/*/comparisons/``, newest first:
              {"file", "machine", "base", "head", "summary", "environment", "outcomes": [outcome, ...]}
``unread``    files there that could not be read, in words
``chart``     the specification of the picture, without values

A side is {"commit", "subject", "backend", "torch"}. An outcome has "cell" (as ``problem.key backend direction`` of the
journal), "name", "verdict", "changes", and "ratio", "low", "high", "detectable", "pairs", or null for each of these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dashboard import charts
from dashboard.alarms import anchors
from dashboard.naming import number
from dashboard.pages import compare_charts
from dashboard.pages.record import Record
from dashboard.texts import seven_digits

SCHEMA = 1
ESTIMATED = ("ratio", "low", "high", "detectable")


def files(record: Record) -> dict[str, Any]:
    """The page's data file."""
    recorded, unread = comparisons(record.results)
    names = sorted(record.history.cells["backend"].unique())
    return {
        "compare": {
            "anchors": [list(_anchors(view, record)) for view in record.views],
            "recorded": recorded,
            "unread": unread,
            "chart": charts.with_scales(compare_charts.ratios(), names),
        }
    }


def _anchors(view: dict[str, Any], record: Record) -> Iterator[dict[str, float | None] | None]:
    found = anchors(record.history.sweeps)
    for commit in view["commits"]:
        own = found.get(((view["machine"], view["env"]), commit["hash"]))
        yield {name: seven_digits(seconds) for name, seconds in own.items()} if own else None


def comparisons(results: Path | None) -> tuple[list[dict[str, Any]], list[str]]:
    """The recorded comparisons, those written last first, and what could not be read, in words."""
    found, unread = [], []
    paths = sorted(results.glob("*/comparisons/*.json"), key=_written, reverse=True) if results else []
    for path in paths:
        where = f"{path.parent.parent.name}/comparisons/{path.name}"
        try:
            found.append({"file": where, "machine": path.parent.parent.name} | _comparison(path))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            unread.append(f"{where}: no comparison of schema {SCHEMA} ({type(error).__name__}: {str(error)[:120]})")
    return found, unread


def _written(path: Path) -> float:
    return path.stat().st_mtime


def _comparison(path: Path) -> dict[str, Any]:
    said = json.loads(path.read_text(encoding="utf-8"))
    if said["schema"] != SCHEMA:
        raise ValueError(f"schema {said['schema']!r}")
    return {
        **{role: _side(said["sides"][role]) for role in ("base", "head")},
        "summary": str(said["summary"]),
        "environment": [str(words) for words in said["environment"]],
        "outcomes": [_outcome(outcome) for outcome in said["outcomes"]],
    }


def _side(side: dict[str, Any]) -> dict[str, str]:
    return {name: str(side.get(name) or "") for name in ("commit", "subject", "backend", "torch")}


def _outcome(outcome: dict[str, Any]) -> dict[str, Any]:
    estimate = outcome["estimate"] or {}
    numbers = {
        name: None if (value := number(estimate.get(name))) is None else seven_digits(value) for name in ESTIMATED
    }
    return {
        **{name: str(outcome[name]) for name in ("cell", "name", "verdict")},
        "changes": [str(words) for words in outcome["changes"]],
        **numbers,
        "pairs": len(outcome["launches"]),
    }
