"""The journals of ``results/``, line by line: what cannot be read is a finding, and loses nothing else.

Of one cell the lines of a thousand commits say mostly the same, in the same words. So ``msgspec`` takes a line apart
into the values that are its own, and texts that are understood once: which cell it is, its errors, its kernels, the
machine's state. A line that does not keep to the types goes through Python's ``json``: what is odd in it is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from dashboard.findings import Findings
from dashboard.naming import AXES, number, point, size

SCHEMA = 1
SWEEP_COLUMNS = (
    "machine", "env", "commit", "commit_date", "subject", "dirty", "sweep", "module", "started", "instrument", "python",
    "torch", "packages", "device", "device_name", "threads", "float32_matmul_precision", "memory_limit", "effort",
    "operations", "selection", "anchors", "wall_seconds", "timed_seconds",
    "discarded_rounds",
)  # fmt: skip
DONE = ("wall_seconds", "timed_seconds", "discarded_rounds")  # what the end of a sweep adds to it
TORN = "measure that cell again, or delete the line; every other line is read"
RESUME = "run the sweep again: it measures only what is missing"
COMPILED = re.compile(r"## Call CompiledFxGraph \w+ ##")
"""How older records call a compiled graph: by a hash that changes with every detail of it."""
CELL = ("module", "series", "params", "direction")
Row = dict[str, Any]


class Seconds(msgspec.Struct, gc=False):
    """A line's ``seconds``."""

    samples: list[float] = []
    rounds: msgspec.Raw = msgspec.Raw(b"[]")
    processes: msgspec.Raw = msgspec.Raw(b"[]")
    discarded: list[msgspec.Raw] = []


class Line(msgspec.Struct, gc=False):
    """A journal's line about a cell, by ``results/README.md``; ``Raw`` is text that is still to be understood."""

    schema: int
    record: str
    sweep: str
    module: str
    series: str
    direction: str
    params: msgspec.Raw
    problem: msgspec.Raw
    status: str
    time: str | None = None
    reason: str | None = None
    seconds: Seconds | None = None
    compile_seconds: float | None = None
    bytes: float | None = None
    predicted_bytes: float | None = None
    error: float | None = None
    errors: msgspec.Raw = msgspec.Raw(b"{}")
    kernels: msgspec.Raw = msgspec.Raw(b"[]")
    disturbed: bool | None = False
    disturbances: msgspec.Raw = msgspec.Raw(b"[]")
    state: msgspec.Raw = msgspec.Raw(b"{}")


class Found(msgspec.Struct, gc=False):
    """What a line says of its cell."""

    time: str
    status: str
    reason: str
    samples: list[float]
    rounds: tuple[int, ...]
    processes: tuple[int, ...]
    discarded: int
    compile_seconds: float | None
    bytes: float | None
    predicted_bytes: float | None
    error: float | None
    errors: Row
    kernels: list[str]
    disturbed: bool
    disturbances: list[str]
    state: Row


class Once(dict[Any, Any]):
    """What is written the same way is understood once; the result is shared, and not to be changed."""

    def __init__(self, understand: Callable[[Any], Any]) -> None:
        super().__init__()
        self.understand = understand

    def __missing__(self, text: Any) -> Any:
        self[text] = found = self.understand(text)
        return found


