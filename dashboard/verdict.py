"""Which backend to use, in words that claim no more than the measurements show.

Two backends are *level* at a size when the interval of one's median reaches into that of the fastest.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.history import EAGER
from dashboard.units import ratio, si

NO_ROOM = ("too_big", "oom")
_DIGITS = re.compile(r"(\d+)")
Row = Mapping[Hashable, Any]  # one cell of the history, and under "at" the short name of its size


@dataclass(frozen=True)
class Verdict:
    """The answer in a word or two, and the sentences that say why and what to beware of.

    ``use`` names the backends to use, those tied with the best included: none if nothing ran, or if eager is among the
    tied. ``at`` is the size in the middle of what was measured, ``speedup`` that of the first backend over eager there
    and ``memory`` how many times less memory it takes (None: not known, or the backend is eager itself); ``row`` is the
    row's name in the history's table (None: it has none).
    """

    answer: str
    use: tuple[str, ...]
    sentences: tuple[str, ...]
    at: str = ""
    speedup: float | None = None
    memory: float | None = None
    row: int | None = None


def verdict(cells: Iterable[Row]) -> Verdict:
    """The verdict on rows of the history: one operation in one dtype and direction, at one commit of one machine.

    A problem that several series share counts once. Series without an axis (compiling) say nothing here.
    """
    rows = _once([row for row in cells if row["size"]])
    if any(row["level"] == "stack" for row in rows):
        return _drift(rows)
    timed = [row for row in rows if row["status"] == "ok" and _known(row["seconds"])]
    warnings = (*_no_room(rows, timed), *_wrong(rows), *_disturbed(timed))
    if not timed:
        return Verdict("nothing ran", (), (_nothing(rows), *warnings))
    fastest_first = sorted((row for row in timed if row["standing"]), key=lambda row: row["seconds"])
    level = {at: [row["backend"] for row in group] for at, group in _by("at", fastest_first).items()}
    best = _best(level, timed)
    equals = [
        name
        for name in dict.fromkeys(row["backend"] for row in timed)
        if name != best and all(name in names for names in level.values() if best in names)
    ]
    use = () if equals and EAGER in (best, *equals) else (best, *equals)
    answer = _list(use, "or") + " (tied)" * bool(equals) if use else "nothing clearly beats eager"
    return Verdict(
        answer,
        use,
        (*_speed(best, equals, level, timed), *_against_eager(best, timed), *_memory(timed), *warnings),
        *_facts(best, timed),
    )


def _drift(rows: list[Row]) -> Verdict:
    """The verdict on stacks of blocks, of which only the error is measured: that of the deepest."""
    known = [row for row in rows if _known(row["error"])]
    wrong = list(dict.fromkeys(row["backend"] for row in rows if row["status"] == "inaccurate"))
    if not known and not wrong:
        return Verdict("nothing ran", (), (_nothing(rows),))
    sentences, at = [], ""
    if known:
        deepest = max(known, key=lambda row: row["blocks"])
        at = deepest["at"]
        there = sorted((row for row in known if row["at"] == at), key=lambda row: row["error"])
        drifts = ", ".join(f"{row['backend']} {ratio(row['error'])}" for row in there)
        sentences.append(f"After {deepest['blocks']:.0f} blocks, in units of eager's drift from float64: {drifts}.")
    if wrong:
        sentences.append(f"Twice eager's drift is allowed: {_list(wrong, 'and')} went beyond it, or to no number.")
    answer = f"do not use {_list(wrong, 'or')}" if wrong else "no backend drifts much further than eager"
    return Verdict(answer, (), tuple(sentences), at)


def _once(cells: list[Row]) -> list[Row]:
    """Each problem and backend once, with its size's name; a problem of many series is named by all their axes."""
    sizes = {
        point: ", ".join(dict.fromkeys(row["size"] for row in rows)) for point, rows in _by("point", cells).items()
    }
    shared = Counter(sizes.values())
    names = {point: size if shared[size] == 1 else point for point, size in sizes.items()}
    unlike = {(row["point"], row["backend"]): row for row in reversed(cells)}
    return [{**row, "at": names[row["point"]]} for row in reversed(unlike.values())]


