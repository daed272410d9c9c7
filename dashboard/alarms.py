"""What happened to the measured cells from commit to commit: one event for each commit, with all that it touched.

Times are judged by ``detect.changes``, as ``confirmed`` or ``suspect``. Bytes are deterministic, and so are statuses
and the kernels that ran: any change of them is an event at once. So is an error that grows by half. How time and memory
grow with a size, their exponents, are series of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from dashboard import scaling
from dashboard.detect import changes, robust_deviation
from dashboard.history import VIEW, History
from dashboard.naming import number
from dashboard.rows import records

SERIES = [*VIEW, "module", "series", "params", "direction"]
READ = (
    "machine", "env", "commit", "operation", "level", "series", "size", "direction", "backend", "dtype", "status",
    "reason", "seconds", "bytes", "error", "kernels",
)  # fmt: skip
ERROR_GROWTH, TELLING_ERROR = 1.5, 0.5
"""An error tells of a loss when it grew by so much, and takes up so much of its budget."""
TELLING_BYTES = 0.001
"""Memory that changes by a smaller share is told of, but is neither better nor worse."""
LEADING = 3
"""Kernels that take most of the time; the order of the others is chance."""
UNMEASURED = ("not_run", "absent")
SHOWN = 5
BEND = 0.01
"""An exponent that changes by less is told of by its cells alone."""
WORSE = ("slower", "more memory", "less accurate", "failed")
Row = Mapping[Hashable, Any]
Place = tuple[str, str]
"""Machine and environment."""
Anchors = dict[tuple[Place, str], dict[str, float]]
"""Seconds by anchor, of a place and commit."""


@dataclass(frozen=True)
class Finding:
    """One change of one cell: its ``kind``, such as "slower", the cell, and by how much, both in words.

    ``row`` is the cell's row in the history's table: the first after the change, of a vanished cell the last; None if
    many cells changed together.
    """

    kind: str
    tier: str
    cell: str
    words: str
    row: int | None = None


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
    of_anchors, measured = anchors(history.sweeps), commits(history)
    found: dict[tuple[Place, str], list[Finding]] = {}
    for rows in _series(cells):
        for row, finding in (*_times(rows, of_anchors), *_exact(rows), *_comings_and_goings(rows, measured)):
            found.setdefault((place(row), row["commit"]), []).append(finding)
    for commit, where, finding in _scaling(cells):
        found.setdefault((where, commit), []).append(finding)
    subjects = dict(zip(cells["commit"], cells["subject"], strict=True))
    moved = _environment(measured, of_anchors)
    return [
        Event(*where, commit, previous, subjects[commit], tuple(found[at]), moved.get(at, ""))
        for where, names in measured.items()
        for previous, commit in zip(["", *names], names, strict=False)
        if (at := (where, commit)) in found
    ]


def _series(cells: pd.DataFrame) -> Iterator[Sequence[Row]]:
    """What was measured of each cell, in order of time."""
    group = cells.groupby(SERIES, sort=False, dropna=False).ngroup().to_numpy()
    order = np.argsort(group, kind="stable")
    in_order = cells[list(READ)].take(order)
    ends = np.flatnonzero(np.diff(group[order], append=-1)) + 1
    for begin, end in pairwise([0, *ends]):
        yield records(in_order.iloc[begin:end])


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
    """The cell in words: ``"msa_row module OverR R=256 float32 chunked training"``; a core's level goes unsaid."""
    words = [_operation(row), row["series"], row["size"], row["dtype"], row["backend"], row["direction"]]
    return " ".join(word for word in words if word)


def _operation(row: Mapping[Any, Any]) -> str:
    return f"{row['operation']} module" if row["level"] == "module" else str(row["operation"])


def _times(rows: Sequence[Row], anchors: Anchors) -> Iterator[tuple[Row, Finding]]:
    timed = [row for row in rows if row["status"] == "ok" and row["seconds"] > 0]
    seconds = np.array([row["seconds"] for row in timed])
    of_anchor = np.array([anchors.get((place(row), row["commit"]), {}).get("matmul", np.nan) for row in timed])
    for change in changes(list(calmer(seconds, of_anchor))):
        kind = "slower" if change.ratio > 1 else "faster"
        row = timed[change.index]
        yield row, Finding(kind, change.tier, name(row), f"{100 * (change.ratio - 1):+.1f} %", row["row"])


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
            yield after, Finding(kind, "confirmed", name(after), words, after["row"])


