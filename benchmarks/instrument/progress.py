"""A line that says how far the sweep is. asv keeps what ``setup_cache`` prints to itself, so it goes round it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from benchmarks.instrument.journal import write_atomically


class Progress:
    """Cells done, and the time left as the work done so far suggests.

    Written to the file that AXIALBENCH_PROGRESS names, as JSON; without one, to the terminal if there is one.
    ``work`` is any measure of a cell's cost, summed over all cells.
    """

    def __init__(self, module: str, cells: int, work: float) -> None:
        self.module, self.cells, self.work = module, cells, max(work, 1e-9)
        self.done, self.work_done = 0, 0.0
        self.started = time.monotonic()
        self.file = os.environ.get("AXIALBENCH_PROGRESS")
        self.show("starting")

    def step(self, work: float, doing: str) -> None:
        """One more cell is done, which was ``work``."""
        self.done += 1
        self.work_done += work
        self.show(doing)

    def left(self) -> float | None:
        """Seconds left, or None while it is too early to say."""
        share = self.work_done / self.work
        return (time.monotonic() - self.started) * (1 - share) / share if share > 0.02 else None

    def show(self, doing: str) -> None:
        """Show it."""
        left = self.left()
        state = {"module": self.module, "done": self.done, "cells": self.cells, "left": left, "doing": doing}
        if self.file:
            write_atomically(Path(self.file), json.dumps(state))
            return
        wait = "" if left is None else f", about {left:.0f} s left"
        line = f"{self.module}: {self.done}/{self.cells} cells{wait}  {doing}"
        try:
            with open("/dev/tty", "w") as terminal:
                terminal.write(f"\r\x1b[K{line[:100]}" + ("\n" if self.done == self.cells else ""))
        except OSError:
            pass
