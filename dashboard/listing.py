"""What changed, as the site lists it: the newest events, each with its first cells, and links to look further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from dashboard import links
from dashboard.alarms import WORSE, Event, Finding
from dashboard.verdict import Row

EVENTS, CELLS_OF_AN_EVENT = 100, 20
"""The newest so many are listed, and of each so many cells; the feed names all cells."""


@dataclass(frozen=True)
class ListedCell:
    """One change of one cell; ``link`` leads to its history ("" if many cells changed together)."""

    cell: str
    what: str
    words: str
    link: str


@dataclass(frozen=True)
class Listed:
    """An event in words. ``sign`` is "Worse", "Suspect" or "Changed"; ``link`` leads to it, ``compare`` to its commit
    beside the one before ("" if none was measured); ``cells`` are the first of its ``n``, what got worse first.
    """

    event: Event
    sign: str
    link: str
    compare: str
    cells: tuple[ListedCell, ...]
    n: int


def listing(events: Sequence[Event], cells: pd.DataFrame) -> list[Listed]:
    """The newest of ``events`` (oldest commit first), newest first; ``cells`` are the history's."""
    return [_listed(event, cells) for event in newest(events)]


def newest(events: Sequence[Event]) -> list[Event]:
    """Those that are listed, newest first."""
    return list(reversed(events[-EVENTS:]))


def sign(event: Event) -> str:
    """In a word."""
    return "Worse" if event.of("confirmed") else "Suspect" if event.of("suspect") else "Changed"


def _compare(event: Event, cells: pd.DataFrame) -> str:
    """The address of the event's commit beside the one before; "" if none was measured or no single cell changed."""
    rows = [finding.row for finding in event.findings if finding.row is not None]
    return links.compare(_row(cells, rows[0]), event.commit, event.previous) if rows and event.previous else ""


def _listed(event: Event, cells: pd.DataFrame) -> Listed:
    first = sorted(event.findings, key=lambda finding: (finding.kind not in WORSE, finding.tier != "confirmed"))
    shown = tuple(_cell(finding, cells) for finding in first[:CELLS_OF_AN_EVENT])
    return Listed(event, sign(event), links.event(event.anchor_id), _compare(event, cells), shown, len(event.findings))


def _cell(finding: Finding, cells: pd.DataFrame) -> ListedCell:
    link = "" if finding.row is None else links.history(_row(cells, finding.row), finding.kind)
    suspect = " (suspect)" if finding.tier == "suspect" else ""
    return ListedCell(finding.cell, finding.kind + suspect, finding.words, link)


def _row(cells: pd.DataFrame, row: int) -> Row:
    return cells.loc[[row]].to_dict("records")[0]
