"""What was measured, as one tidy table: every journal of ``results/``, and asv's files for what no journal holds.

    history = load(Path("results"))
    history.cells       one row for each machine, environment, commit, series, parameters and direction (see COLUMNS)
    history.sweeps      one row for each sweep: versions, threads, device, effort (see SWEEP_COLUMNS)
    history.findings    files and lines that could not be read, each with a way out; nothing else is lost by them

``results/README.md`` describes the files.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dashboard import asv_files
from dashboard.findings import Finding, Findings
from dashboard.naming import AXES, number, point, size
from dashboard.statistics import spread

SCHEMA = 1
EAGER = "eager"

# name: (dtype, meaning). Text that is unknown is "", a number that is unknown NaN, a list that is unknown [].
COLUMNS: dict[str, tuple[str, str]] = {
    "machine": ("str", "the machine's folder in results/"),
    "env": ("str", "asv's name of the environment"),
    "commit": ("str", "full hash; the eight digits of the file's name where the record has no more"),
    "commit_date": ("datetime64[us, UTC]", ""),
    "subject": ("str", "first line of the commit's message"),
    "dirty": ("bool", "measured with uncommitted changes: the numbers belong to no commit"),
    "sweep": ("str", "id of the sweep, unique within machine, environment and commit"),
    "time": ("datetime64[us, UTC]", "when the cell was finished"),
    "threads": ("float64", "CPU threads"),
    "device": ("str", "cpu or cuda"),
    "effort": ("str", "quick or full"),
    "module": ("str", "module of benchmarks/"),
    "series": ("str", "class in that module, such as OverR"),
    "params": ("str", "the series' parameters as JSON, in asv's order"),
    "size": ("str", "the place on the series' axis, such as R=256"),
    "direction": ("str", "forward, or training (forward and backward)"),
    "backend": ("str", ""),
    "dtype": ("str", ""),
    "operation": ("str", "one of the six attentions, or evoformer: blocks of four of them"),
    "level": ("str", "core, module (whole: projections, mean and gate included), or stack (of blocks)"),
    "mask": ("str", "none or padding"),
    "S": ("float64", "sequences"),
    "R": ("float64", "residues"),
    "T": ("float64", "templates"),
    "N_head": ("float64", "heads"),
    "c": ("float64", "width of a head"),
    "B": ("float64", "batch"),
    "blocks": ("float64", "blocks that are stacked"),
    "scores": ("float64", "logits in all"),
    "flops": ("float64", "floating point operations of this direction"),
    "point": ("str", "the problem's identity without backend: equal for cells that may be compared"),
    "status": ("str", "ok, or what came instead (results/README.md)"),
    "reason": ("str", "why there is no number; empty for ok"),
    "n": ("int64", "samples"),
    "rounds": ("int64", "rounds in which they were taken"),
    "seconds": ("float64", "s a call, median"),
    "seconds_low": ("float64", "s, lower end of the median's interval (dashboard/statistics.py)"),
    "seconds_high": ("float64", "s, upper end of it"),
    "seconds_q25": ("float64", "s, lower quartile"),
    "seconds_q75": ("float64", "s, upper quartile"),
    "samples": ("object", "s, list in the order taken"),
    "speedup": ("float64", "eager's seconds over these, same problem, machine, environment and commit"),
    "speedup_low": ("float64", "lower end: eager's low over this high"),
    "speedup_high": ("float64", "upper end: eager's high over this low"),
    "standing": (
        "str",
        "fastest in its series at its size; or level: its interval reaches into the fastest's; or nothing",
    ),
    "compile_seconds": ("float64", "s, first call beyond a warm one"),
    "bytes": ("float64", "peak bytes beyond the inputs, measured"),
    "predicted_bytes": ("float64", "the same, predicted without running"),
    "error": ("float64", "worst error over its budget, of a stack over eager's drift; above 1, or 2, is inaccurate"),
    "errors": ("object", "dict: tensor to {error, budget}"),
    "kernels": ("object", "list, longest first"),
    "disturbed": ("bool", "something else was at work"),
    "disturbances": ("object", "list: what"),
    "state": ("object", "dict: the machine before and after"),
    "source": ("str", "journal or asv"),
}
SWEEP_COLUMNS = (
    "machine", "env", "commit", "commit_date", "subject", "dirty", "sweep", "module", "started", "instrument", "python",
    "torch", "packages", "device", "device_name", "threads", "float32_matmul_precision", "memory_limit", "effort",
    "operations", "selection", "anchors",
)  # fmt: skip
VIEW = ["machine", "env", "threads"]  # one place where measurements may be compared
IDENTITY = [*VIEW, "commit", "dirty", "module", "series", "params", "direction"]


class HistoryWarning(UserWarning):
    """A file or line of the results could not be read; the message names it and the way out."""


@dataclass(frozen=True)
class History:
    """All that ``results/`` holds (see the module's text)."""

    cells: pd.DataFrame
    sweeps: pd.DataFrame
    findings: tuple[Finding, ...] = ()


def frame(results: Path | str = "results") -> pd.DataFrame:
    """The cells of ``load``; what could not be read is warned about. Raises FileNotFoundError as ``load`` does."""
    history = load(results)
    for finding in history.findings:
        warnings.warn(str(finding), HistoryWarning, stacklevel=2)
    return history.cells


def load(results: Path | str = "results") -> History:
    """Everything under ``results``, newest commit last.

    Of several records of one cell the latest counts, but ``not_run`` never replaces a result. Raises FileNotFoundError
    if there is no such folder.
    """
    results = Path(results)
    if not results.is_dir():
        raise FileNotFoundError(
            f"no folder {results}: run `make bench` to measure this machine, or name another with --results"
        )
    findings = Findings()
    sweeps: list[dict[str, Any]] = []
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for path in sorted(results.glob("*/journal/*")):
        if path.suffix != ".jsonl":
            findings.add(path, "not a journal (expected <commit8>-<env>.jsonl)", "move it out of the results folder")
            continue
        for row in _journal(path, findings, sweeps):
            _keep_latest(rows, row)
    cells = _frame([*rows.values(), *_beyond_journals(asv_files.rows(results, findings), rows.values())])
    cells = _with_standing(_with_speedup(cells))
    return History(cells, pd.DataFrame(sweeps, columns=list(SWEEP_COLUMNS)), findings.all())


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in IDENTITY)


