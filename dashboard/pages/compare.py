"""Two commits side by side: what that page needs beside their cells, in one data file, ``compare``.

``anchors``   for each view a list: for each of its commits, newest first, the least seconds of each anchor, or null
``recorded``  the comparisons in pairs (``dashboard/comparisons.py``)
``unread``    files of such that could not be read, in words
``chart``     the specification of the picture, without values
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dashboard import charts
from dashboard.alarms import anchors
from dashboard.pages import compare_charts
from dashboard.pages.record import Record
from dashboard.texts import seven_digits


def files(record: Record) -> dict[str, Any]:
    """The page's data file."""
    names = sorted(record.history.cells["backend"].unique())
    return {
        "compare": {
            "anchors": [list(_anchors(view, record)) for view in record.views],
            "recorded": record.history.comparisons,
            "unread": [str(one) for one in record.history.findings if one.path.parent.name == "comparisons"],
            "chart": charts.with_scales(compare_charts.ratios(compare_charts.HEAD_OVER_BASE), names),
        }
    }


def _anchors(view: dict[str, Any], record: Record) -> Iterator[dict[str, float | None] | None]:
    found = anchors(record.history.sweeps)
    for commit in view["commits"]:
        own = found.get(((view["machine"], view["env"]), commit["hash"]))
        yield {name: seven_digits(seconds) for name, seconds in own.items()} if own else None
