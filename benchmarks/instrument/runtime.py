"""What the C runtime of a measuring process is told, so that two processes of the same code take the same time.

Threads that wait for each other spin for microseconds and then sleep. Spinning on, as is the default, they hold the
cores that the others need as soon as anything else runs: calls then take a hundred times as long.

Memory up to 32 MiB is kept once it was freed. glibc would otherwise move its limit between "kept" and "given back to
the system" by what was freed before (mallopt(3), M_MMAP_THRESHOLD), and a call that gets its memory anew pays for every
page of it: of two processes of the same code one took up to twice as long as the other, all its life.
"""

from __future__ import annotations

from collections.abc import Mapping

SETTINGS = {
    "GOMP_SPINCOUNT": "3000",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),  # the most that glibc allows
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
}


def settings(environ: Mapping[str, str]) -> dict[str, str]:
    """SETTINGS, but what ``environ`` says otherwise."""
    return {name: environ.get(name, value) for name, value in SETTINGS.items()}
