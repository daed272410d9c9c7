"""The history as the page reads it: columns of numbers, and each text and each place once.

    data    {"schema": 5, "built", "views": [view, ...], "places": columns, "strings": [...], "operations", ...}
    view    {"machine", "env", "threads", "device", "python", "torch", "commits": [commit, ...]}
    commit  {"hash", "date", "subject", "dirty", "cells": columns, "strings": [...], "verdicts": [verdict, ...]}

Views and commits stand newest first. The newest commit of all is in the page; the cells, strings and verdicts of every
other are in the data file that "file" names. A *place* is what a cell is in every commit: its series, parameters and
problem. Columns are lists by name, of equal length but for trailing nulls; texts in them are positions in the
``strings`` of data (of places) or of the commit (of cells). Numbers keep seven digits; null is "not known".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from dashboard import charts
from dashboard.alarms import Event
from dashboard.commit_cells import CommitCells, moment
from dashboard.history import VIEW, History
from dashboard.listing import Listed, listing
from dashboard.operations import AXIS_WORDS, OPERATIONS
from dashboard.pages import PAGES, Record, compare_charts
from dashboard.texts import Texts

SCHEMA = 5
BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True)
class SiteData:
    """What the page itself carries, and the content of each data file by its name; JSON-able, without NaN.

    ``changes`` are the events that the page lists, newest first.
    """

    page: dict[str, Any]
    files: dict[str, Any]
    changes: Sequence[Listed] = ()


def site_data(history: History, events: Sequence[Event] = (), results: Path | None = None) -> SiteData:
    """All that the site shows. ``results`` is the folder that ``history`` was read from, for what is no cell."""
    texts = Texts()
    write = CommitCells(texts)
    files: dict[str, Any] = {}
    listed = listing(events, history.cells)
    views = [
        _view(write, history, key, cells, at, files)
        for at, (key, cells) in enumerate(newest_first(history.cells, VIEW))
    ]
    record = Record(history, events, results, texts, views)
    for page in PAGES:
        files |= page(record)
    data = {
        "schema": SCHEMA,
        "built": datetime.now(UTC).isoformat(timespec="seconds"),
        "views": views,
        "operations": {name: asdict(operation) for name, operation in OPERATIONS.items()},
        "axes": AXIS_WORDS,
        "findings": [str(finding) for finding in history.findings],
        "charts": _charts(history.cells["backend"]),
        "places": texts.places,
        "strings": texts.strings,
    }
    return SiteData(data, files, listed)


def _charts(backends: pd.Series) -> dict[str, dict[str, Any]]:
    """Specifications by kind and unit, without values."""
    names = sorted(backends.unique())
    return {
        "scaling": {unit: charts.with_scales(charts.scaling(unit), names) for unit in charts.FORMATS},
        "ratios": {"×": charts.with_scales(compare_charts.ratios(compare_charts.OVER_EAGER), names)},
    }


def newest_first(cells: pd.DataFrame, by: list[str]) -> list[tuple[Any, pd.DataFrame]]:
    """The groups of ``cells``, the one measured last first."""
    groups = [(key, group) for key, group in cells.groupby(by, sort=False, dropna=False)]
    return sorted(groups, key=lambda pair: _latest(pair[1]), reverse=True)


def _latest(cells: pd.DataFrame) -> tuple[float, float]:
    return tuple(
        latest.timestamp() if pd.notna(latest := cells[column].max()) else -math.inf
        for column in ("commit_date", "time")
    )  # type: ignore[return-value]


def _view(
    write: CommitCells,
    history: History,
    key: tuple[Hashable, ...],
    cells: pd.DataFrame,
    at: int,
    files: dict[str, Any],
) -> dict[str, Any]:
    machine, env, threads = key
    sweeps = history.sweeps
    own = sweeps[(sweeps["machine"] == machine) & (sweeps["env"] == env)]
    last = {} if own.empty else own.iloc[-1].to_dict()
    commits = []
    for age, (_, group) in enumerate(newest_first(cells, ["commit", "dirty"])):
        commit = _about(group)
        if at == age == 0:
            commit |= write.columns(group)
        else:
            commit["file"] = f"commit-{at}-{age}"
            files[commit["file"]] = write.columns(group)
        commits.append(commit)
    return {
        "machine": machine,
        "env": env,
        "threads": None if pd.isna(threads) else int(threads),  # type: ignore[call-overload]
        **{name: str(last.get(name) or "") for name in ("device", "device_name", "python", "torch")},
        "commits": commits,
    }


def _about(cells: pd.DataFrame) -> dict[str, Any]:
    first = cells.iloc[0]
    return {
        "hash": first["commit"],
        "date": moment(first["commit_date"]),
        "subject": max(cells["subject"].unique(), key=len),
        "dirty": bool(first["dirty"]),
    }


def to_json(data: Any) -> str:
    """``data`` as ASCII JSON that may stand inside a script element: nothing in it can end the element."""
    try:
        text = BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], msgspec.json.encode(data).decode())
    except UnicodeError:  # half of a surrogate pair, which Python's own can write, at a tenth of the speed
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
