"""Which backend to use, in words that claim no more than the measurements show.

Two backends are *level* at a size when the interval of one's median reaches into that of the fastest.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dashboard.history import EAGER
from dashboard.units import ratio, si

NO_ROOM = ("too_big", "oom")
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Verdict:
    """``use`` names the backend or backends to use ("" if none ran); ``sentences`` say why, and what to beware of.

    ``at`` is the size in the middle of what was measured, ``speedup`` that of the first backend over eager there and
    ``memory`` how many times less memory it takes (None: not known).
    """

    use: str
    sentences: tuple[str, ...]
    at: str = ""
    speedup: float | None = None
    memory: float | None = None


def verdict(cells: pd.DataFrame) -> Verdict:
    """The verdict on ``cells``: one operation in one dtype and direction, at one commit of one machine.

    A problem that several series share counts once. Series without an axis (compiling) say nothing here.
    """
    cells = cells[cells["size"] != ""]
    sizes = _sizes(cells)
    once = cells.drop_duplicates(["point", "backend"]).assign(at=lambda found: found["point"].map(sizes))
    timed = once[(once["status"] == "ok") & once["seconds"].notna()]
    warnings = (*_no_room(once, timed), *_wrong(once))
    if timed.empty:
        return Verdict("", (_nothing(once), *warnings))
    ahead = timed[timed["standing"] != ""].sort_values("seconds")
    level = {str(at): list(group["backend"]) for at, group in ahead.groupby("at", sort=False)}
    best = _best(level, timed)
    equals = [
        name
        for name in dict.fromkeys(timed["backend"])
        if all(name in names for names in level.values() if best in names) and name != best
    ]
    return Verdict(
        _list([best, *equals], "or"),
        (*_speed(best, equals, level, timed), *_against_eager(best, timed), *_memory(timed), *warnings),
        *_facts(best, timed),
    )


def _facts(best: str, timed: pd.DataFrame) -> tuple[str, float | None, float | None]:
    at = _centre(timed[timed["backend"] == best])
    there = timed[timed["at"] == at].set_index("backend")
    bytes_: dict[Any, float] = there["bytes"].to_dict()
    memory = bytes_[EAGER] / bytes_[best] if EAGER in bytes_ and bytes_[best] > 0 else math.nan
    return at, _known(there["speedup"].to_dict()[best]), _known(memory)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _sizes(cells: pd.DataFrame) -> dict[str, str]:
    """A short name for each problem; that of the problem most series share names all of their axes."""
    named = cells.groupby("point", sort=False)["size"].agg(lambda sizes: ", ".join(dict.fromkeys(sizes)))
    shared = Counter(named)
    return {str(point): size if shared[size] == 1 else str(point) for point, size in named.items()}


def _centre(timed: pd.DataFrame) -> str:
    """The size that the most series share; of several that most backends were timed at; of several the middle one."""
    backends = timed["at"].value_counts()
    by_work = timed.drop_duplicates("at").sort_values("scores")["at"]
    rank = {at: (at.count(","), backends[at]) for at in by_work}
    central = [at for at in by_work if rank[at] == max(rank.values())]
    return central[len(central) // 2]


def _best(level: dict[str, list[str]], timed: pd.DataFrame) -> str:
    """Fastest or level at the most sizes; of equals the one that takes the least time in all."""
    wins = Counter(name for names in level.values() for name in names)
    first = Counter(names[0] for names in level.values())
    return max(wins, key=lambda name: (wins[name], first[name], -timed.loc[timed["backend"] == name, "seconds"].sum()))


def _speed(best: str, equals: list[str], level: dict[str, list[str]], timed: pd.DataFrame) -> Iterable[str]:
    ahead = [at for at, names in level.items() if best in names]
    alone = [at for at in ahead if level[at] == [best]]
    n = len(level)
    if timed["backend"].nunique() == 1:
        yield f"Only {best} ran here."
    elif equals:
        yield f"{_list([best, *equals], 'and')} are level: their intervals overlap at {_count(len(ahead), n)}."
    elif len(alone) == len(ahead):
        yield f"{best} is fastest at {_count(len(ahead), n)}."
    elif alone:
        yield (
            f"{best} is fastest at {_count(len(alone), n)} and level with others, whose intervals overlap with its "
            f"own, at {len(ahead) - len(alone)}."
        )
    else:
        yield f"{best} is among the fastest at {_count(len(ahead), n)}, where the intervals of several overlap."
    faster: dict[str, list[str]] = {}
    for at, names in level.items():
        if best not in names:
            faster.setdefault(_list(names, "or"), []).append(at)
    for others, places in faster.items():
        yield f"At {_places(places)} {others} is faster."
    if best == EAGER and not faster and not equals:
        yield "Nothing that ran here is clearly faster than plain eager attention."


def _against_eager(best: str, timed: pd.DataFrame) -> Iterable[str]:
    found = timed[(timed["backend"] == best) & timed["speedup"].notna()]
    if best == EAGER or found.empty:
        return
    at = _centre(timed[timed["at"].isin(found["at"])])
    middle, low, high = found.loc[found["at"] == at, ["speedup", "speedup_low", "speedup_high"]].to_numpy()[0]
    sentence = f"{best} is {ratio(middle)} as fast as eager at {at} (interval {ratio(low)} to {ratio(high)})"
    if len(found) > 1:
        sentence += f", and {ratio(found['speedup'].min())} to {ratio(found['speedup'].max())} over all sizes"
    yield f"{sentence}."


def _memory(timed: pd.DataFrame) -> Iterable[str]:
    known = timed[timed["bytes"].notna()]
    if known["backend"].nunique() < 2:
        return
    at = _centre(known)
    there = known[known["at"] == at].set_index("backend")["bytes"]
    least = list(there[there == there.min()].index)
    beside = f", where eager takes {si(there[EAGER], 'B')}" if EAGER in there and EAGER not in least else ""
    yield f"Least memory at {at}: {_list(least, 'and')}, {si(there.min(), 'B')} beyond the inputs{beside}."


def _no_room(once: pd.DataFrame, timed: pd.DataFrame) -> Iterable[str]:
    """Which backends that run at some size do not fit at others."""
    runs = set(timed["backend"])
    stuck: dict[tuple[str, ...], list[str]] = {}
    for name, group in once[once["status"].isin(NO_ROOM)].groupby("backend", sort=False):
        if name in runs:
            stuck.setdefault(tuple(dict.fromkeys(group["at"])), []).append(str(name))
    for places, names in stuck.items():
        yield f"No room here at {_places(list(places))}: {_list(names, 'and')}."


def _wrong(once: pd.DataFrame) -> Iterable[str]:
    for name, group in once[once["status"] == "inaccurate"].groupby("backend", sort=False):
        worst = group["error"].max()
        by = f" (up to {worst:.3g} times the allowed error)" if worst == worst else ""
        yield f"Do not use {name}: its results are wrong at {_places(list(dict.fromkeys(group['at'])))}{by}."


def _nothing(once: pd.DataFrame) -> str:
    reasons = once["reason"].replace("", pd.NA).fillna(once["status"]).value_counts()
    return "Nothing was timed here" + (f": {reasons.index[0]}." if len(reasons) else ".")


def _count(k: int, n: int) -> str:
    if n == 1:
        return "the one size measured"
    return f"all {n} sizes" if k == n else f"{k} of {n} sizes"


def _places(places: list[str]) -> str:
    places = sorted(places, key=lambda place: [int(part) if part.isdigit() else part for part in _DIGITS.split(place)])
    return _list(places, "and") if len(places) <= 4 else f"{len(places)} sizes ({places[0]} to {places[-1]})"


def _list(names: Iterable[str], word: str) -> str:
    """``a, b and c``."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last
