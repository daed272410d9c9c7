"""asv's files of results, made again from the journals: a view of them, as ``asv run`` would have saved it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.instrument import journal

FAILED = ("oom", "timeout", "crashed")


def rebuild(results: Path) -> Iterator[Path]:
    """Write asv's file for every journal under ``results``, and yield each.

    Benchmarks of a file that the journal says nothing about stay as they are. Needs asv, and ``benchmarks.json`` from
    any ``asv run`` (or ``asv run --bench just-discover``).
    """
    benchmarks = json.loads((results / "benchmarks.json").read_text())
    benchmarks.pop("version")
    for path in sorted(results.glob("*/journal/*.jsonl")):
        yield rebuild_one(path, results, benchmarks)


def rebuild_one(path: Path, results: Path, benchmarks: dict[str, dict[str, Any]]) -> Path:
    """Write asv's file for the journal at ``path``."""
    from asv.results import Results
    from asv.runner import BenchmarkResult

    sweeps: dict[str, dict[str, Any]] = {}
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for record in journal.read(path):
        if record["record"] == "sweep":
            sweeps[record["sweep"]] = record
        elif record["record"] == "cell":
            place = ", ".join(map(repr, record["params"].values()))
            cells[f"{record['module']}.{record['series']}", f"({place}) {record['direction']}"] = record
    last = list(sweeps.values())[-1]
    machine = json.loads((results / last["machine"] / "machine.json").read_text())
    python = last["python"].rpartition(".")[0]
    params = {name: value for name, value in machine.items() if name != "version"}
    params |= {"python": python, **last["requirements"]}
    date = int(datetime.fromisoformat(last["commit_date"]).timestamp() * 1000)
    saved = Results(params, last["requirements"], last["commit"], date, python, last["env_name"], {})
    saved.load_data(str(results))
    for name, benchmark in benchmarks.items():
        series, _, quantity = name.rpartition(".")
        kind, _, direction = quantity.rpartition("_")
        found = [
            cells.get((series, f"({', '.join(values)}) {direction}"))
            for values in itertools.product(*benchmark["params"])
        ]
        if any(found):
            values = [value(record, kind) for record in found]
            sampled = [isinstance(x, list) for x in values]
            outcome = BenchmarkResult(
                result=[True if s else x for x, s in zip(values, sampled, strict=True)],
                samples=[x if s else None for x, s in zip(values, sampled, strict=True)],
                number=[1 if s else None for s in sampled],
                errcode=0, stderr="", profile=None,
            )  # fmt: skip
            finished = max(datetime.fromisoformat(record["time"]) for record in found if record)
            saved.add_result(benchmark, outcome, started_at=finished, record_samples=True)
    saved.save(str(results))
    return results / last["machine"] / f"{path.stem}.json"


def value(record: dict[str, Any] | None, kind: str) -> Any:
    """What asv stores of a cell: samples or a number, NaN where it was skipped, None where it failed."""
    if record is None:
        return float("nan")
    if record["status"] in FAILED:
        return None
    if record["status"] not in ("ok", "inaccurate") or (kind == "seconds" and record["status"] == "inaccurate"):
        return float("nan")
    if kind == "seconds":
        return record["seconds"]["samples"]
    return record[{"seconds_compile": "compile_seconds", "error_depth": "error"}.get(kind, kind)]
