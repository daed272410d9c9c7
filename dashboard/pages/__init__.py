"""What the pages of the site need beside the cells of one commit: a module a page, each giving data files.

A page is ``dashboard/site/pages/<name>.js``; where it needs more than cells, ``dashboard/pages/<name>.py`` has
``files(record)``: JSON-able contents by file name, which the page loads by that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashboard.pages import compare, correctness, history, scaling, trust, where
from dashboard.pages.record import Record

PAGES: tuple[Callable[[Record], dict[str, Any]], ...] = (
    where.files,
    scaling.files,
    history.files,
    compare.files,
    correctness.files,
    trust.files,
)

__all__ = ["PAGES", "Record"]
