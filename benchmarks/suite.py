"""What every module of the suite is made of: series of cells along one axis, and the sweep that measures them all."""

from __future__ import annotations

import importlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from inspect import isabstract
from typing import Any, ClassVar

from asv_runner.benchmarks.mark import SkipNotImplemented

from benchmarks import axes
from benchmarks.instrument.cells import Cell
from benchmarks.instrument.problems import Problem

FAILED = ("oom", "timeout", "crashed")
Readings = dict[str, dict[str, Any]]


class Series(ABC):
    """Cells along one axis through an operation's centre, for every dtype and backend.

    A subclass says ``operations`` (by the names that its parameter ``variant`` takes; one operation needs no such
    parameter), ``axis``, and ``version``, which is raised by hand when its old numbers stop being comparable.
    """

    operations: ClassVar[dict[str, str]]
    version: ClassVar[str]
    variant: ClassVar[str | None] = None
    level: ClassVar[str] = "core"
    mask: ClassVar[str] = "none"
    backends: ClassVar[tuple[str, ...]] = axes.BACKENDS

    @property
    @abstractmethod
    def axis(self) -> str | None:
        """The axis that is varied, one of ``axes.SIZES``, or None: the centre alone."""

    @property
    def values(self) -> dict[str, tuple[Any, ...]]:
        """The values of every parameter, by its name."""
        variants = {self.variant: tuple(self.operations)} if self.variant else {}
        sizes = {self.axis: axes.SIZES[self.axis]} if self.axis else {}
        return {**variants, **sizes, "dtype": axes.DTYPES, "backend": self.backends}

    @property
    def param_names(self) -> list[str]:
        """What asv calls the parameters."""
        return list(self.values)

    @property
    def params(self) -> list[tuple[Any, ...]]:
        """The values of every parameter, as asv wants them."""
        return list(self.values.values())

    def cells(self) -> Iterator[Cell]:
        """All cells of the series, in asv's order of parameters, each in both directions."""
        for values in itertools.product(*self.params):
            for direction in axes.DIRECTIONS:
                yield self.cell(values, direction)

    def cell(self, values: tuple[Any, ...], direction: str) -> Cell:
        """The cell at these values of the parameters."""
        params = dict(zip(self.param_names, values, strict=True))
        module = type(self).__module__.rpartition(".")[2]
        return Cell(module, type(self).__name__, params, self.problem(params), direction)

    def problem(self, params: dict[str, Any]) -> Problem:
        """The problem at ``params``: the operation's centre, but for the axis that is varied."""
        operation = self.operations[params[self.variant]] if self.variant else next(iter(self.operations.values()))
        varied = {self.axis: params[self.axis]} if self.axis else {}
        return Problem(operation, self.level, params["dtype"], mask=self.mask, **axes.CENTRE[operation] | varied)

    def _read(self, readings: Readings, values: tuple[Any, ...], direction: str) -> dict[str, Any]:
        """What the sweep found at ``values``. Raises SkipNotImplemented, with the reason, if it measured nothing."""
        reading = readings.get(self.cell(values, direction).place)
        if reading is None:
            raise SkipNotImplemented("not selected for this sweep")
        if reading["status"] in FAILED:
            raise RuntimeError(f"{reading['status']}: {reading['reason']}")
        if reading["status"] not in ("ok", "inaccurate"):
            raise SkipNotImplemented(f"{reading['status']}: {reading['reason']}")
        return reading


class Over(Series):
    """A series with the six quantities of every cell."""

    def seconds_forward(self, readings: Readings, *values: Any) -> dict[str, Any]:
        return _samples(self._read(readings, values, "forward"))

    def seconds_training(self, readings: Readings, *values: Any) -> dict[str, Any]:
        return _samples(self._read(readings, values, "training"))

    def bytes_forward(self, readings: Readings, *values: Any) -> int | None:
        return self._read(readings, values, "forward")["bytes"]

    def bytes_training(self, readings: Readings, *values: Any) -> int | None:
        return self._read(readings, values, "training")["bytes"]

    def error_forward(self, readings: Readings, *values: Any) -> float | None:
        return self._read(readings, values, "forward")["error"]

    def error_training(self, readings: Readings, *values: Any) -> float | None:
        return self._read(readings, values, "training")["error"]


class Compiling(Series):
    """How long the backends that build code take to do so, at the centre."""

    backends = axes.COMPILING

    def seconds_compile_forward(self, readings: Readings, *values: Any) -> float | None:
        return self._read(readings, values, "forward")["compile_seconds"]

    def seconds_compile_training(self, readings: Readings, *values: Any) -> float | None:
        return self._read(readings, values, "training")["compile_seconds"]


def _samples(reading: dict[str, Any]) -> dict[str, Any]:
    """The timed calls as asv takes them: each is one sample of one call. A wrong answer has no speed."""
    if reading["status"] == "inaccurate":
        raise SkipNotImplemented(f"inaccurate: {reading['reason']}")
    return {"samples": reading["samples"], "number": 1}


def series_of(module: str) -> list[Series]:
    """The series that a module of the suite, such as ``"msa_row"``, defines."""
    found = vars(importlib.import_module(f"benchmarks.{module}")).values()
    return [kind() for kind in found if isinstance(kind, type) and issubclass(kind, Series) and not isabstract(kind)]


def sweep(module: str) -> Readings:
    """Measure all cells of the suite's module called ``module`` (its ``__name__``): what its benchmarks then read."""
    from benchmarks.instrument import sweep

    name = module.rpartition(".")[2]
    return sweep.from_environment(name, [cell for series in series_of(name) for cell in series.cells()])
