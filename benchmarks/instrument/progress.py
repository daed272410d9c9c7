"""A line that says how far the sweep is. asv keeps what ``setup_cache`` prints to itself, so it goes round it."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.instrument.journal import write_atomically


class Progress:
    """Cells done, and the time left as the work done so far suggests, out of at most ``most`` seconds.

    Written to the file that AXIALBENCH_PROGRESS names, as JSON; without one, to the terminal if there is one. ``work``
    is any measure of the cells' costs, by their keys.
    """

    def __init__(self, module: str, work: dict[str, float], most: float) -> None:
        self.module, self.work, self.most = module, work, most
        self.cells, self.total = len(work), max(sum(work.values()), 1e-9)
        self.done, self.work_done = 0, 0.0
        self.started = time.monotonic()
        self.file = os.environ.get("AXIALBENCH_PROGRESS")
        self.show("starting")

    def step(self, key: str) -> None:
        """The cell called ``key`` is done."""
        self.done += 1
        self.work_done += self.work[key]
        self.show(key)

    def left(self) -> float | None:
        """Seconds left, or None while it is too early to say."""
        share, spent = self.work_done / self.total, time.monotonic() - self.started
        if share < 0.02:
            return None
        return max(0.0, min(spent * (1 - share) / share, self.most - spent))

    def show(self, doing: str) -> None:
        """Show it."""
        left = self.left()
        state = {"module": self.module, "done": self.done, "cells": self.cells, "left": left, "doing": doing}
        if self.file:
            write_atomically(Path(self.file), json.dumps(state))
            return
        wait = "" if left is None else f", about {left:.0f} s left"
        line = f"{self.module}: {self.done}/{self.cells} cells{wait}  {doing}"
        with suppress(OSError), open("/dev/tty", "w") as terminal:
            terminal.write(f"\r\x1b[K{line[:100]}" + ("\n" if self.done == self.cells else ""))
