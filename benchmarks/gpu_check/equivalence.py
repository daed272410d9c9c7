"""The proof, on this device: pytest over the equivalence suite and the faults that others reported of GPUs.

``recorder`` writes down every test as it ends. A test that takes the process or the device with it is named, and the
rest goes on in a new process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.gpu_check.parts import Task
from benchmarks.gpu_check.recorder import SETTINGS, done
from benchmarks.instrument import journal, origin
from benchmarks.instrument.workers import how_it_ended

TESTS = ("tests/test_public_reports_gpu.py", "tests/test_equivalence.py")
ENDED = (0, 1, 5)
"""pytest's exit statuses for a run that came to its end: all passed, some failed, none there."""
STOPPED = 2
"""pytest's exit status for a run that the recorder stopped, since its time was up."""


def main(task: Task) -> None:
    """Start pytest until nothing is left, or no time; or until it ends without having got further."""
    while task.left > 0:
        settings = {"path": str(task.path), "device": task.device, "until": time.time() + task.left}
        chosen, before = TESTS[:1] if task.tiny else TESTS, len(done(task.path))
        code = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "benchmarks.gpu_check.recorder", "-q", "-p", "no:cacheprovider",
             "--no-header", "--no-summary", "--tb=line", *chosen],
            cwd=origin.ROOT, env=os.environ | {SETTINGS: json.dumps(settings)},
        ).returncode  # fmt: skip
        for test, backend in begun(task.path).items():
            task.write(record="test", test=test, backend=backend, outcome="crashed", why=how_it_ended(code))
        if code in ENDED or (code == STOPPED and task.left <= 0):
            return
        if len(done(task.path)) == before:
            task.write(record="pytest failed", why=f"pytest ended {how_it_ended(code)}; {task.part}.log says more")
            return


def begun(path: Path) -> dict[str, str]:
    """The tests that began and never ended, by the records at ``path``, with their backends."""
    ended = done(path)
    began = (record for record in journal.read(path) if record["record"] == "begin")
    return {record["test"]: record["backend"] for record in began if record["test"] not in ended}
