"""Texts and places of the page's data, each kept once and known by its position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard.commands import selection
from dashboard.naming import AXES
from dashboard.verdict import Row

PLACE_TEXT = ("module", "series", "size", "direction", "backend", "dtype", "operation", "level", "mask")
PLACE_NUMBERS = (*AXES, "flops")
POWERS = np.array([float(f"1e{power}") for power in range(309)])
WRITTEN = (*PLACE_TEXT, "point", "params", "flops")  # rows that are the same in these have the same place


class Strings:
    """Texts, each kept once and known by its position."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {}

    @property
    def strings(self) -> list[str]:
        return list(self._strings)

    def add(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))


class Texts(Strings):
    """Texts and places, each kept once and known by its position."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[Any, ...], int] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        self.places: dict[str, list[Any]] = {name: [] for name in (*PLACE_TEXT, *PLACE_NUMBERS, "selection")}

    def place(self, row: Row) -> int:
        """The position of the place of ``row``."""
        written = tuple([row[name] for name in WRITTEN])
        if written not in self._known:
            self._known[written] = self._add_place(row)
        return self._known[written]

    def _add_place(self, row: Row) -> int:
        place: dict[str, Any] = {name: self.add(row[name]) for name in PLACE_TEXT}
        place |= {name: seven_digits(row[name]) for name in PLACE_NUMBERS}
        place["selection"] = self.add(selection(row))
        key = tuple(place.values())
        if key not in self._places:
            self._places[key] = len(self._places)
            for name, value in place.items():
                self.places[name].append(value)
        return self._places[key]


def seven_digits(value: float) -> float | None:
    """``value`` for the page; None if it is not finite."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


def seven_digits_each(values: npt.NDArray[np.floating[Any]]) -> list[float | None]:
    """``seven_digits`` of many at a tenth of its cost: a whole number over, or times, a power of ten."""
    known = np.isfinite(values) & (values != 0)
    found = np.where(np.isfinite(values), 0.0, math.nan)
    shift = 6 - np.floor(np.log10(np.abs(values[known]))).astype(int)
    down, up = POWERS[np.clip(-shift, 0, 308)], POWERS[np.clip(shift, 0, 308)]
    found[known] = np.rint(values[known] * up / down) * down / up
    return [None if value != value else value for value in found.tolist()]
