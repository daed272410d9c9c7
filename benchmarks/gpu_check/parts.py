"""The parts of a check, and what each is told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.instrument import journal


@dataclass(frozen=True)
class Part:
    """A part of the check: the module of that name, in a process of its own.

    Attributes:
        share: of the time that is left, beside those of the parts after it.
        what: what it finds out.
    """

    name: str
    share: float
    what: str


PARTS = (
    Part("environment", 25, "driver, device, packages"),
    Part("abilities", 35, "what every backend takes here, and why not the rest"),
    Part("clocks", 70, "the instrument itself: clock, cache, memory, disturbances"),
    Part("speed", 170, "AlphaFold 2's real sizes in bfloat16 and float32"),
    Part("equivalence", 170, "every backend against the float64 specification, and the reported faults"),
)


@dataclass(frozen=True)
class Task:
    """What a part is told: where to write, on which device, for how long, and whether at tiny sizes."""

    folder: Path
    part: str
    device: str
    seconds: float
    tiny: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds left of those that the part was given."""
        return self.started + self.seconds - time.monotonic()

    @property
    def path(self) -> Path:
        """The part's records."""
        return self.folder / f"{self.part}.jsonl"

    def write(self, **record: Any) -> None:
        """Add a record, at once."""
        journal.append(self.path, record)