def _centre(timed: list[Row]) -> str:
    """The size that the most series share; of several that most backends were timed at; of several the middle one."""
    sizes = _by("at", sorted(timed, key=lambda row: row["scores"] if _known(row["scores"]) else 0))
    rank = {at: (at.count(","), len(group)) for at, group in sizes.items()}
    central = [at for at in sizes if rank[at] == max(rank.values())]
    return central[len(central) // 2]


def _facts(best: str, timed: list[Row]) -> tuple[str, float | None, float | None, int | None]:
    at = _centre([row for row in timed if row["backend"] == best])
    there = {row["backend"]: row for row in timed if row["at"] == at}
    if best == EAGER:
        return at, None, None, there[best].get("row")
    speedup, own = there[best]["speedup"], there[best]["bytes"]
    eager = there[EAGER]["bytes"] if EAGER in there else math.nan
    memory = eager / own if _known(eager) and _known(own) and own else None
    return at, speedup if _known(speedup) else None, memory, there[best].get("row")


def _best(level: dict[str, list[str]], timed: list[Row]) -> str:
    """Fastest or level at the most sizes; of equals first at the most; of equals the one with the least time in all."""
    wins = Counter(name for names in level.values() for name in names)
    first = Counter(names[0] for names in level.values())
    seconds = {name: sum(row["seconds"] for row in group) for name, group in _by("backend", timed).items()}
    return max(wins, key=lambda name: (wins[name], first[name], -seconds[name]))


def _speed(best: str, equals: list[str], level: dict[str, list[str]], timed: list[Row]) -> Iterable[str]:
    ahead = [at for at, names in level.items() if best in names]
    alone = [at for at in ahead if level[at] == [best]]
    n = len(level)
    if len({row["backend"] for row in timed}) == 1:
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


def _against_eager(best: str, timed: list[Row]) -> Iterable[str]:
    found = {row["at"]: row for row in timed if row["backend"] == best and _known(row["speedup"])}
    if best == EAGER or not found:
        return
    at = _centre([row for row in timed if row["at"] in found])
    middle, low, high = (ratio(found[at][name]) for name in ("speedup", "speedup_low", "speedup_high"))
    sentence = f"{best} is {middle} as fast as eager at {at} (interval {low} to {high})"
    if len(found) > 1:
        speedups = [row["speedup"] for row in found.values()]
        sentence += f", and {ratio(min(speedups))} to {ratio(max(speedups))} over all sizes"
    yield f"{sentence}."


def _memory(timed: list[Row]) -> Iterable[str]:
    known = [row for row in timed if _known(row["bytes"])]
    if len({row["backend"] for row in known}) < 2:
        return
    at = _centre(known)
    there = {row["backend"]: row["bytes"] for row in known if row["at"] == at}
    least = [name for name, bytes_ in there.items() if bytes_ == min(there.values())]
    beside = f", where eager takes {si(there[EAGER], 'B')}" if EAGER in there and EAGER not in least else ""
    yield f"Least memory at {at}: {_list(least, 'and')}, {si(there[least[0]], 'B')} beyond the inputs{beside}."


def _no_room(rows: list[Row], timed: list[Row]) -> Iterable[str]:
    """Which backends that run at some size do not fit at others."""
    runs = {row["backend"] for row in timed}
    stuck: dict[tuple[str, ...], list[str]] = {}
    for name, group in _by("backend", [row for row in rows if row["status"] in NO_ROOM]).items():
        if name in runs:
            stuck.setdefault(tuple(row["at"] for row in group), []).append(name)
    for places, names in stuck.items():
        yield f"No room here at {_places(places)}: {_list(names, 'and')}."


def _wrong(rows: list[Row]) -> Iterable[str]:
    for name, group in _by("backend", [row for row in rows if row["status"] == "inaccurate"]).items():
        known = [row["error"] for row in group if _known(row["error"])]
        by = f" (up to {max(known):.3g} times the allowed error)" if known else ""
        yield f"Do not use {name}: its results are wrong at {_places([row['at'] for row in group])}{by}."


def _disturbed(timed: list[Row]) -> Iterable[str]:
    """A word of caution where a quarter of the timings or more were disturbed."""
    disturbed = sum(row["disturbed"] for row in timed)
    if disturbed and 4 * disturbed >= len(timed):
        yield f"Other work disturbed {disturbed} of {len(timed)} timings here: measure again on a quiet machine."


def _nothing(rows: list[Row]) -> str:
    reasons = Counter(row["reason"] or row["status"] for row in rows).most_common(1)
    return "Nothing was measured here" + (f": {reasons[0][0]}." if reasons else ".")


def _by(name: str, rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by the value of one column, in order of first appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[name], []).append(row)
    return groups


def _known(value: float) -> bool:
    return math.isfinite(value)


def _count(k: int, n: int) -> str:
    if n == 1:
        return "the one size measured"
    return f"all {n} sizes" if k == n else f"{k} of {n} sizes"


def _places(places: Iterable[str]) -> str:
    ordered = sorted(places, key=lambda place: [int(part) if part.isdigit() else part for part in _DIGITS.split(place)])
    return _list(ordered, "and") if len(ordered) <= 4 else f"{len(ordered)} sizes ({ordered[0]} to {ordered[-1]})"


def _list(names: Iterable[str], word: str) -> str:
    """``a, b and c``."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last
