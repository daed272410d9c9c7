"""Each cell over commits: an index, and a data file for each view x operation x level x dtype x direction.

``history``     {"groups": [{"view", "operation", "level", "dtype", "direction", "file"}, ...],
                "versions", "environment": for each view [[commit, words], ...],
                "commit_url": what a commit's hash is put behind, or "", "charts": specifications by unit}
``history-N``   {"places": [place of each line], "seconds", "low", "high": for each line a number a commit,
                "bytes", "error", "status", "reason": for each line [[commit, value], ...], "reasons": texts,
                "marks": [[line, commit, kind, tier, words], ...]}

A line is one cell (a backend in a series, at a size), a commit its position in the view's commits, newest first. Lists
of pairs name the newest commit, and each one (going back) from which on another value holds; of ``environment`` the
commits at which an anchor moved. ``versions`` and ``words`` are texts, ``status`` a position in the page's texts and
``reason`` one in ``reasons``. Lists end where only nulls would follow. Marks are the changes of ``dashboard.alarms``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dashboard import charts
from dashboard.pages import history_charts
from dashboard.pages.record import Record
from dashboard.rows import records
from dashboard.texts import PLACE_NUMBERS, WRITTEN, Strings, Texts, seven_digits

GROUP = ["view", "operation", "level", "dtype", "direction"]
LINE = ["module", "series", "params"]
TIMES = {"seconds": "seconds", "low": "seconds_low", "high": "seconds_high"}
STEADY = ("bytes", "error", "status", "reason")
URL = re.compile(r'"show_commit_url"\s*:\s*"(https?://[^"\s]+)"')


def files(record: Record) -> dict[str, Any]:
    """The page's data files."""
    table = _table(record)
    group = table.groupby(GROUP, sort=False).ngroup().to_numpy()
    marks = _marks(record, table)
    found: dict[str, Any] = {}
    groups = []
    for at, own in enumerate(_parts(group)):
        file = f"history-{at}"
        found[file] = _lines(table.iloc[own], marks, record.texts)
        (first,) = records(table.iloc[own[:1]], GROUP)
        groups.append({name: first[name] for name in GROUP} | {"file": file})
    found["history"] = {
        "groups": groups,
        "versions": [_versions(view, record.history.sweeps) for view in record.views],
        "environment": [_environment(view, record) for view in record.views],
        "commit_url": _commit_url(record.results),
        "charts": _charts(record.history.cells["backend"]),
    }
    return found


def _table(record: Record) -> pd.DataFrame:
    """The history's cells, with ``view`` and ``at``: the positions of their view, and of their commit in it."""
    cells = record.history.cells
    place_of = {
        (view["machine"], view["env"], view["threads"], commit["hash"], commit["dirty"]): (v, at)
        for v, view in enumerate(record.views)
        for at, commit in enumerate(view["commits"])
    }
    threads = [None if np.isnan(count) else int(count) for count in cells["threads"]]
    keys = zip(
        *(cells[name].tolist() for name in ("machine", "env")), threads, cells["commit"], cells["dirty"], strict=True
    )
    places = np.array([place_of[key] for key in keys], dtype=int).reshape(-1, 2)
    read = [*dict.fromkeys((*WRITTEN, *PLACE_NUMBERS, *LINE, *TIMES.values(), *STEADY))]
    return cells[read].assign(view=places[:, 0], at=places[:, 1])


