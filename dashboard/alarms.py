"""What happened to the measured cells from commit to commit: one event for each commit, with all that it touched.

Times are judged by ``detect.changes``, as ``confirmed`` or ``suspect``. Bytes are deterministic, and so are statuses
and the kernels that ran: any change of them is an event at once. So is an error that grows by half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from dashboard.detect import changes, robust_deviation
from dashboard.history import VIEW, History

SERIES = [*VIEW, "module", "series", "params", "direction"]
ERROR_GROWTH, TELLING_ERROR = 1.5, 0.5
"""An error tells of a loss when it grew by so much, and takes up so much of its budget."""
LEADING = 3
"""Kernels that take most of the time; the order of the others is chance."""
UNMEASURED = ("not_run", "absent")
SHOWN = 5
WORSE = ("slower", "more memory", "less accurate", "failed")
Row = Mapping[Hashable, Any]
Place = tuple[str, str]
"""Machine and environment."""
Anchors = dict[tuple[Place, str], dict[str, float]]
"""Seconds by anchor, of a place and commit."""


@dataclass(frozen=True)
class Finding:
    """One change of one cell: its ``kind``, such as "slower", the cell, and by how much, both in words."""

    kind: str
    tier: str
    cell: str
    words: str


@dataclass(frozen=True)
class Event:
    """All that changed with one commit on one machine in one environment; ``previous`` was measured there before it.

    ``environment`` says, in words, how the anchors moved at this commit; empty if they did not, or are not known.
    """

    machine: str
    env: str
    commit: str
    previous: str
    subject: str
    findings: tuple[Finding, ...]
    environment: str = ""

    @property
    def anchor_id(self) -> str:
        """The event's place on the page."""
        return f"changed-{self.machine}-{self.env}-{self.commit[:8]}"

    def of(self, tier: str) -> tuple[Finding, ...]:
        """The changes for the worse of that tier. Where the anchors moved too, a time says nothing of the code."""
        return tuple(
            x for x in self.findings
            if x.kind in WORSE and x.tier == tier and not (self.environment and x.kind == "slower")
        )  # fmt: skip

    @property
    def counts(self) -> str:
        """How many cells changed in which way; suspects with a question mark."""
        counts = Counter(x.kind if x.tier == "confirmed" else f"{x.kind}?" for x in self.findings)
        return ", ".join(f"{n} {kind}" for kind, n in counts.most_common())

    def __str__(self) -> str:
        moved = f"; the environment moved: {self.environment}" if self.environment else ""
        return f"{self.machine} {self.commit[:8]} ({self.subject}): {self.counts}{moved}"


def events(history: History) -> list[Event]:
    """The events of every machine, oldest commit first."""
    cells = history.cells[~history.cells["dirty"]]
    anchors, measured = _anchors(history.sweeps), commits(history)
    found: dict[tuple[Place, str], list[Finding]] = {}
    for _, series in cells.groupby(SERIES, sort=False, dropna=False):
        rows: Sequence[Row] = series.to_dict("records")
        for row, finding in (*_times(rows, anchors), *_exact(rows), *_comings_and_goings(rows, measured)):
            found.setdefault((place(row), row["commit"]), []).append(finding)
    subjects = dict(zip(cells["commit"], cells["subject"], strict=True))
    moved = _environment(measured, anchors)
    return [
        Event(*where, commit, previous, subjects[commit], tuple(found[at]), moved.get(at, ""))
        for where, names in measured.items()
        for previous, commit in zip(["", *names], names, strict=False)
        if (at := (where, commit)) in found
    ]


def commits(history: History) -> dict[Place, list[str]]:
    """By machine and environment, the commits that were measured there, oldest first."""
    cells = history.cells[~history.cells["dirty"]]
    groups = cells.groupby(["machine", "env"], sort=False)["commit"]
    return {(str(machine), str(env)): list(dict.fromkeys(of)) for (machine, env), of in groups}


def place(row: Row) -> Place:
    """Where a row was measured: what is measured elsewhere says nothing of it."""
    return row["machine"], row["env"]


def lines(event: Event, *, verbose: bool = False) -> Iterator[str]:
    """The event for a terminal: in short, each cell if ``verbose``, and the command that measures a suspect again."""
    yield str(event)
    shown = event.findings if verbose else event.of("confirmed")[:SHOWN]
    for finding in shown:
        yield f"    {finding.kind}{'' if finding.tier == 'confirmed' else '?'}: {finding.cell}: {finding.words}"
    if (left := len(event.of("confirmed")) - len(shown)) > 0:
        yield f"    and {left} more like these (--verbose names them)"
    if event.of("suspect") and event.previous:
        yield f"    to be sure: python -m benchmarks compare {event.previous[:8]} {event.commit[:8]}"


