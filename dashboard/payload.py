"""The history as the page reads it: columns of numbers, and each text and each place once.

    data    {"schema": 3, "built", "views": [view, ...], "places": columns, "strings": [...], "operations", ...}
    view    {"machine", "env", "threads", "device", "python", "torch", "commits": [commit, ...]}
    commit  {"hash", "date", "subject", "dirty", "cells": columns, "strings": [...], "verdicts": [verdict, ...]}

Views and commits stand newest first. The newest commit of all is in the page; of the NEWEST others of a view, and those
on either side of an event that is listed, cells, strings and verdicts are in the data file that "file" names; the
others have none, only their history. A *place* is what a cell is in every commit: its series, parameters and problem.
Columns are lists by name, of equal length but for trailing nulls; texts in them are positions in the ``strings`` of
data (of places) or of the commit (of cells). Numbers keep seven digits; null is "not known".
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Hashable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from dashboard import charts
from dashboard.alarms import Event
from dashboard.history import VIEW, History
from dashboard.listing import Listed, listing, newest
from dashboard.operations import AXIS_WORDS, OPERATIONS
from dashboard.pages import PAGES, Record
from dashboard.rows import records
from dashboard.texts import PLACE_NUMBERS, PLACE_TEXT, Strings, Texts, seven_digits
from dashboard.verdict import Row, verdict

SCHEMA = 4
NEWEST = 100
TEXT = ("status", "reason", "effort", "standing")
NUMBERS = (
    "n", "rounds", "seconds", "seconds_low", "seconds_high", "seconds_q25", "seconds_q75", "speedup", "speedup_low",
    "speedup_high", "compile_seconds", "bytes", "predicted_bytes", "error",
)  # fmt: skip
READ = (
    *PLACE_TEXT, *PLACE_NUMBERS, *TEXT, *NUMBERS, "params", "point", "scores", "errors", "kernels", "state", "time",
    "disturbed", "disturbances",
)  # fmt: skip
GROUP = ("operation", "level", "dtype", "direction")  # what one verdict is about


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
    files: dict[str, Any] = {}
    listed = listing(events, history.cells)
    kept = {(event.machine, event.env, commit) for event in newest(events) for commit in (event.previous, event.commit)}
    views = [
        _view(texts, history, key, cells, at, files, kept)
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
    return {"scaling": {unit: charts.with_scales(charts.scaling(unit), names) for unit in charts.FORMATS}}


def newest_first(cells: pd.DataFrame, by: list[str]) -> list[tuple[Any, pd.DataFrame]]:
    """The groups of ``cells``, the one measured last first."""
    groups = [(key, group) for key, group in cells.groupby(by, sort=False, dropna=False)]
    return sorted(groups, key=lambda pair: _latest(pair[1]), reverse=True)


def _latest(cells: pd.DataFrame) -> tuple[float, float]:
    return tuple(
        moment.timestamp() if pd.notna(moment := cells[column].max()) else -math.inf
        for column in ("commit_date", "time")
    )  # type: ignore[return-value]


def _view(
    texts: Texts,
    history: History,
    key: tuple[Hashable, ...],
    cells: pd.DataFrame,
    at: int,
    files: dict[str, Any],
    kept: Container[tuple[Hashable, Hashable, str]],
) -> dict[str, Any]:
    machine, env, threads = key
    sweeps = history.sweeps
    own = sweeps[(sweeps["machine"] == machine) & (sweeps["env"] == env)]
    last = {} if own.empty else own.iloc[-1].to_dict()
    commits = []
    for age, (_, group) in enumerate(newest_first(cells, ["commit", "dirty"])):
        commit = _about(group)
        if at == age == 0:
            commit |= _commit(texts, group)
        elif age < NEWEST or (machine, env, commit["hash"]) in kept:
            commit["file"] = f"commit-{at}-{age}"
            files[commit["file"]] = _commit(texts, group)
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
        "date": _moment(first["commit_date"]),
        "subject": max(cells["subject"].unique(), key=len),
        "dirty": bool(first["dirty"]),
    }


def _commit(texts: Texts, cells: pd.DataFrame) -> dict[str, Any]:
    rows = sorted(records(cells, READ), key=lambda row: -row["n"])
    own = Strings()
    columns = {
        "place": [texts.place(row) for row in rows],
        **{name: [own.add(row[name]) for row in rows] for name in TEXT},
        **{name: _cut([seven_digits(row[name]) for row in rows]) for name in NUMBERS},
        "errors": _cut([_errors(row["errors"]) for row in rows]),
        "kernels": _cut([[own.add(kernel) for kernel in row["kernels"]] or None for row in rows]),
        "machine": [own.add(_state(row["state"])) for row in rows],
        "disturbed": [own.add(_disturbed(row)) for row in rows],
        "measured": [own.add(_moment(row["time"])) for row in rows],
    }
    return {
        "cells": columns,
        "strings": own.strings,
        "verdicts": [dict(zip(GROUP, about, strict=True)) | asdict(verdict(of)) for about, of in _groups(rows).items()],
    }


def _groups(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Rows by what one verdict is about."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    return groups


def _cut(values: list[Any]) -> list[Any]:
    """``values`` without the nulls at their end."""
    while values and values[-1] is None:
        values.pop()
    return values


def _moment(when: Any) -> str:
    return "" if pd.isna(when) else f"{when:%Y-%m-%d %H:%M} UTC"


def _errors(errors: dict[str, Any]) -> list[list[Any]] | None:
    """``[[tensor, error, budget], ...]``; an error that is not finite is null."""
    return [
        [name, *(value if _is_number(value := pair.get(part)) else None for part in ("error", "budget"))]
        for name, pair in errors.items()
        if isinstance(pair, dict)
    ] or None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


UNITS = {"load1": "load", "steal": "CPU time stolen", "mhz": "MHz", "sm_mhz": "SM MHz", "celsius": "°C", "watts": "W"}


def _state(state: dict[str, Any]) -> str:
    """The machine before and after, in words: ``"load 0.4, then 0.5; MHz 2500, then 2400"``."""
    before, after = (moment if isinstance(moment := state.get(when), dict) else {} for when in ("before", "after"))
    known = [name for name in before if before[name] is not None]
    return "; ".join(
        f"{UNITS.get(name, name)} {_short(before[name])}"
        + (f", then {_short(after[name])}" if after.get(name) not in (None, before[name]) else "")
        for name in known
    )


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def _disturbed(row: Row) -> str:
    return (", ".join(row["disturbances"]) or "something else was at work") if row["disturbed"] else ""


def to_json(data: Any) -> str:
    """``data`` as ASCII JSON that may stand inside a script element: nothing in it can end the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
