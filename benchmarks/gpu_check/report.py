"""What was found so far, as a page: ``report.md`` in the check's folder, written anew after every part."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.parts import PARTS
from benchmarks.instrument import journal
from benchmarks.instrument.clock import Samples

Record = dict[str, Any]
FAILED = ("failed", "crashed")
CELLS_FAILED = ("inaccurate", "crashed", "oom", "timeout")


def write(folder: Path) -> list[str]:
    """Write the page of what lies in ``folder``; what failed, in sentences."""
    found = {part.name: list(journal.read(folder / f"{part.name}.jsonl")) for part in PARTS}
    found["speed"] = [record for path in folder.glob("speed/journal/*.jsonl") for record in journal.read(path)]
    ends = list(journal.read(folder / "parts.jsonl"))
    wrong = [*failures(found), *(f"{end['part']}: {end['ended']}" for end in ends if end["failed"])]
    lines = [
        "# A look at this machine", "",
        *environment(found["environment"]), "",
        "## Parts", "", *table(("part", "what", "seconds", "ended"), parts(ends)), "",
        "## What failed", "", *([f"- {sentence}" for sentence in wrong] or ["Nothing."]), "",
        "## The instrument", "", *table(("question", "answer", "found"), answers(found["clocks"])), "",
        "## Backends", "", *table(("backend", "here"), abilities(found["abilities"])), "",
        "## Speed", "", *table(("problem", "backend", "status", "ms", "bytes beyond"), cells(found["speed"])), "",
        "## Equivalence", "", *table(("backend", *OUTCOMES), outcomes(found["equivalence"])), "",
    ]  # fmt: skip
    journal.write_atomically(folder / "report.md", "\n".join(lines))
    return wrong


def environment(records: list[Record]) -> list[str]:
    """The device and the versions, in two lines."""
    for one in records:
        device = one.get("device_name") or f"no CUDA device; {one['cpu']}"
        capability = ".".join(map(str, one.get("capability", [])))
        driver = one["driver"] or "unknown"
        packages = ", ".join(f"{name} {version}" for name, version in one["packages"].items())
        return [
            f"{device} {capability}, driver {driver}, CUDA {one['cuda_version']}, Python {one['python']}.", "",
            f"{packages}. Commit {one['commit'][:10]}{' with changes' if any(one['dirty'].values()) else ''}.",
        ]  # fmt: skip
    return ["Nothing is known of the environment."]


def parts(ends: list[Record]) -> Iterator[tuple[str, ...]]:
    """How every part ended; those that did not begin as well."""
    by_name = {end["part"]: end for end in ends}
    for part in PARTS:
        end = by_name.get(part.name)
        yield (part.name, part.what, f"{end['seconds']:.0f}" if end else "", end["ended"] if end else "not begun")


def answers(records: list[Record]) -> Iterator[tuple[str, ...]]:
    """The instrument's checks."""
    words = {True: "yes", False: "**no**", None: "cannot tell"}
    for one in records:
        if one["record"] == "check":
            yield one["question"], words[one["ok"]], one["words"]
        else:
            yield one["question"], "left out", "its time was up"


def abilities(records: list[Record]) -> Iterator[tuple[str, ...]]:
    """What each backend takes; for one that takes nothing, why not."""
    answered = {one["backend"]: one for one in records if one["record"] == "backend"}
    for name in dict.fromkeys(one["backend"] for one in records):
        if name not in answered:
            yield name, "**the process ended while it was asked**"
            continue
        one = answered[name]
        reasons = {reason for every in one["why_not"].values() for each in every.values() for reason in each}
        shared = [r for r in sorted(reasons) if all(r in each for x in one["why_not"].values() for each in x.values())]
        yield name, one["words"] + (f": {'; '.join(shared)}" if shared else "")


def cells(records: list[Record]) -> Iterator[tuple[str, ...]]:
    """Every cell that was tried: its median in ms, or why it has none. Cells that backends refuse are left out here."""
    for one in records:
        if one["record"] != "cell" or one["status"] == "unsupported":
            continue
        taken, milliseconds = one.get("seconds") or {}, ""
        status = one["status"] + (f": {one['reason']}" if one["reason"] else "")
        if taken.get("samples"):
            samples = Samples(taken["samples"], taken["host"])
            milliseconds = f"{1000 * statistics.median(samples.seconds):.4g}"
            status += " (launch-bound)" * samples.launch_bound + " (disturbed)" * one["disturbed"]
        problem = f"{one['params']['problem']} {one['direction']}"
        yield problem, one["params"]["backend"], status, milliseconds, str(one.get("bytes") or "")


OUTCOMES = ("passed", "failed", "crashed", "skipped", "left out")


def outcomes(records: list[Record]) -> Iterator[tuple[str, ...]]:
    """How many tests of each backend ended how, and how many never began in all."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in records:
        if one["record"] == "test":
            counts[one["backend"]][one["outcome"]] += 1
    for backend, count in sorted(counts.items()):
        yield (backend, *(str(count[outcome] or "") for outcome in OUTCOMES[:-1]), "")
    collected = max((one["tests"] for one in records if one["record"] == "collected"), default=0)
    total: Counter[str] = sum(counts.values(), Counter())
    yield ("all", *(str(total[outcome]) for outcome in OUTCOMES[:-1]), str(collected - total.total()))


def failures(found: dict[str, list[Record]]) -> Iterator[str]:
    """Everything that is wrong, in sentences."""
    for one in found["clocks"]:
        if one["record"] == "check" and one["ok"] is False:
            yield f"the instrument: {one['question']} No: {one['words']}"
    for one in found["speed"]:
        if one["record"] == "cell" and one["status"] in CELLS_FAILED:
            yield f"{one['cell']}: {one['status']}: {one['reason']}"
    for one in found["equivalence"]:
        if one["record"] == "test" and one["outcome"] in FAILED:
            yield f"{one['test']}: {one['outcome']}: {one['why']}"
        if one["record"] == "pytest failed":
            yield f"equivalence: {one['why']}"


def table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> list[str]:
    """A Markdown table."""
    cells = [header, ("---",) * len(header), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells]