class Journals:
    """All cells of all journals: of each cell of a commit the line that counts (see ``history.load``).

    Attributes:
        sweeps: a row for each sweep, as described, and how long it took if it came to its end.
        places: a row for each sweep, with what it says of its cells: machine, commit, threads, ...
        problems: a row for each cell of the suite: module, series, parameters, sizes, ...
        found: what the lines say; ``place_of`` and ``problem_of`` are their rows of ``places`` and ``problems``.
    """

    def __init__(self) -> None:
        self.sweeps: list[Row] = []
        self.places: list[Row] = []
        self.problems: list[Row] = []
        self.found: list[Found] = []
        self.place_of: list[int] = []
        self.problem_of: list[int] = []
        self._identities: dict[tuple[Any, ...], int] = {}
        self._identity: list[int] = []
        self._known: dict[tuple[int, int], int] = {}
        self._problem = Once(self._add_problem)
        self._dict = Once(lambda text: _said(text) or {})
        self._numbers = Once(lambda text: tuple(int(number) for number in _said(text) or ()))
        self._names = Once(lambda text: [COMPILED.sub("CompiledFxGraph", _text(name)) for name in _said(text) or []])

    def read(self, path: Path, findings: Findings) -> None:
        """Add what the journal at ``path`` holds; what cannot be read goes to ``findings``."""
        own: dict[str, int] = {}
        sweeps: dict[str, Row] = {}
        for at, record in _records(path, findings):
            try:
                if isinstance(record, Line):
                    line = record
                elif record["record"] == "sweep":
                    sweep = _sweep(path, record)
                    own[record["sweep"]] = self._add_place(sweep)
                    self.sweeps.append(sweep)
                    sweeps[record["sweep"]] = sweep
                    continue
                elif record["record"] == "done":
                    sweeps.get(record["sweep"], {}).update({name: number(record.get(name)) for name in DONE})
                    continue
                elif record["record"] == "cell":
                    line = _line(record)
                else:
                    continue
                if line.sweep not in own:
                    findings.add(path, "a cell whose sweep is not described before it", TORN, at)
                    self._take(line, self._add_place(_sweep(path, {"sweep": line.sweep})))
                else:
                    self._take(line, own[line.sweep])
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                findings.add(path, f"a record that does not follow the schema ({_what(error)})", TORN, at)

    def cells(self) -> dict[tuple[str, str, str], set[tuple[str, str, str, str]]]:
        """By machine, environment and commit: module, series, parameters and direction of its cells."""
        places = [(place["machine"], place["env"], place["commit"]) for place in self.places]
        problems = [tuple(problem[name] for name in CELL) for problem in self.problems]
        found: dict[Any, set[Any]] = {}
        for place, problem in zip(self.place_of, self.problem_of, strict=True):
            found.setdefault(places[place], set()).add(problems[problem])
        return found

    def _add_place(self, sweep: Row) -> int:
        place = {name: sweep[name] for name in ("machine", "env", "commit", "commit_date", "subject", "dirty", "sweep")}
        place |= {
            "threads": number(sweep["threads"]),
            "device": _text(sweep["device"]),
            "effort": _text(sweep["effort"]),
        }
        self.places.append(place)
        identity = tuple(place[name] for name in ("machine", "env", "threads", "commit", "dirty"))
        self._identity.append(self._identities.setdefault(identity, len(self._identities)))
        return len(self.places) - 1

    def _add_problem(self, texts: tuple[str, str, str, bytes, bytes]) -> tuple[int, int]:
        """Its row in ``problems``, and the first row of the same series, parameters and direction."""
        module, series, direction, *said = texts
        params, problem = (dict(_said(text)) for text in said)
        dtype = _text(params.get("dtype"))
        row = {
            "module": module, "series": series, "params": json.dumps(params, allow_nan=False), "size": size(params),
            "direction": direction, "backend": _text(params.get("backend")), "dtype": dtype,
            "operation": _text(problem["operation"]), "level": _text(problem.get("level")),
            "mask": _text(problem.get("mask")), "point": point(problem, dtype, direction),
            **{axis: number(problem.get(axis)) for axis in (*AXES, "scores", "flops")},
        }  # fmt: skip
        self.problems.append(row)
        identity = tuple(row[name] for name in CELL)
        return len(self.problems) - 1, self._identities.setdefault(identity, len(self._identities))

    def _take(self, line: Line, place: int) -> None:
        """Understand ``line`` and keep it, if none of its cell counts more: the latest, but a result over none."""
        texts = line.module, line.series, line.direction, bytes(line.params), bytes(line.problem)
        problem, cell = self._problem[texts]
        seconds = line.seconds or Seconds()
        found = Found(
            line.time or "", line.status, line.reason or "", seconds.samples, self._numbers[bytes(seconds.rounds)],
            self._numbers[bytes(seconds.processes)], len(seconds.discarded), line.compile_seconds, line.bytes,
            line.predicted_bytes, line.error, self._dict[bytes(line.errors)], self._names[bytes(line.kernels)],
            bool(line.disturbed), self._names[bytes(line.disturbances)], self._dict[bytes(line.state)],
        )  # fmt: skip
        at = self._known.setdefault((self._identity[place], cell), len(self.found))
        if at == len(self.found):
            self.found.append(found)
            self.place_of.append(place)
            self.problem_of.append(problem)
        elif found.status != "not_run" and found.time >= self.found[at].time:
            self.found[at], self.place_of[at], self.problem_of[at] = found, place, problem


