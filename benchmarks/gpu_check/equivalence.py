"""The proof, on this device: pytest over the equivalence suite and the faults that others reported of GPUs.

``recorder`` writes down every test as it ends. A test that takes the process or the device with it is named, and the
rest goes on in a new process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.gpu_check.parts import Task
from benchmarks.instrument import journal, origin
from benchmarks.instrument.workers import how_it_ended

TESTS = ("tests/test_public_reports_gpu.py", "tests/test_equivalence.py")
SETTINGS = "AXIALBENCH_GPU_CHECK"
ENDED = (0, 1, 5)
"""pytest's exit statuses for a run that came to its end: all passed, some failed, none there."""


def main(task: Task) -> None:
    """Start pytest until nothing is left, or no time."""
    while task.left > 0:
        settings = {"path": str(task.path), "device": task.device, "seconds": task.left, "done": sorted(done(task))}
        chosen = TESTS[:1] if task.tiny else TESTS
        code = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "benchmarks.gpu_check.recorder", "-q", "-p", "no:cacheprovider",
             "--no-header", "--no-summary", "--tb=line", *chosen],
            cwd=origin.ROOT, env=os.environ | {SETTINGS: json.dumps(settings)},
        ).returncode  # fmt: skip
        for test, backend in begun(task).items():
            task.write(record="test", test=test, backend=backend, outcome="crashed", why=how_it_ended(code))
        if code in ENDED:
            return
        if code in (2, 3, 4):
            task.write(record="pytest failed", why=f"exit status {code}; {task.part}.log says more")
            return


def done(task: Task) -> set[str]:
    """The tests that have ended, in whatever way."""
    return {record["test"] for record in records(task) if record["record"] == "test"}


def begun(task: Task) -> dict[str, str]:
    """The tests that began and never ended, with their backends."""
    ended = done(task)
    began = (record for record in records(task) if record["record"] == "begin")
    return {record["test"]: record["backend"] for record in began if record["test"] not in ended}


def records(task: Task) -> Iterator[dict[str, Any]]:
    """What was written so far."""
    return journal.read(task.path)