def _beyond_journals(
    of_asv: Iterable[dict[str, Any]], in_journals: Collection[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The rows of asv's files that say more than the journals.

    Of a commit with a journal that is a number the journal lacks: an empty cell was not selected there. asv keeps no
    thread count; it is the journals', where all of that machine and environment agree.
    """
    known = {_as_asv_names_it(row) for row in in_journals}
    commits = {_as_asv_names_it(row)[:3] for row in in_journals}
    threads: dict[tuple[Any, ...], set[Any]] = {}
    for row in in_journals:
        threads.setdefault((row["machine"], row["env"]), set()).add(row["threads"])
    for row in of_asv:
        name = _as_asv_names_it(row)
        if name in known or (name[:3] in commits and row["status"] != "ok"):
            continue
        counts = threads.get((row["machine"], row["env"]), set())
        yield row | {"threads": next(iter(counts)) if len(counts) == 1 else None}


def _as_asv_names_it(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("machine", "env", "commit", "module", "series", "params", "direction"))


def _keep_latest(rows: dict[tuple[Any, ...], dict[str, Any]], row: dict[str, Any]) -> None:
    known = rows.get(_identity(row))
    if known is None or (row["time"] or "") >= (known["time"] or ""):
        if known is not None and row["status"] == "not_run":
            return
        rows[_identity(row)] = row


def _journal(path: Path, findings: Findings, sweeps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows of one journal; its sweeps are added to ``sweeps``."""
    own: dict[str, dict[str, Any]] = {}
    for line, record in _records(path, findings):
        if record.get("schema") != SCHEMA:
            findings.add(
                path,
                f"schema {record.get('schema')!r}; this dashboard reads schema {SCHEMA}",
                "update AxialBench, or move the file out of the results folder",
                line,
            )
            continue
        try:
            if record["record"] == "sweep":
                own[record["sweep"]] = sweep = _sweep(path, record)
                sweeps.append(sweep)
            elif record["record"] == "cell":
                if record["sweep"] not in own:
                    findings.add(path, "a cell whose sweep is not described before it", _TORN, line)
                yield _cell(own.get(record["sweep"], _sweep(path, {"sweep": record["sweep"]})), record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            findings.add(path, f"a record that does not follow the schema ({_what(error)})", _TORN, line)


_TORN = "measure that cell again, or delete the line; every other line is read"


def _what(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)[:200]


def _records(path: Path, findings: Findings) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        findings.add(path, f"cannot be read: {error.strerror}", "check that it is a readable file")
        return
    for at, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError
        except ValueError:
            if at == len(lines):
                findings.add(path, "the last line is torn: the sweep was stopped while writing it", _RESUME, at)
            else:
                findings.add(path, "not JSON: torn when a sweep was stopped, or edited", _TORN, at)
            continue
        yield at, record


_RESUME = "run the sweep again: it measures only what is missing"


def _sweep(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    commit8, _, env = path.stem.partition("-")
    dirty = record.get("dirty")
    known = {name: record.get(name) for name in SWEEP_COLUMNS}
    return known | {
        "machine": path.parent.parent.name,
        "env": _text(record.get("env_name")) or env,
        "commit": _text(record.get("commit")) or commit8,
        "subject": _text(record.get("subject")),
        "dirty": any(dirty.values()) if isinstance(dirty, dict) else bool(dirty),
    }


def _cell(sweep: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    params, problem, seconds = dict(record["params"]), dict(record["problem"]), record.get("seconds") or {}
    samples = [float(sample) for sample in seconds.get("samples", []) if number(sample) is not None]
    rounds = seconds.get("rounds") or []
    backend, dtype = _text(params.get("backend")), _text(params.get("dtype"))
    row = {name: sweep[name] for name in ("machine", "env", "commit", "commit_date", "subject", "dirty", "sweep")}
    row |= {
        "time": record.get("time"),
        "threads": number(sweep["threads"]),
        "device": _text(sweep["device"]),
        "effort": _text(sweep["effort"]),
        "module": _text(record["module"]),
        "series": _text(record["series"]),
        "params": json.dumps(params, allow_nan=False),
        "size": size(params),
        "direction": _text(record["direction"]),
        "backend": backend,
        "dtype": dtype,
        "operation": _text(problem["operation"]),
        "level": _text(problem.get("level")),
        "mask": _text(problem.get("mask")),
        "point": point(problem, dtype, _text(record["direction"])),
        "status": _text(record["status"]),
        "reason": _text(record.get("reason")),
        "n": len(samples),
        "rounds": len(set(rounds)),
        "samples": samples,
        "errors": record.get("errors") or {},
        "kernels": [_text(kernel) for kernel in record.get("kernels") or []],
        "disturbed": bool(record.get("disturbed")),
        "disturbances": [_text(what) for what in record.get("disturbances") or []],
        "state": record.get("state") or {},
        "source": "journal",
    }
    row |= {axis: number(problem.get(axis)) for axis in (*AXES, "scores", "flops")}
    row |= {name: number(record.get(name)) for name in ("compile_seconds", "bytes", "predicted_bytes", "error")}
    return row | timing(samples, rounds)


def timing(samples: list[float], rounds: list[int]) -> dict[str, float]:
    """The columns that describe how long a call takes; empty without samples."""
    if not samples:
        return {}
    found = spread(samples, rounds)
    return {
        "seconds": found.median,
        "seconds_low": found.low,
        "seconds_high": found.high,
        "seconds_q25": found.q25,
        "seconds_q75": found.q75,
    }


def _frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a DataFrame with COLUMNS and their dtypes, by commit date."""
    rows = list(rows)
    columns: dict[str, pd.Series] = {}
    for name, (dtype, _) in COLUMNS.items():
        values = [row.get(name) for row in rows]
        if dtype.startswith("datetime"):
            moments = pd.Series(values, dtype="object")
            columns[name] = pd.to_datetime(moments, utc=True, errors="coerce", format="ISO8601").dt.as_unit("us")
        elif dtype == "float64":
            columns[name] = pd.Series([math.nan if value is None else value for value in values], dtype="float64")
        else:
            columns[name] = pd.Series(values, dtype="object").astype(dtype)  # type: ignore[call-overload]
    cells = pd.DataFrame(columns)
    return cells.sort_values("commit_date", kind="stable", na_position="first", ignore_index=True)


COMPARABLE = [*VIEW, "commit", "dirty", "module", "series", "point"]  # cells that share these differ in backend alone


def _with_speedup(cells: pd.DataFrame) -> pd.DataFrame:
    """``cells`` with the time of plain eager attention on the same problem over each one's own."""
    ok = cells["status"] == "ok"
    eager = cells[ok & (cells["backend"] == EAGER)].drop_duplicates(COMPARABLE).set_index(COMPARABLE)
    if eager.empty:
        return cells
    of_eager = eager.reindex(pd.MultiIndex.from_frame(cells[COMPARABLE]))
    ratios = {
        "speedup": of_eager["seconds"].to_numpy() / cells["seconds"],
        "speedup_low": of_eager["seconds_low"].to_numpy() / cells["seconds_high"],
        "speedup_high": of_eager["seconds_high"].to_numpy() / cells["seconds_low"],
    }
    itself = ok & (cells["backend"] == EAGER)
    return cells.assign(**{name: ratio.where(ok).mask(itself, 1.0) for name, ratio in ratios.items()})


def _with_standing(cells: pd.DataFrame) -> pd.DataFrame:
    """``cells`` with the fastest of each problem marked, and those that are level with it."""
    timed = cells[(cells["status"] == "ok") & cells["seconds"].notna()]
    groups = timed.groupby(COMPARABLE, sort=False, dropna=False)["seconds"]
    fastest = timed.loc[groups.idxmin()].set_index(COMPARABLE)["seconds_high"]
    reach = fastest.reindex(pd.MultiIndex.from_frame(timed[COMPARABLE])).to_numpy()
    level = timed.index[timed["seconds_low"] <= reach]
    standing = pd.Series("", index=cells.index, dtype="str")
    standing[level] = "level"
    standing[groups.idxmin()] = "fastest"
    return cells.assign(standing=standing)


def _text(value: object) -> str:
    return "" if value is None else str(value)