def _records(path: Path, findings: Findings) -> Iterator[tuple[int, Line | Row]]:
    """The lines of one file with their numbers: cells that keep to the types, and records of whatever kind."""
    decode = msgspec.json.Decoder(Line).decode
    try:
        texts = path.read_bytes().split(b"\n")
    except OSError as error:
        findings.add(path, f"cannot be read: {error.strerror}", "check that it is a readable file")
        return
    for at, text in enumerate(texts, 1):
        record: Line | Row
        try:
            record = decode(text)
            if record.schema == SCHEMA and record.record == "cell":
                yield at, record
                continue
        except ValueError:
            if not text.strip():
                continue
        try:
            record = _said(text)
            if not isinstance(record, dict):
                raise ValueError
        except ValueError:
            if at == len(texts):
                findings.add(path, "the last line is torn: the sweep was stopped while writing it", RESUME, at)
            else:
                findings.add(path, "not JSON: torn when a sweep was stopped, or edited", TORN, at)
            continue
        if record.get("schema") == SCHEMA:
            yield at, record
        else:
            way_out = "update AxialBench, or move the file out of the results folder"
            findings.add(path, f"schema {record.get('schema')!r}; this dashboard reads schema {SCHEMA}", way_out, at)


def _sweep(path: Path, record: Row) -> Row:
    commit8, _, env = path.stem.partition("-")
    dirty = record.get("dirty")
    known = {name: record.get(name) for name in SWEEP_COLUMNS} | {"sweep": record["sweep"]}
    return known | {
        "machine": path.parent.parent.name,
        "env": _text(record.get("env_name")) or env,
        "commit": _text(record.get("commit")) or commit8,
        "subject": _text(record.get("subject")),
        "dirty": any(dirty.values()) if isinstance(dirty, dict) else bool(dirty),
    }


def _line(record: Row) -> Line:
    """A cell's line that does not keep to the types: numbers that are none are unknown."""
    seconds = dict(record.get("seconds") or {})
    samples = [float(sample) for sample in seconds.get("samples") or [] if number(sample) is not None]
    known: Row = {"schema": SCHEMA, "record": "cell", "sweep": record["sweep"]}
    known |= {name: _raw(record[name]) for name in ("params", "problem")}
    known |= {name: _text(record[name]) for name in ("module", "series", "direction", "status")}
    known |= {name: _text(record.get(name)) for name in ("time", "reason")}
    known |= {name: _raw(record.get(name)) for name in ("errors", "kernels", "disturbances", "state")}
    known |= {name: number(record.get(name)) for name in ("compile_seconds", "bytes", "predicted_bytes", "error")}
    known |= {"seconds": Seconds(samples, _raw(seconds.get("rounds")), _raw(seconds.get("processes")))}
    known |= {"disturbed": bool(record.get("disturbed"))}
    return Line(**known)


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def _said(text: bytes) -> Any:
    return json.loads(text.decode(errors="replace"))


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _what(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)[:200]
