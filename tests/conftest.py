"""What tests share: notes for the summary of what was not judged, and a package with backends of its own."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

SECTIONS = {
    "declined": "What backends decline",
    "not_judged": "Not judged: plain eager attention is itself not finite",
    "not_tried": "Not tried",
}


FREE = ("test_equivalence", "test_golden", "test_conformance", "test_module_conformance", "test_public_reports_gpu")
"""Long files, of which no test sets up what another uses: their tests go to whichever process is free."""

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # as many processes as cores


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A process for each core, four at most; one alone on a GPU, whose memory the tests measure."""
    return 1 if torch.cuda.is_available() else min(4, len(os.sched_getaffinity(0)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All other files stay together, each in one process."""
    for item in items:
        if item.path.stem not in FREE:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@dataclass(frozen=True)
class Summary:
    """Notes that a test leaves for the summary of the run."""

    node: pytest.Item

    def note(self, section: str, backend: str, reason: str, count: int = 1) -> None:
        self.node.user_properties.append(("axialbench", (section, backend, reason, count)))


@pytest.fixture
def summary(request: pytest.FixtureRequest) -> Summary:
    return Summary(request.node)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """For tensors so small that a second thread only costs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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


PLUGIN = """
def attend(q, k, v, bias=None, mask=None):
    '''Values, unattended.

    More words.
    '''
    return v.mean(-2, keepdim=True).expand(q.shape)

from impls import Backend, Traits
backend = Backend("other_name", "a whole Backend", attend, limits=lambda p: ["only on Sundays"])
number = 3
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package installed the way pip leaves it, with entry points of which two are of no use."""
    (tmp_path / "sunday.py").write_text(PLUGIN)
    info = tmp_path / "sunday-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sunday\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[axialbench.backends]\n"
        "mean_of_v = sunday:attend\nsundays = sunday:backend\nbroken = no_such_module:attend\nnumber = sunday:number\n"
        "eager = sunday:attend\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("sunday", None)
