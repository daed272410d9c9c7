"""A pytest plugin: tests of one device, backends in turns, each written down as it begins and as it ends."""

from __future__ import annotations

import json
import os
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.instrument import journal, machine
from benchmarks.instrument.worker import LOST, lost

SETTINGS = "AXIALBENCH_GPU_CHECK"


class Recorder:
    """Chooses, orders and records; ends the run when its time is up, and the process when the device is lost."""

    def __init__(self, path: str, device: str, until: float) -> None:
        self.path, self.device, self.until = Path(path), device, until
        self.backends: dict[str, str] = {}

    def write(self, **record: Any) -> None:
        journal.append(self.path, record)

    def pytest_collection_modifyitems(self, session: Any, config: Any, items: list[Any]) -> None:
        self.session = session
        chosen = [item for item in items if device_of(item) == self.device]
        ended = done(self.path)
        left = in_turns([item for item in chosen if item.nodeid not in ended])
        self.backends = {item.nodeid: backend_of(item) for item in left}
        config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
        items[:] = left
        self.write(record="collected", tests=len(chosen))

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.write(record="begin", test=nodeid, backend=self.backends[nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        self.write(
            record="test", test=report.nodeid, backend=self.backends[report.nodeid], outcome=report.outcome,
            seconds=round(report.duration, 4), why=why(report),
        )  # fmt: skip
        if report.outcome == "failed" and lost(self.device):
            os._exit(LOST)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        if time.time() > self.until:
            self.session.shouldstop = "the time for this part is up"


def pytest_configure(config: Any) -> None:
    """pytest calls this when it loads the plugin."""
    machine.end_with_parent()
    config.pluginmanager.register(Recorder(**json.loads(os.environ[SETTINGS])))


def done(path: Path) -> set[str]:
    """The tests that have ended, in whatever way, by the records at ``path``."""
    return {record["test"] for record in journal.read(path) if record["record"] == "test"}


def device_of(item: Any) -> str | None:
    """The device that a test is for; None if it says none."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return given["case"].device if "case" in given and hasattr(given["case"], "device") else given.get("device")


def backend_of(item: Any) -> str:
    """The backend that a test is about, or ``none``: it tests a test."""
    return str(item.callspec.params.get("name", "none"))


def in_turns(items: list[Any]) -> list[Any]:
    """Backends take turns, each with its tests in a seeded random order, so that what is left out is no one's alone.

    Those that build code for seconds a test come last.
    """
    from impls import get, names

    by_backend: dict[str, list[Any]] = defaultdict(list)
    for item in random.Random(0).sample(items, len(items)):
        by_backend[backend_of(item)].append(item)
    turn = {item: number for tests in by_backend.values() for number, item in enumerate(tests)}
    slow = {name for name in by_backend if name in names() and get(name).traits.compiles}
    return sorted(items, key=lambda item: (backend_of(item) in slow, turn[item]))


def why(report: Any) -> str:
    """The reason of a skipped or failed test, in a line."""
    if report.outcome == "passed":
        return ""
    said = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
    crash = getattr(said, "reprcrash", None)
    return " ".join(str(crash.message if crash else said).split())[:300]
