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


@dataclass(frozen=True)
class Finding:
    """One change of one cell: its ``kind``, such as "slower", the cell, and by how much, both in words."""

    kind: str
    tier: str
    cell: str
    words: str


@dataclass(frozen=True)
class Event:
    """All that changed with one commit on one machine; ``previous`` is the commit measured before it.

    ``environment`` says, in words, how the anchors moved at this commit; empty if they did not, or are not known.
    """

    machine: str
    commit: str
    previous: str
    subject: str
    findings: tuple[Finding, ...]
    environment: str = ""

    @property
    def anchor_id(self) -> str:
        """The event's place on the page."""
        return f"changed-{self.machine}-{self.commit[:8]}"

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
    found: dict[tuple[str, str], list[Finding]] = {}
    for _, series in cells.groupby(SERIES, sort=False, dropna=False):
        rows: Sequence[Row] = series.to_dict("records")
        for row, finding in (*_times(rows, anchors), *_exact(rows), *_comings_and_goings(rows, measured)):
            found.setdefault((row["machine"], row["commit"]), []).append(finding)
    subjects = dict(zip(cells["commit"], cells["subject"], strict=True))
    moved = _environment(measured, anchors)
    return [
        Event(machine, commit, previous, subjects[commit], tuple(found[at]), moved.get(at, ""))
        for machine, names in measured.items()
        for previous, commit in zip(["", *names], names, strict=False)
        if (at := (machine, commit)) in found
    ]


def commits(history: History) -> dict[str, list[str]]:
    """By machine, the commits that were measured there, oldest first."""
    cells = history.cells[~history.cells["dirty"]]
    return {str(machine): list(dict.fromkeys(of)) for machine, of in cells.groupby("machine", sort=False)["commit"]}


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


def _times(rows: Sequence[Row], anchors: Mapping[tuple[str, str], dict[str, float]]) -> Iterator[tuple[Row, Finding]]:
    timed = [row for row in rows if row["status"] == "ok" and row["seconds"] > 0]
    seconds = np.array([row["seconds"] for row in timed])
    of_anchor = np.array([anchors.get((row["machine"], row["commit"]), {}).get("matmul", np.nan) for row in timed])
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


def _comings_and_goings(rows: Sequence[Row], commits: Mapping[str, list[str]]) -> Iterator[tuple[Row, Finding]]:
    """A cell that appears after the machine's first commit, or is gone before its last."""
    first, last = rows[0], rows[-1]
    known = commits[first["machine"]]
    if first["commit"] != known[0]:
        yield first, Finding("new", "confirmed", name(first), "measured for the first time")
    if last["commit"] != known[-1]:
        after = known[known.index(last["commit"]) + 1]
        yield {**last, "commit": after}, Finding("gone", "confirmed", name(last), "not in this commit's record")


def _anchors(sweeps: pd.DataFrame) -> dict[tuple[str, str], dict[str, float]]:
    """By machine and commit, the least seconds of each anchor in its sweeps."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for sweep in sweeps.to_dict("records"):
        if isinstance(sweep["anchors"], dict):
            least = found.setdefault((sweep["machine"], sweep["commit"]), {})
            for anchor, seconds in sweep["anchors"].items():
                least[anchor] = min(seconds, least.get(anchor, seconds))
    return found


def _environment(
    commits: Mapping[str, list[str]], anchors: Mapping[tuple[str, str], dict[str, float]]
) -> dict[tuple[str, str], str]:
    """By machine and commit, where an anchor changed, and by how much."""
    said: dict[tuple[str, str], list[str]] = {}
    for machine, names in commits.items():
        for anchor in sorted({anchor for commit in names for anchor in anchors.get((machine, commit), {})}):
            values = [anchors.get((machine, commit), {}).get(anchor, np.nan) for commit in names]
            for change in changes(values):
                words = f"the anchor {anchor} takes {100 * (change.ratio - 1):+.1f} %"
                said.setdefault((machine, names[change.index]), []).append(words)
    return {key: ", ".join(words) for key, words in said.items()}
