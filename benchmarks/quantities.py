"""asv's benchmark types of this suite: a method's name says what it returns, and its unit.

================= =========== ==============================================================================
method            unit        value
================= =========== ==============================================================================
``seconds_*``     seconds     samples of one call each, or one number
``bytes_*``       bytes       peak bytes beyond the inputs
``error_depth_*`` x eager     drift from float64 over eager's own: above 2 is wrong
``error_*``       x budget    worst error over what is allowed: above 1 is wrong
================= =========== ==============================================================================

A benchmark reads what its module's sweep measured. It may do so once: reading the same sweep again would only count the
same samples twice.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, ClassVar

from asv_runner.benchmarks._base import Benchmark


class _Quantity(Benchmark):
    name_regex: ClassVar[re.Pattern[str]]
    unit_of_type: ClassVar[str]

    def __init__(self, name: str, func: Any, attr_sources: list[Any]) -> None:
        super().__init__(name, func, attr_sources)
        self.type = type(self).__name__.lower()
        self.unit = self.unit_of_type

    def run(self, *params: Any) -> Any:
        """The value of one cell. Raises RuntimeError at the second read of the same sweep."""
        read_once(f"{self.name}({', '.join(map(repr, self._current_params))})")
        return self.func(*params)


class Seconds(_Quantity):
    """Time, in seconds."""

    name_regex = re.compile(r"^seconds_.+$")
    unit_of_type = "seconds"


class Bytes(_Quantity):
    """Memory, in bytes."""

    name_regex = re.compile(r"^bytes_.+$")
    unit_of_type = "bytes"


class Error(_Quantity):
    """Error, in multiples of its budget."""

    name_regex = re.compile(r"^error_.+$")
    unit_of_type = "x budget"


class Drift(_Quantity):
    """Error after many blocks, in multiples of eager's."""

    name_regex = re.compile(r"^error_depth_.+$")
    unit_of_type = "x eager"


TYPES = (Seconds, Bytes, Drift, Error)


def read_once(name: str, folder: Path = Path("read")) -> None:
    """Leave a mark that ``name`` was read. Raises RuntimeError if it is there already.

    asv runs a benchmark in the folder of its sweep, so the mark lives exactly as long as the sweep does.
    """
    folder.mkdir(exist_ok=True)
    try:
        os.close(os.open(folder / re.sub(r"[^\w.=-]+", "_", name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        raise RuntimeError(
            f"{name} has been read from this sweep already; a second read would count the same samples twice. "
            "Give asv --interleave-rounds, which measures anew for every round, or leave out -a rounds"
        ) from None
