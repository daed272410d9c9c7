"""What a page's data is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dashboard.alarms import Event
from dashboard.history import History
from dashboard.texts import Texts


@dataclass(frozen=True)
class Record:
    """The history, its events (oldest commit first), the folder it was read from (None: none), and the page's texts.

    A data file may name texts and places by their position in ``texts``, and views and their commits by theirs in
    ``views`` (``dashboard/payload.py``), as the page's own data does.
    """

    history: History
    events: Sequence[Event]
    results: Path | None
    texts: Texts
    views: Sequence[dict[str, Any]] = ()
