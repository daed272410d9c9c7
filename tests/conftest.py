"""The run's summary lists what was not judged, backend by backend, with the reason and the number of cases."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

SECTIONS = {
    "declined": "What backends decline",
    "not_judged": "Not judged: plain eager attention is itself not finite",
    "not_tried": "Not tried",
}


@dataclass(frozen=True)
class Summary:
    """Notes that a test leaves for the summary of the run."""

    node: pytest.Item

    def note(self, section: str, backend: str, reason: str, count: int = 1) -> None:
        self.node.user_properties.append(("axialbench", (section, backend, reason, count)))

    def declined(self, backend: str, reason: str) -> None:
        self.note("declined", backend, reason)

    def not_judged(self, backend: str, reason: str) -> None:
        self.note("not_judged", backend, reason)

    def not_tried(self, backend: str, reason: str, count: int) -> None:
        self.note("not_tried", backend, reason, count)


@pytest.fixture
def summary(request: pytest.FixtureRequest) -> Summary:
    return Summary(request.node)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: Counter[tuple[str, str, str]] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for name, value in report.user_properties:
                if name == "axialbench":
                    section, backend, reason, count = value
                    counts[section, backend, reason] += count
    for section, title in SECTIONS.items():
        lines = [(backend, reason, n) for (which, backend, reason), n in counts.items() if which == section]
        if lines:
            terminalreporter.section(title)
            for backend, reason, n in sorted(lines):
                terminalreporter.line(f"{backend}: {reason} ({n} cases)")
