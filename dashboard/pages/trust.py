"""How far the times can be trusted, for the page of that name.

    trust        {"schema": 1, "kept": commits with a file, at most, "views": [view, ...], "charts": by name}
    view         {"machine", "env", "threads", "files": [{"hash", "dirty", "file"}, ...], "anchors": [anchor, ...]}
    anchor       [hash, {name: seconds, the least of the commit's sweeps}], oldest commit first
    trust-V-C    {"schema": 1, "cells": columns, "layouts": [[rounds, processes], ...], "left_out", "sweeps": [...]}

There is a file for the newest KEPT commits of a view. Its columns have an entry for every cell with a time: "place";
the smallest change "by_rounds" and "by_history" (``trust_noise.py``); "state", the machine before and after;
"discarded", how many rounds were taken again; "samples", seconds in the order taken, with five digits; and "layout",
the position in "layouts" of the round and the process of each. Beyond MOST samples cells have none; "left_out" counts
those.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dashboard import alarms, charts
from dashboard.alarms import Anchors
from dashboard.history import VIEW
from dashboard.naming import number
from dashboard.pages.record import Record
from dashboard.pages.trust_charts import anchors, noise, samples
from dashboard.pages.trust_noise import by_history, by_rounds
from dashboard.rows import records
from dashboard.texts import Texts, seven_digits
from dashboard.verdict import Row

KEPT = 10
MOST = 60_000
SERIES = ["module", "series", "params", "direction"]
STATES = ("load1", "mhz", "sm_mhz", "celsius", "steal", "others")


def files(record: Record) -> dict[str, Any]:
    """The overview, and a file a commit."""
    found: dict[str, Any] = {}
    cells, sweeps = record.history.cells, record.history.sweeps
    of_anchors = alarms.anchors(sweeps)
    views = []
    for at, ((machine, env, threads), own) in enumerate(cells.groupby(VIEW, sort=False, dropna=False)):
        swept = sweeps[(sweeps["machine"] == machine) & (sweeps["env"] == env)]
        scatter = _scatter(own)
        kept = []
        for age, (commit, dirty) in enumerate(_commits(own)[:KEPT]):
            of_commit = own[(own["commit"] == commit) & (own["dirty"] == dirty)]
            described = swept[(swept["commit"] == commit) & (swept["dirty"] == dirty)]
            name = f"trust-{at}-{age}"
            found[name] = _commit(record.texts, of_commit, scatter) | {"sweeps": _sweeps(described)}
            kept.append({"hash": commit, "dirty": dirty, "file": name})
        about = {"machine": machine, "env": env, "threads": number(threads)}
        views.append(about | {"files": kept, "anchors": _anchors(own, of_anchors)})
    names = sorted(cells["backend"].unique())
    drawn = {"noise": charts.with_scales(noise(), names), "samples": samples(), "anchors": anchors()}
    return {"trust": {"schema": 1, "kept": KEPT, "views": views, "charts": drawn}, **found}


def _commits(own: pd.DataFrame) -> list[tuple[str, bool]]:
    """Commits of a view, the newest first."""
    commits = own[["commit", "dirty"]].drop_duplicates(keep="last").iloc[::-1]
    return [(str(commit), bool(dirty)) for commit, dirty in commits.itertuples(index=False)]


def _scatter(own: pd.DataFrame) -> dict[tuple[Any, ...], float]:
    """By the history of each series and parameters: the smallest change of a next commit."""
    right = own[(own["status"] == "ok") & ~own["dirty"] & (own["seconds"] > 0)]
    return {key: by_history(group["seconds"].tolist()) for key, group in right.groupby(SERIES, sort=False)}


def _commit(texts: Texts, cells: pd.DataFrame, scatter: dict[tuple[Any, ...], float]) -> dict[str, Any]:
    """The file of one commit, but for its sweeps."""
    rows = records(cells[cells["n"] > 0])
    layouts: dict[tuple[Any, Any], int] = {}
    taken, left_out = 0, 0
    columns: dict[str, list[Any]] = {
        name: [] for name in ("place", "by_rounds", "by_history", "state", "discarded", "samples", "layout")
    }
    for row in rows:
        taken += row["n"]
        keep = taken <= MOST
        left_out += not keep
        layout = (row["round_of"], row["process_of"])
        columns["place"].append(texts.place(row))
        columns["by_rounds"].append(seven_digits(by_rounds(row["samples"], row["round_of"])))
        columns["by_history"].append(seven_digits(scatter.get(tuple(row[name] for name in SERIES), math.nan)))
        columns["state"].append(_state(row))
        columns["discarded"].append(row["discarded"])
        columns["samples"].append([_five_digits(sample) for sample in row["samples"]] if keep else None)
        columns["layout"].append(layouts.setdefault(layout, len(layouts)))
    return {"schema": 1, "cells": columns, "layouts": list(layouts), "left_out": left_out}


def _state(row: Row) -> dict[str, list[float | None]]:
    """What is known of the machine: ``{"load1": [before, after], "steal": [None, after], ...}``."""
    moments = [row["state"].get(when) for when in ("before", "after")]
    known = {
        name: [number(moment.get(name)) if isinstance(moment, dict) else None for moment in moments] for name in STATES
    }
    return {name: pair for name, pair in known.items() if pair != [None, None]}


def _sweeps(swept: pd.DataFrame) -> list[dict[str, Any]]:
    """How long the sweeps of one commit took, and how long of that in timed calls; null if they did not end."""
    return [
        {
            "module": str(sweep["module"] or ""),
            "started": str(sweep["started"] or ""),
            **{name: number(sweep[name]) for name in ("wall_seconds", "timed_seconds", "discarded_rounds")},
        }
        for sweep in records(swept)
    ]


def _anchors(own: pd.DataFrame, of: Anchors) -> list[tuple[str, dict[str, float]]]:
    """The least seconds of every anchor of a commit, oldest commit first; commits without any are left out."""
    commits = own[["machine", "env", "commit"]].drop_duplicates().itertuples(index=False)
    known = [(commit, of.get(((machine, env), commit), {})) for machine, env, commit in commits]
    return [
        (commit, {name: _five_digits(value) for name, value in seconds.items()}) for commit, seconds in known if seconds
    ]


def _five_digits(seconds: float) -> float:
    return float(f"{seconds:.5g}")
