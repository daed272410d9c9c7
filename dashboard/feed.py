"""The alarms as an Atom feed (RFC 4287), so that a reader hears of a slower commit without opening the site."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd

from dashboard.alarms import Event, lines
from dashboard.links import event as link_to
from dashboard.listing import newest

UNKNOWN = "1970-01-01T00:00:00+00:00"
ATOM = "http://www.w3.org/2005/Atom"


def write(events: Sequence[Event], cells: pd.DataFrame, out: Path) -> Path:
    """``out/feed.xml``: an entry for every event that the site lists, newest first; ``cells`` are the history's."""
    known = cells[["commit", "commit_date"]].drop_duplicates("commit", keep="last")
    dates = dict(zip(known["commit"], known["commit_date"], strict=True))
    ElementTree.register_namespace("", ATOM)
    feed = ElementTree.Element(f"{{{ATOM}}}feed")
    updated = max((_iso(dates[event.commit]) for event in events), default=UNKNOWN)
    for tag, text in (("id", "urn:axialbench:alarms"), ("title", "AxialBench: what changed"), ("updated", updated)):
        _add(feed, tag, text)
    _add(_add(feed, "author", ""), "name", "AxialBench")
    for event in newest(events):
        entry = _add(feed, "entry", "")
        _add(entry, "id", f"urn:axialbench:{event.machine}:{event.env}:{event.commit}")
        _add(entry, "title", str(event))
        _add(entry, "updated", _iso(dates[event.commit]))
        _add(entry, "content", "\n".join(lines(event, verbose=True))).set("type", "text")
        _add(entry, "link", "").set("href", f"index.html{link_to(event.anchor_id)}")
    path = out / "feed.xml"
    ElementTree.ElementTree(feed).write(path, encoding="utf-8", xml_declaration=True)
    return path


def _iso(when: datetime) -> str:
    """RFC 3339; long ago where the commit's date is not known."""
    return when.isoformat(timespec="seconds") if when == when else UNKNOWN


def _add(parent: ElementTree.Element, tag: str, text: str) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, f"{{{ATOM}}}{tag}")
    child.text = "".join(c for c in text if c in "\t\n" or (ord(c) >= 32 and not 0xD800 <= ord(c) < 0xE000)) or None
    return child
