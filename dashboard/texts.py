"""Texts and places of the page's data, each kept once and known by its position."""

from __future__ import annotations

import math
from typing import Any

from dashboard.commands import reproduce
from dashboard.naming import AXES
from dashboard.verdict import Row

PLACE_TEXT = ("module", "series", "size", "direction", "backend", "dtype", "operation", "level", "mask")
PLACE_NUMBERS = (*AXES, "flops")
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
        self.places: dict[str, list[Any]] = {name: [] for name in (*PLACE_TEXT, *PLACE_NUMBERS, "command")}

    def place(self, row: Row) -> int:
        """The position of the place of ``row``."""
        written = tuple([row[name] for name in WRITTEN])
        if written not in self._known:
            self._known[written] = self._add_place(row)
        return self._known[written]

    def _add_place(self, row: Row) -> int:
        place: dict[str, Any] = {name: self.add(row[name]) for name in PLACE_TEXT}
        place |= {name: seven_digits(row[name]) for name in PLACE_NUMBERS}
        place["command"] = self.add(reproduce(row))
        key = tuple(place.values())
        if key not in self._places:
            self._places[key] = len(self._places)
            for name, value in place.items():
                self.places[name].append(value)
        return self._places[key]


def seven_digits(value: float) -> float | None:
    """``value`` for the page; None if it is not finite."""
    return float(f"{value:.7g}") if math.isfinite(value) else None