def name(row: Row) -> str:
    """The cell in words: ``"msa_row OverR R=256 float32 chunked training"``."""
    words = [row["module"], row["series"], row["size"], row["dtype"], row["backend"], row["direction"]]
    return " ".join(word for word in words if word)


def _times(rows: Sequence[Row], anchors: Anchors) -> Iterator[tuple[Row, Finding]]:
    timed = [row for row in rows if row["status"] == "ok" and row["seconds"] > 0]
    seconds = np.array([row["seconds"] for row in timed])
    of_anchor = np.array([anchors.get((place(row), row["commit"]), {}).get("matmul", np.nan) for row in timed])
    for change in changes(list(calmer(seconds, of_anchor))):
        kind = "slower" if change.ratio > 1 else "faster"
        row = timed[change.index]
        yield row, Finding(kind, change.tier, name(row), f"{100 * (change.ratio - 1):+.1f} %")


def calmer(seconds: np.ndarray, anchor: np.ndarray) -> np.ndarray:
    """``seconds`` over the anchor's of the same sweep, if that takes noise away and every one is known."""
    if len(seconds) < 3 or np.isnan(anchor).any():
        return seconds
    relative = seconds / anchor * float(np.median(anchor))
    noise = [robust_deviation(np.diff(np.log(x))) for x in (seconds, relative)]
    return relative if noise[1] < noise[0] else seconds


def _exact(rows: Sequence[Row]) -> Iterator[tuple[Row, Finding]]:
    """What needs no statistics, each against the last commit that measured it."""
    measured = [row for row in rows if row["status"] not in UNMEASURED]
    for before, after in pairwise(measured):
        for kind, words in _differences(before, after):
            yield after, Finding(kind, "confirmed", name(after), words)


def _differences(before: Row, after: Row) -> Iterator[tuple[str, str]]:
    if before["status"] != after["status"]:
        kind = "failed" if before["status"] == "ok" else "works" if after["status"] == "ok" else "status"
        yield kind, f"{before['status']} became {after['status']}" + (f": {after['reason']}" if after["reason"] else "")
    if before["bytes"] > 0 and after["bytes"] > 0 and before["bytes"] != after["bytes"]:
        kind = "more memory" if after["bytes"] > before["bytes"] else "less memory"
        yield kind, f"{before['bytes']:,.0f} became {after['bytes']:,.0f} bytes"
    if after["error"] > max(TELLING_ERROR, ERROR_GROWTH * before["error"]):
        yield "less accurate", f"error {before['error']:.3g} became {after['error']:.3g} of its budget"
    ran, runs = list(before["kernels"]), list(after["kernels"])
    gone = [kernel for kernel in ran[:LEADING] if kernel not in runs]
    new = [kernel for kernel in runs[:LEADING] if kernel not in ran]
    if ran and runs and (gone or new):
        yield "kernel", ", ".join([*(f"no longer {kernel}" for kernel in gone), *(f"now {kernel}" for kernel in new)])


def _comings_and_goings(rows: Sequence[Row], commits: Mapping[Place, list[str]]) -> Iterator[tuple[Row, Finding]]:
    """A cell that appears after the first commit that was measured there, or is gone before the last."""
    first, last = rows[0], rows[-1]
    known = commits[place(first)]
    if first["commit"] != known[0]:
        yield first, Finding("new", "confirmed", name(first), "measured for the first time")
    if last["commit"] != known[-1]:
        after = known[known.index(last["commit"]) + 1]
        yield {**last, "commit": after}, Finding("gone", "confirmed", name(last), "not in this commit's record")


def _anchors(sweeps: pd.DataFrame) -> Anchors:
    """The least seconds of each anchor in the sweeps of a commit."""
    found: Anchors = {}
    for sweep in sweeps.to_dict("records"):
        if isinstance(sweep["anchors"], dict):
            least = found.setdefault((place(sweep), sweep["commit"]), {})
            for anchor, seconds in sweep["anchors"].items():
                least[anchor] = min(seconds, least.get(anchor, seconds))
    return found


def _environment(commits: Mapping[Place, list[str]], anchors: Anchors) -> dict[tuple[Place, str], str]:
    """Where an anchor changed, and by how much."""
    said: dict[tuple[Place, str], list[str]] = {}
    for where, names in commits.items():
        for anchor in sorted({anchor for commit in names for anchor in anchors.get((where, commit), {})}):
            values = [anchors.get((where, commit), {}).get(anchor, np.nan) for commit in names]
            for change in changes(values):
                words = f"the anchor {anchor} takes {100 * (change.ratio - 1):+.1f} %"
                said.setdefault((where, names[change.index]), []).append(words)
    return {key: ", ".join(words) for key, words in said.items()}
