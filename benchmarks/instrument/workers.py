"""Worker processes seen from the sweep: started, asked, given up on, and started anew."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from benchmarks.instrument import gpu

PROGRAM = Path(__file__).with_name("worker.py")
START = 120.0
"""Seconds a worker may take to start: it imports torch, on a machine that may be busy."""


class WorkerFailedError(RuntimeError):
    """An order came to nothing; ``status`` is the cell's, the message its reason."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class WorkerProcess:
    """One worker, started when it is first asked and again after it died.

    ``settings`` are the worker's own (device, threads, limit); ``environ`` is its environment, ``python`` its
    interpreter.
    """

    def __init__(self, settings: dict[str, Any], environ: dict[str, str], python: str = sys.executable) -> None:
        self.settings = settings
        self.environ = gpu.ORDER | environ
        self.python = python
        self.process: subprocess.Popen[bytes] | None = None
        self.complaints: IO[bytes] | None = None
        self.unread = b""
        self.ready = False

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return self.process.pid if self.process else None

    def start(self) -> None:
        """Start the program, unless it runs; do not wait until it is ready."""
        if self.process is None:
            self.complaints = tempfile.TemporaryFile()  # noqa: SIM115
            self.unread, self.ready = b"", False
            self.process = subprocess.Popen(
                [self.python, "-P", str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self.complaints, env=self.environ,
            )  # fmt: skip
            self._tell(self.settings)

    def ask(self, order: dict[str, Any], patience: float) -> dict[str, Any]:
        """The worker's answer to ``order``.

        Raises WorkerFailedError: with the status that the worker gave; with ``timeout`` if it was silent for
        ``patience`` seconds (it is ended); with ``oom`` or ``crashed`` if it died.
        """
        self.start()
        if not self.ready:
            self._line(START)
            self.ready = True
        self._tell(order)
        answer = json.loads(self._line(patience))
        if "failed" in answer:
            raise WorkerFailedError(answer["failed"], answer["reason"])
        return answer

    def stop(self) -> None:
        """End the process, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.complaints):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            self.process = None

    def _tell(self, order: dict[str, Any]) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it died: reading its answer says so
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def _line(self, patience: float) -> bytes:
        assert self.process is not None
        assert self.process.stdout is not None
        deadline = time.monotonic() + patience
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.stop()
                    raise WorkerFailedError("timeout", f"no answer within {patience:.0f} s")
                part = os.read(self.process.stdout.fileno(), 2**16)
                if not part:
                    raise self._death()
                self.unread += part
        line, _, self.unread = self.unread.partition(b"\n")
        return line

    def _death(self) -> WorkerFailedError:
        """Why the process ended without an answer."""
        assert self.process is not None
        assert self.complaints is not None
        code = self.process.wait()
        self.complaints.seek(0)
        said = self.complaints.read().decode(errors="replace").strip().splitlines()
        self.stop()
        if code == -signal.SIGKILL:
            return WorkerFailedError("oom", "the system ended the process, as it does when memory runs out")
        what = f"the process ended {how_it_ended(code)}"
        return WorkerFailedError("crashed", what + (f": {said[-1][:200]}" if said else ""))


def how_it_ended(code: int) -> str:
    """A process's exit status in words: ``"by SIGKILL (as the system does when memory runs out)"``."""
    if code >= 0:
        return f"with exit status {code}"
    memory = " (as the system does when memory runs out)" if code == -signal.SIGKILL else ""
    return f"by {signal.Signals(-code).name}{memory}"