def _differences(before: Row, after: Row) -> Iterator[tuple[str, str]]:
    if before["status"] != after["status"]:
        kind = "failed" if before["status"] == "ok" else "works" if after["status"] == "ok" else "status"
        yield kind, f"{before['status']} became {after['status']}" + (f": {after['reason']}" if after["reason"] else "")
    if before["bytes"] > 0 and after["bytes"] > 0 and before["bytes"] != after["bytes"]:
        small = abs(after["bytes"] / before["bytes"] - 1) < TELLING_BYTES
        kind = "memory" if small else "more memory" if after["bytes"] > before["bytes"] else "less memory"
        yield kind, f"{before['bytes']:,.0f} became {after['bytes']:,.0f} bytes"
    if after["error"] > max(TELLING_ERROR, ERROR_GROWTH * before["error"]):
        yield "less accurate", f"error {before['error']:.3g} became {after['error']:.3g} of its budget"
    ran, runs = list(before["kernels"]), list(after["kernels"])
    gone = [kernel for kernel in ran[:LEADING] if kernel not in runs]
    new = [kernel for kernel in runs[:LEADING] if kernel not in ran]
    if ran and runs and (gone or new):
        yield "kernel", ", ".join([*(f"no longer {kernel}" for kernel in gone), *(f"now {kernel}" for kernel in new)])


def _scaling(cells: pd.DataFrame) -> Iterator[tuple[str, Place, Finding]]:
    """Exponents that changed: of bytes at once; of seconds where a change is found that both intervals leave room for.

    Another exponent is neither better nor worse: the cells themselves tell.
    """
    for what, found in scaling.over_commits(cells):
        slopes = found["exponent"].to_numpy()
        bent = _bent(found) if what["quantity"] == "seconds" else [
            (i, "confirmed", slopes[i - 1], slopes[i]) for i in range(1, len(slopes))
        ]  # fmt: skip
        cell = f"{_operation(what)} {what['series']} {what['dtype']} {what['backend']} {what['direction']}"
        for i, tier, old, new in bent:
            if abs(new - old) >= BEND:
                kind = "steeper" if new > old else "flatter"
                words = f"{what['quantity']} grew as {what['axis']}^{old:.2f}, now as {what['axis']}^{new:.2f}"
                yield found["commit"].iloc[i], (what["machine"], what["env"]), Finding(kind, tier, cell, words)


def _bent(found: pd.DataFrame) -> Iterator[tuple[int, str, float, float]]:
    """Where exponents change beyond their intervals, by the medians of both levels: row, tier, old and new."""
    slopes, low, high = (found[name].to_numpy() for name in ("exponent", "low", "high"))
    moved = changes(list(np.exp(slopes)))
    ends = [0, *(change.index for change in moved), len(slopes)]
    for change, begin, end in zip(moved, ends, ends[2:], strict=False):
        before, after = slice(begin, change.index), slice(change.index, end)
        least, most = ([np.median(x[side]) for side in (before, after)] for x in (low, high))
        if most[0] < least[1] or most[1] < least[0]:
            yield change.index, change.tier, float(np.median(slopes[before])), float(np.median(slopes[after]))


def _comings_and_goings(rows: Sequence[Row], commits: Mapping[Place, list[str]]) -> Iterator[tuple[Row, Finding]]:
    """A cell that appears after the first commit that was measured there, or is gone before the last."""
    first, last = rows[0], rows[-1]
    known = commits[place(first)]
    if first["commit"] != known[0]:
        yield first, Finding("new", "confirmed", name(first), "measured for the first time", first["row"])
    if last["commit"] != known[-1]:
        after = known[known.index(last["commit"]) + 1]
        words = "not in this commit's record"
        yield {**last, "commit": after}, Finding("gone", "confirmed", name(last), words, last["row"])


def anchors(sweeps: pd.DataFrame) -> Anchors:
    """The least seconds of each anchor in the sweeps of a commit; what is no time is passed over."""
    found: Anchors = {}
    for sweep in sweeps.to_dict("records"):
        if isinstance(sweep["anchors"], dict):
            least = found.setdefault((place(sweep), sweep["commit"]), {})
            for anchor, seconds in sweep["anchors"].items():
                if (number(seconds) or 0) > 0:
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
