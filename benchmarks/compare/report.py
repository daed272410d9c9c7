"""A comparison for people: a table on the terminal, Markdown for a pull request; and for machines: JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.compare.outcome import Outcome
from benchmarks.compare.paired import Launch, low_quantile
from benchmarks.compare.revisions import Side

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = 1
HEADER = ("cell", "base", "head", "head / base", "interval", "could see", "verdict")


@dataclass(frozen=True)
class Comparison:
    """All that a comparison found."""

    sides: dict[str, Side]
    outcomes: tuple[Outcome, ...]
    margin: float
    threads: int
    software: dict[str, dict[str, Any]]
    states: tuple[dict[str, Any], ...] = ()

    @property
    def cells(self) -> list[Outcome]:
        """The outcomes that are no anchors."""
        return [outcome for outcome in self.outcomes if not outcome.key.startswith("anchor")]

    @property
    def worse(self) -> list[Outcome]:
        """The cells for which it fails."""
        return [outcome for outcome in self.cells if outcome.worse]

    @property
    def environment(self) -> list[str]:
        """What speaks for the environment and against the code, in words: anchors that moved."""
        return [
            f"{outcome.name} is {percent(outcome.estimate.ratio)} on head's side: the environment moved, not only code"
            for outcome in self.outcomes
            if outcome.key.startswith("anchor") and outcome.estimate and outcome.verdict in ("faster", "slower")
        ]

    @property
    def disturbed(self) -> int:
        """How many pairs other work disturbed."""
        return sum(bool(state["disturbances"]) for state in self.states)

    @property
    def summary(self) -> str:
        """One line."""
        counts = {
            verdict: sum(outcome.verdict == verdict and outcome.timed for outcome in self.cells)
            for verdict in ("slower", "faster", "same", "unclear")
        }
        said = [f"{n} {verdict}" for verdict, n in counts.items() if n]
        if untimed := sum(not outcome.timed for outcome in self.cells):
            said.append(f"{untimed} not compared")
        pairs = max((len(outcome.launches) for outcome in self.outcomes), default=0)
        disturbed = f", {self.disturbed} of them disturbed by other work" if self.disturbed else ""
        return f"{', '.join(said) or 'nothing to compare'}; {pairs} pairs of processes{disturbed}"

    def as_dict(self) -> dict[str, Any]:
        """The record (schema: ``results/README.md``)."""
        return {
            "schema": SCHEMA, "record": "comparison",
            "sides": {role: side.as_dict() | self.software.get(role, {}) for role, side in self.sides.items()},
            "margin": self.margin, "threads": self.threads, "summary": self.summary, "environment": self.environment,
            "states": list(self.states), "outcomes": [outcome.as_dict() for outcome in self.outcomes],
        }  # fmt: skip


def rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """The table's rows, what fails first."""
    order = {"slower": 0, "unclear": 1, "faster": 2, "same": 3}
    for outcome in sorted(comparison.outcomes, key=lambda x: (not x.worse, order[x.verdict], x.key)):
        if found := outcome.estimate:
            yield (
                outcome.name, *(milliseconds(outcome.launches, role) for role in ("base", "head")),
                f"{found.ratio:.3f}",
                f"{found.low:.3f} to {found.high:.3f}", could_see(found.detectable), outcome.verdict,
            )  # fmt: skip


def notes(comparison: Comparison) -> Iterator[str]:
    """What needs no statistics, and why a cell was not compared."""
    yield from comparison.environment
    for outcome in comparison.cells:
        if outcome.changes:
            yield f"{outcome.name}: {'; '.join(outcome.changes)}"
        elif not outcome.timed:
            reasons = dict.fromkeys(proof.reason or proof.status or "not reached" for proof in outcome.proofs.values())
            yield f"{outcome.name} is not compared: {'; '.join(reasons)}"


def milliseconds(launches: Sequence[Launch], role: str) -> str:
    """The median launch's 25th percentile."""
    seconds = statistics.median(low_quantile(getattr(launch, role)) for launch in launches)
    return f"{1000 * math.exp(seconds):.3g} ms"


def could_see(detectable: float) -> str:
    """The smallest slowdown that would have been found: ``"4.2%"``; beyond a doubling ``"nothing below 3.1x"``."""
    return f"{detectable:.1%}" if detectable <= 1 else f"nothing below {1 + detectable:.2g}x"


def percent(ratio: float) -> str:
    """``"5.0 % slower"``."""
    return f"{abs(ratio - 1):.1%} {'slower' if ratio > 1 else 'faster'}".replace("%", " %")


def title(comparison: Comparison) -> str:
    """What is compared; of one commit, its environments or backends."""
    base, head = comparison.sides["base"], comparison.sides["head"]
    if base.commit != head.commit:
        return f"{head.name} ({head.subject}) against {base.name} ({base.subject})"
    if base.backend:
        return f"{head.backend} against {base.backend}, both of {base.commit[:12]} ({base.subject})"
    torch = {role: f"torch {said['torch']}" for role, said in comparison.software.items()}
    return f"{base.name} ({base.subject}): {torch.get('head', 'head')} against {torch.get('base', 'base')}"


def table(comparison: Comparison) -> Table:
    """For the terminal."""
    from rich.table import Table
    from rich.text import Text

    styles = {"slower": "bold red", "faster": "green", "unclear": "yellow"}
    shown = Table(title=Text(title(comparison)), caption=Text(comparison.summary), caption_justify="left")
    for name in HEADER:
        shown.add_column(name, justify="left" if name in ("cell", "verdict") else "right", no_wrap=name != "cell")
    for row in rows(comparison):
        shown.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    return shown


def markdown(comparison: Comparison) -> str:
    """For a pull request."""
    lines = [
        f"### {escaped(title(comparison))}", "", f"**{comparison.summary}**", "",
        "| " + " | ".join(HEADER) + " |", "| --- |" + " ---: |" * 5 + " --- |",
        *("| " + " | ".join(map(escaped, row)) + " |" for row in rows(comparison)), "",
        *(f"- {escaped(said)}" for said in notes(comparison)), "",
        'Interval: what a run like this misses in 2 % of cases, all looks together. "Could see": the smallest slowdown',
        "that it would have found nine times in ten.",
        f"Differences below {comparison.margin:.0%} count as same.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text inside a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
