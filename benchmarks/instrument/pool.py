"""The sweep's workers, and how long each kind of order took them in all."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from benchmarks.instrument.workers import WorkerFailedError, WorkerProcess


class Pool:
    """So many workers with the same ``settings`` and ``environ``; ``orders`` are seconds by what was ordered."""

    def __init__(self, processes: int, settings: dict[str, Any], environ: dict[str, str]) -> None:
        self.workers = [WorkerProcess(settings, environ) for _ in range(processes)]
        self.orders: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self.workers)

    @property
    def pids(self) -> list[int]:
        """The processes that run."""
        return [worker.pid for worker in self.workers if worker.pid]

    def start(self) -> None:
        """Start all; do not wait until they are ready."""
        for worker in self.workers:
            worker.start()

    def stop(self) -> None:
        """End all that run."""
        for worker in self.workers:
            worker.stop()

    def ask(self, number: int, order: dict[str, Any], patience: float) -> dict[str, Any]:
        """What the worker of this ``number`` answers. Raises WorkerFailedError as the worker does."""
        begun = time.monotonic()
        try:
            return self.workers[number].ask(order, patience)
        finally:
            self.orders[order["do"]] = self.orders.get(order["do"], 0.0) + time.monotonic() - begun

    def tidy(self, number: int, do: str, patience: float) -> None:
        """Have a worker ``rest`` or ``forget``, if it runs. One that cannot is ended, which does as well."""
        if self.workers[number].pid:
            with suppress(WorkerFailedError):
                self.ask(number, {"do": do}, patience)
