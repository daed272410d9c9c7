"""A browser; and a repository with three commits and asv's results of them, what ``asv publish`` needs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from site_browser import ARGUMENTS, CHROMIUM, Watched

COLUMNS = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip
PARAMS = [["256", "512"], ["'float32'"], ["'eager'", "'sdpa'", "'flash_attn'"]]
NAMES = ["R", "dtype", "backend"]
SECONDS = "msa_row.OverR.seconds_forward"
BYTES = "msa_row.OverR.bytes_forward"
ENV = "existing-py"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; whatever needs it is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is missing (apt install chromium)")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    """A page; the test fails if anything went wrong on it."""
    found = Watched(browser)
    yield found
    found.page.context.close()
    assert found.wrong == []


@dataclass(frozen=True)
class AsvProject:
    """Where the repository lies, and its commits, oldest first."""

    root: Path
    commits: tuple[str, ...]

    @property
    def results(self) -> Path:
        return self.root / "results"


@pytest.fixture(scope="session")
def asv_project(tmp_path_factory: pytest.TempPathFactory) -> AsvProject:
    root = tmp_path_factory.mktemp("asv")
    commits = []
    for day in (1, 2, 3):
        (root / "file").write_text(str(day))
        when = f"2026-01-0{day}T10:00:00+00:00"
        who = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_AUTHOR_DATE": when}
        who |= {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_COMMITTER_DATE": when}
        environ = {**os.environ, **who}
        for command in (["init", "-q", "-b", "main"], ["add", "file"], ["commit", "-q", "-m", f"<b>commit</b> {day}"]):
            subprocess.run(["git", *command], cwd=root, env=environ, check=True, capture_output=True)
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True)
        commits.append(head.stdout.strip())
    conf = {"version": 1, "project": "axialbench", "repo": ".", "branches": ["main"], "environment_type": "existing"}
    (root / "asv.conf.json").write_text(json.dumps(conf | {"results_dir": "results", "html_dir": ".asv/html"}))
    _write_results(root / "results", commits)
    return AsvProject(root, tuple(commits))


def _write_results(results: Path, commits: list[str]) -> None:
    machine = results / "reference"
    machine.mkdir(parents=True)
    described = {"arch": "x86_64", "cpu": "a CPU", "machine": "reference", "num_cpu": "2", "os": "Linux", "ram": "24GB"}
    (machine / "machine.json").write_text(json.dumps(described | {"version": 1}))
    common = {"code": "", "param_names": NAMES, "params": PARAMS, "version": "1", "timeout": 60.0}
    benchmarks = {
        SECONDS: common | {"name": SECONDS, "type": "seconds", "unit": "seconds"},
        BYTES: common | {"name": BYTES, "type": "bytes", "unit": "bytes"},
    }
    (results / "benchmarks.json").write_text(json.dumps(benchmarks | {"version": 2}))
    for at, commit in enumerate(commits):
        times = [0.3, 0.1 + 0.01 * at, float("nan"), None, 0.2, float("nan")]
        spread = [[value and value * factor for value in times] for factor in (0.9, 1.1, 0.95, 1.05)]
        samples = [[value] * 8 if value and value == value else None for value in times]
        numbers = [None if value is None else 1 for value in times]
        row = [times, PARAMS, "1", 0, 1.0, *spread, numbers, numbers, samples]
        stored = {
            "commit_hash": commit, "env_name": ENV, "date": 1767261600000 + at * 86400000,
            "params": described | {"python": "3.11"}, "python": "3.11", "requirements": {}, "env_vars": {},
            "result_columns": COLUMNS, "durations": {}, "version": 2,
            "results": {SECONDS: row, BYTES: [[600, 60, float("nan"), None, 120], PARAMS, "1"]},
        }  # fmt: skip
        (machine / f"{commit[:8]}-{ENV}.json").write_text(json.dumps(stored))
