"""What ``python -m impls check`` found: as text, as JSON, as a page."""

from __future__ import annotations

import html
import json
import math
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from impls.columns import aligned
from impls.conformance.judge import Check, Verdict
from impls.problem import OPERATIONS

HEADER = ["cases", "dtype", "mask", "direction", "verdict", "worst", "error", "budget", "ratio"]


@dataclass(frozen=True)
class Report:
    """All verdicts on one kernel, or module (``--module`` before its name); its distinct failures at their smallest."""

    target: str
    verdicts: tuple[Verdict, ...]
    smallest: tuple[Verdict, ...]

    @property
    def counts(self) -> Counter[str]:
        """How many cases passed, failed, were declined, were not judged."""
        return Counter(verdict.status for verdict in self.verdicts)

    @property
    def passed(self) -> bool:
        """Something that asks for computing was judged, and nothing failed."""
        computed = any(verdict.status == "passed" and not verdict.case.nothing for verdict in self.verdicts)
        return computed and not self.counts["failed"]

    @property
    def alike(self) -> int:
        """How many failures beside those shown."""
        return self.counts["failed"] - len(self.smallest)

    @property
    def headline(self) -> str:
        counted = ", ".join(f"{n} {words(status)}" for status, n in self.counts.items())
        run = "nothing but empty problems ran" if self.counts["passed"] else "nothing could be run"
        verdict = "right" if self.passed else "WRONG" if self.counts["failed"] else f"NOT JUDGED: {run}"
        return f"{self.target}: {verdict} ({counted or 'no cases'})"

    def again(self, verdict: Verdict) -> str:
        """The command that repeats one case."""
        return f"python -m impls check {self.target} --case {shlex.quote(str(verdict.case))}"

    def refusals(self) -> Counter[tuple[str, str]]:
        """How often each reason stood in the way of a verdict."""
        kinds = ("declined", "not_judged")
        return Counter((v.status, reason) for v in self.verdicts if v.status in kinds for reason in v.reasons)


def rows(report: Report) -> Iterator[list[str]]:
    """A line for each operation, dtype, mask and direction, and for each dtype of the other kinds of case."""
    together: dict[tuple[str, str, str, str], list[Verdict]] = {}
    for verdict in report.verdicts:
        case = verdict.case
        detail = (case.mask, case.direction) if case.kind in OPERATIONS else ("", "")
        together.setdefault((case.kind, case.dtype, *detail), []).append(verdict)
    for (kind, dtype, mask, direction), verdicts in together.items():
        statuses = Counter(verdict.status for verdict in verdicts)
        title = kind if len(verdicts) == 1 else f"{kind} ({len(verdicts)})"
        yield [title, dtype, mask, direction, overall(statuses), *worst(verdicts)]


def overall(statuses: Counter[str]) -> str:
    """In words what became of the cases of a row."""
    total, failed = sum(statuses.values()), statuses["failed"]
    if failed:
        return "FAILED" if total == 1 else f"FAILED {failed} of {total}"
    others = [f"{n} {words(status)}" for status, n in statuses.items() if status != "passed"]
    if statuses["passed"] and others:
        return ", ".join([f"passed {statuses['passed']} of {total}", *others])
    return " and ".join(words(status) for status in statuses)


def words(status: str) -> str:
    return status.replace("_", " ")


def worst(verdicts: list[Verdict]) -> list[str]:
    """Tensor, error, budget and ratio of the worst element in all of ``verdicts``; what failed if that is no number."""
    checks = [check for verdict in verdicts for check in verdict.checks]
    check: Check | None = max(checks, key=lambda check: check.ratio, default=None)
    failed = [verdict for verdict in verdicts if verdict.status == "failed"]
    if failed and (check is None or check.ratio <= 1):
        return [failed[0].reasons[0], "", "", ""]
    if check is None:
        return ["", "", "", ""]
    return [check.tensor, f"{check.error:.1e}", f"{check.budget:.1e}", f"{check.ratio:.2g}"]


def as_text(report: Report) -> str:
    """The table, then what was declined and why, then each failure at its smallest with the command to repeat it."""
    parts = [aligned([HEADER, *rows(report)], 40)]
    for (status, reason), n in report.refusals().items():
        parts.append(f"{words(status)} ({n} cases): {reason}")
    for verdict in report.smallest:
        told = "\n".join(f"    {reason}" for reason in verdict.reasons)
        parts.append(f"FAILED, at its smallest:\n{told}\n  repeat it with\n    {report.again(verdict)}")
    if report.smallest:
        parts.append("What does not repeat alone depends on the calls before it: run the whole check again.")
    if report.alike:
        parts.append(f"{report.alike} more like {'this' if len(report.smallest) == 1 else 'these'}")
    return "\n\n".join([*parts, report.headline])


def as_json(report: Report) -> str:
    """Everything, with numbers that are not finite as strings."""
    described = {
        "target": report.target,
        "passed": report.passed,
        "counts": dict(report.counts),
        "verdicts": [plain(verdict) for verdict in report.verdicts],
        "smallest": [plain(verdict) | {"command": report.again(verdict)} for verdict in report.smallest],
    }
    return json.dumps(finite(described), indent=1)


def plain(verdict: Verdict) -> dict[str, Any]:
    case = verdict.case
    return {
        "case": str(case),
        "kind": case.kind,
        "dtype": case.dtype,
        "mask": case.mask,
        "direction": case.direction,
        "status": verdict.status,
        "reasons": verdict.reasons,
        "checks": [asdict(check) for check in verdict.checks],
    }


def finite(x: Any) -> Any:
    """``x`` with infinities and NaN as strings, which JSON has no numbers for."""
    if isinstance(x, dict):
        return {key: finite(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [finite(value) for value in x]
    return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def as_html(report: Report) -> str:
    """One page that needs nothing else."""

    def line(cells: list[str], tag: str = "td") -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    failures = "".join(
        f"<li>{'<br>'.join(html.escape(reason) for reason in v.reasons)}<pre>{html.escape(report.again(v))}</pre></li>"
        for v in report.smallest
    )
    refusals = "".join(
        f"<li>{html.escape(f'{status}: {reason} ({n} cases)')}</li>"
        for (status, reason), n in report.refusals().items()
    )
    table = line(HEADER, "th") + "".join(line(row) for row in rows(report))
    return (
        "<!doctype html><meta charset=utf-8>"
        f"<title>{html.escape(report.headline)}</title>"
        "<style>body{font:15px sans-serif;margin:2em}td,th{padding:.2em 1em .2em 0;text-align:left}</style>"
        f"<h1>{html.escape(report.headline)}</h1><ul>{failures}</ul><ul>{refusals}</ul><table>{table}</table>"
    )