def _parts(codes: np.ndarray) -> Iterator[np.ndarray]:
    """The positions of each code, code by code."""
    order = np.argsort(codes, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(codes) else ()


def _lines(table: pd.DataFrame, marks: dict[int, list[list[Any]]], texts: Texts) -> dict[str, Any]:
    line = table.groupby(LINE, sort=False).ngroup().to_numpy()
    commits, at = int(table["at"].max()) + 1, table["at"].to_numpy()
    parts = list(_parts(line))
    newest = [own[np.argmin(at[own])] for own in parts]
    content: dict[str, Any] = {"places": [texts.place(row) for row in records(table.iloc[newest])]}
    for name, column in TIMES.items():
        numbers = table[column].to_numpy()
        content[name] = [_numbers(numbers[own], at[own], commits) for own in parts]
    reasons = Strings()
    for name in STEADY:
        known = reasons if name == "reason" else texts
        steady = np.array(
            [known.add(value) if isinstance(value, str) else seven_digits(value) for value in table[name].tolist()],
            dtype=object,
        )
        content[name] = [_runs(_placed(steady[own], at[own], commits)) for own in parts]
    content["reasons"] = reasons.strings
    marked = list(marks)
    content["marks"] = [
        [int(line[position]), *mark]
        for row, position in zip(marked, table.index.get_indexer(pd.Index(marked)), strict=True)
        if position >= 0
        for mark in marks[row]
    ]
    return content


def _placed(values: np.ndarray, at: np.ndarray, commits: int) -> list[Any]:
    """A value for each commit; None where there is none."""
    placed = np.full(commits, None, dtype=object)
    placed[at] = values
    return placed.tolist()


def _numbers(values: np.ndarray, at: np.ndarray, commits: int) -> list[float | None]:
    """A number for each commit, without the nulls at the end."""
    known = ~np.isnan(values)
    end = int(at[known].max()) + 1 if known.any() else 0
    return _placed(
        np.array([seven_digits(value) for value in values[known].tolist()], dtype=object), at[known], commits
    )[:end]


def _runs(values: Sequence[Any]) -> list[list[Any]]:
    """``[[position, value], ...]`` where another value begins."""
    return [[at, value] for at, value in enumerate(values) if value != (values[at - 1] if at else None)]


def _marks(record: Record, table: pd.DataFrame) -> dict[int, list[list[Any]]]:
    """By row of the history: commit, kind, tier and words of what changed there."""
    at = {
        (v, commit["hash"]): position
        for v, view in enumerate(record.views)
        for position, commit in enumerate(view["commits"])
        if not commit["dirty"]
    }
    views = table["view"].to_numpy()
    found: dict[int, list[list[Any]]] = {}
    for event in record.events:
        for finding in event.findings:
            if finding.row is not None and (position := at.get((views[finding.row], event.commit))) is not None:
                found.setdefault(finding.row, []).append([position, finding.kind, finding.tier, finding.words])
    return found


def _versions(view: dict[str, Any], sweeps: pd.DataFrame) -> list[list[Any]]:
    """With what each commit of the view was measured, in words."""
    own = sweeps[(sweeps["machine"] == view["machine"]) & (sweeps["env"] == view["env"])]
    said = {
        (sweep["commit"], sweep["dirty"]): f"torch {sweep['torch'] or '?'}, Python {sweep['python'] or '?'}"
        for sweep in records(own, ("commit", "dirty", "torch", "python"))
    }
    return _runs([said.get((commit["hash"], commit["dirty"])) for commit in view["commits"]])


def _environment(view: dict[str, Any], record: Record) -> list[list[Any]]:
    moved = {
        event.commit: event.environment
        for event in record.events
        if event.environment and (event.machine, event.env) == (view["machine"], view["env"])
    }
    commits = enumerate(view["commits"])
    return [[at, moved[commit["hash"]]] for at, commit in commits if commit["hash"] in moved and not commit["dirty"]]


def _commit_url(results: Path | None) -> str:
    """asv's ``show_commit_url``, from the configuration beside the results."""
    conf = results.parent / "asv.conf.json" if results else None
    match = URL.search(conf.read_text(encoding="utf-8", errors="replace")) if conf and conf.is_file() else None
    return match[1] if match else ""


def _charts(backends: pd.Series) -> dict[str, Any]:
    names = sorted(backends.unique())
    return {unit: charts.with_scales(history_charts.over_commits(unit), names) for unit in ("s", "B", "share")}
