"""Which CPUs a measurement runs on: chosen before it, kept throughout, written down (where the system allows it)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def allowed() -> list[int] | None:
    """The CPUs that this process may use, in order; None where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """This process, and those it starts, on so many of its CPUs as there are ``threads``: the least busy ones."""
    before = allowed()
    if before is None or threads >= len(before):
        yield
        return
    os.sched_setaffinity(0, least_busy(before)[:threads])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def least_busy(cpus: list[int], watch: float = 0.2) -> list[int]:
    """``cpus`` by how idle they were over ``watch`` seconds."""
    before = idle_ticks()
    time.sleep(watch)
    after = idle_ticks()
    return sorted(cpus, key=lambda cpu: before.get(cpu, 0) - after.get(cpu, 0))


def idle_ticks() -> dict[int, int]:
    """Ticks that each CPU was idle."""
    found = {}
    with suppress(OSError):
        for line in Path("/proc/stat").read_text().splitlines():
            name, *numbers = line.split()
            if name.startswith("cpu") and name[3:].isdigit():
                found[int(name[3:])] = int(numbers[3]) + int(numbers[4])
    return found
