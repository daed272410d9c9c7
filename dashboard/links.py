"""Addresses inside the site: the page's text after ``#``, as ``dashboard/site/choices.js`` reads it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any
from urllib.parse import urlencode

import pandas as pd

Row = Mapping[Hashable, Any]
SHOWN_AS = {"more memory": "memory", "less memory": "memory", "memory": "memory", "less accurate": "error"}


def compare(row: Row, commit: str, base: str) -> str:
    """Two commits side by side, where ``row`` was measured."""
    return _address(page="compare", place=_place(row), commit=commit[:8], base=base[:8])


def history(row: Row, kind: str = "") -> str:
    """The history of the cell of ``row``, in the quantity that a change of this ``kind`` (of ``Finding``) is about."""
    return _address(
        page="history",
        place=_place(row),
        direction=row["direction"],
        dtype=row["dtype"],
        operation=f"{row['operation']} {row['level']}",
        cell=f"{row['module']} {row['series']} {row['size']}",
        quantity=SHOWN_AS.get(kind, "time"),
        last="all",
    )


def event(anchor_id: str) -> str:
    """What changed with one commit (``Event.anchor_id``)."""
    return _address(page="changes", at=anchor_id)


def _place(row: Row) -> str:
    threads = row["threads"]
    return f"{row['machine']}/{row['env']}/{'?' if pd.isna(threads) else int(threads)}"


def _address(**choices: str) -> str:
    return "#" + urlencode({name: value for name, value in choices.items() if value}, errors="replace")
