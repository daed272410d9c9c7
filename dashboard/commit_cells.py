"""The cells of one commit as the page reads them: columns, each text once, and a verdict for each kind of question."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from dashboard.rows import records
from dashboard.texts import PLACE_NUMBERS, PLACE_TEXT, Strings, Texts, seven_digits_each
from dashboard.verdict import Row, verdict

TEXT = ("status", "reason", "effort", "standing")
NUMBERS = (
    "n", "rounds", "seconds", "seconds_low", "seconds_high", "seconds_q25", "seconds_q75", "speedup", "speedup_low",
    "speedup_high", "compile_seconds", "bytes", "predicted_bytes", "error",
)  # fmt: skip
READ = (
    *PLACE_TEXT, *PLACE_NUMBERS, *TEXT, *NUMBERS, "params", "point", "scores", "errors", "kernels", "state", "time",
    "disturbed", "disturbances",
)  # fmt: skip
GROUP = ("operation", "level", "dtype", "direction")  # what one verdict is about


class CommitCells:
    """Writes commit after commit; places go to ``texts``, and what many cells share is said once."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self._errors, self._state = _Once(_errors), _Once(_state)

    def columns(self, cells: pd.DataFrame) -> dict[str, Any]:
        """``cells``, ``strings`` and ``verdicts`` (``dashboard/payload.py``) of one commit's rows of the history."""
        rows = sorted(records(cells, READ), key=lambda row: -row["n"])
        own = Strings()
        columns = {
            "place": [self.texts.place(row) for row in rows],
            **{name: [own.add(row[name]) for row in rows] for name in TEXT},
            **{name: _cut(seven_digits_each(np.array([row[name] for row in rows], dtype=float))) for name in NUMBERS},
            "errors": _cut([self._errors(row["errors"]) for row in rows]),
            "kernels": _cut([[own.add(kernel) for kernel in row["kernels"]] or None for row in rows]),
            "machine": [own.add(self._state(row["state"])) for row in rows],
            "disturbed": [own.add(_disturbed(row)) for row in rows],
            "measured": [own.add(moment(row["time"])) for row in rows],
        }
        return {"cells": columns, "strings": own.strings, "verdicts": list(_verdicts(rows))}


class _Once:
    """What is one object is said once; the journals hand out the same one for the same text."""

    def __init__(self, say: Callable[[Any], Any]) -> None:
        self._say = say
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: Any) -> Any:
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = value, self._say(value)
        return known[1]


def _verdicts(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Under "cell" stands the position in ``rows`` of the cell that a verdict's numbers are of."""
    at = {row["row"]: position for position, row in enumerate(rows)}
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple([row[name] for name in GROUP]), []).append(row)
    for about, own in groups.items():
        said = dict(vars(verdict(own)))
        yield dict(zip(GROUP, about, strict=True)) | said | {"cell": at.get(said.pop("row"))}


def _cut(values: list[Any]) -> list[Any]:
    """``values`` without the nulls at their end."""
    while values and values[-1] is None:
        values.pop()
    return values


@lru_cache(maxsize=4096)
def moment(when: Any) -> str:
    """``"2026-01-05 09:00 UTC"``; "" if it is not known."""
    return "" if pd.isna(when) else f"{when:%Y-%m-%d %H:%M} UTC"


def _errors(errors: dict[str, Any]) -> list[list[Any]] | None:
    """``[[tensor, error, budget], ...]``; an error that is not finite is null."""
    return [
        [name, *(value if _is_number(value := pair.get(part)) else None for part in ("error", "budget"))]
        for name, pair in errors.items()
        if isinstance(pair, dict)
    ] or None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


UNITS = {"load1": "load", "steal": "CPU time stolen", "mhz": "MHz", "sm_mhz": "SM MHz", "celsius": "°C", "watts": "W"}


def _state(state: dict[str, Any]) -> str:
    """The machine before and after, in words: ``"load 0.4, then 0.5; MHz 2500, then 2400"``."""
    before, after = (found if isinstance(found := state.get(when), dict) else {} for when in ("before", "after"))
    known = [name for name in before if before[name] is not None]
    return "; ".join(
        f"{UNITS.get(name, name)} {_short(before[name])}"
        + (f", then {_short(after[name])}" if after.get(name) not in (None, before[name]) else "")
        for name in known
    )


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def _disturbed(row: Row) -> str:
    return (", ".join(row["disturbances"]) or "something else was at work") if row["disturbed"] else ""
