"""Cold inputs: calls go round over copies of their inputs, of which the CPU's last-level cache holds less than half.

In a model the layer before has just written what attention reads: warm, and so the usual measurement. Cold is what a
call meets after other work went through the cache. On CUDA the clock flushes the cache, and there is no more to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.instrument.inputs import Inputs

if TYPE_CHECKING:
    from torch import Tensor

CPUS = Path("/sys/devices/system/cpu")
UNKNOWN = 64 * 2**20
"""Bytes of cache to reckon with where the system does not say."""
TIMES = 2
"""How many times the cache's size the copies have at least: the least recently used one is out of it then."""
SHARE = 4
"""The copies take this part of the memory that a cell may need, at most."""


def cache_bytes(cpus: Iterable[int] | None, folder: Path = CPUS) -> int:
    """Bytes of last-level cache that ``cpus`` (None: unknown) have in all; a cache that several share counts once."""
    found: dict[tuple[int, str], int] = {}
    for cpu in cpus or ():
        for cache in folder.glob(f"cpu{cpu}/cache/index*"):
            level, size, shared = ((cache / name).read_text().strip() for name in ("level", "size", "shared_cpu_list"))
            if kilobytes := re.fullmatch(r"(\d+)K", size):
                found[int(level), shared] = 1024 * int(kilobytes.group(1))
    last = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == last) or UNKNOWN


def copies(inputs: Inputs, cache: int, memory: int) -> list[Inputs]:
    """``inputs`` and as many copies as it takes to have more than TIMES ``cache`` bytes, laid out alike.

    All of them together take no more than a SHARE of ``memory`` bytes, even if they are too few then.
    """
    one = sum(x.numel() * x.element_size() for x in inputs.tensors())
    number = min(TIMES * cache // one + 2, memory // SHARE // one)
    return [inputs, *(copied(inputs) for _ in range(number - 1))]


def copied(inputs: Inputs) -> Inputs:
    """The same values elsewhere in memory, with the same strides."""

    def copy(x: Tensor) -> Tensor:
        return x.detach().clone().requires_grad_(x.requires_grad)

    return Inputs(
        {name: copy(x) for name, x in inputs.arguments.items()}, None if inputs.mask is None else copy(inputs.mask),
        copy(inputs.cotangent), {name: copy(x) for name, x in inputs.parameters.items()},
    )  # fmt: skip


def in_turn(calls: list[Callable[[], Any]]) -> Callable[[], Any]:
    """A call of one after the other of ``calls``, from the first again after the last."""
    following = cycle(calls)
    return lambda: next(following)()
