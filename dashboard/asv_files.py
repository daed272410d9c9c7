"""asv's own results files as rows of the history: what is known of a commit that has no journal.

asv keeps no reasons, problems or kernels: a number it lacks is ``skipped`` (NaN in its file) or ``failed`` (null).
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from dashboard.findings import Findings
from dashboard.naming import AXES, size

RESULTS_VERSION = 2
BENCHMARK = re.compile(
    r"(?P<module>\w+)\.(?P<series>\w+)\.(?P<quantity>seconds|bytes|error|seconds_compile|error_depth)_(?P<direction>forward|training)"
)
NO_REASON = "asv keeps no reason, and this commit has no journal"
MODULE_OPERATIONS = {"template": "template_pointwise", "depth": "evoformer"}
LEVELS = {"block": "module", "depth": "stack"}
DRIFT_ALLOWED = 2


Key = tuple[str, str, str, str]
"""A cell: module, series, parameters as JSON, direction."""
Journals = Mapping[tuple[str, str, str], set[Key]]
"""By machine, environment and commit, the cells of its journals."""


def rows(results: Path, findings: Findings, journals: Journals) -> Iterator[dict[str, Any]]:
    """One row a cell of every readable file ``<machine>/<commit8>-<env>.json``; the rest becomes a finding.

    Of a commit in ``journals`` only numbers of other cells: one that is empty here was not selected there.
    """
    paths = [path for path in sorted(results.glob("*/*.json")) if path.name != "machine.json"]
    if not paths:
        return
    names = _param_names(results / "benchmarks.json", findings)
    for path in paths:
        try:
            yield from _rows_of_file(path, names, journals)
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            findings.add(
                path,
                f"not a results file of asv, version {RESULTS_VERSION} ({type(error).__name__}: {str(error)[:120]})",
                "move it out of the folder; `python -m benchmarks rebuild` makes asv's files again from the journals",
            )


def _param_names(path: Path, findings: Findings) -> dict[str, list[str]]:
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        return {name: entry["param_names"] for name, entry in listed.items() if isinstance(entry, dict)}
    except (OSError, ValueError, KeyError, AttributeError) as error:
        findings.add(
            path,
            f"asv's list of benchmarks cannot be read ({type(error).__name__})",
            "run `asv run` or `python -m benchmarks rebuild`; until then only journals are shown",
        )
        return {}


def _rows_of_file(path: Path, names: dict[str, list[str]], journals: Journals) -> list[dict[str, Any]]:
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored["version"] != RESULTS_VERSION:
        raise ValueError(f"version {stored['version']!r}")
    commit = {
        "machine": path.parent.name,
        "env": stored["env_name"],
        "commit": stored["commit_hash"],
        "commit_date": datetime.fromtimestamp(stored["date"] / 1000, UTC).isoformat(),
        "subject": "",
        "dirty": False,
        "sweep": "",
        "time": "",
        "source": "asv",
    }
    known = journals.get((commit["machine"], commit["env"], commit["commit"]))
    cells: dict[Key, dict[str, Any]] = {}
    for name, values in stored["results"].items():
        match = BENCHMARK.fullmatch(name)
        if not match or name not in names:
            continue
        entry = dict(zip(stored["result_columns"], values, strict=False))
        combinations = _combinations(tuple(names[name]), tuple(map(tuple, entry["params"])))
        numbers = (at for at, value in enumerate(entry["result"] or ()) if _is_number(value))
        for at in range(len(combinations)) if known is None else numbers:
            params, text = combinations[at]
            key = (match["module"], match["series"], text, match["direction"])
            if known is not None and key in known:
                continue
            if key not in cells:
                cells[key] = commit | _described(*key, params)
            cells[key] |= _measured(match["quantity"], entry, at)
    return [cell for cell in cells.values() if known is None or cell["status"] == "ok"]


@cache
def _combinations(names: tuple[str, ...], texts: tuple[tuple[str, ...], ...]) -> list[tuple[dict[str, Any], str]]:
    """All combinations of the parameters' values in asv's order, each as a dict and as JSON."""
    lists = [[_literal(text) for text in of_one] for of_one in texts]
    combinations = [dict(zip(names, values, strict=True)) for values in itertools.product(*lists)]
    return [(params, json.dumps(params)) for params in combinations]


def _is_number(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def _described(module: str, series: str, params_json: str, direction: str, params: dict[str, Any]) -> dict[str, Any]:
    operation = params.get("operation") or MODULE_OPERATIONS.get(module, module)
    if "node" in params:
        operation = f"{module}_{params['node']}"
    axes = {name: value for name, value in params.items() if isinstance(value, int | float)}
    known = {"params": params_json, "direction": direction, "module": module, "series": series, "operation": operation}
    at = size(params)
    return {
        **known,
        "level": LEVELS.get(module, "core"),
        "point": f"{operation} {series} {at} {params.get('dtype', '')} {direction}",
        "size": at,
        "backend": str(params.get("backend", "")),
        "dtype": str(params.get("dtype", "")),
        **{axis: float(axes[axis]) for axis in AXES if axis in axes},
        "status": "skipped",
        "reason": NO_REASON,
        "n": 0,
        "rounds": 0,
        "samples": [],
        "round_of": (),
        "process_of": (),
        "discarded": 0,
        "errors": {},
        "kernels": [],
        "disturbed": False,
        "disturbances": [],
        "state": {},
        "mask": "",
        "device": "",
        "effort": "",
    }


def _measured(quantity: str, entry: dict[str, Any], at: int) -> dict[str, Any]:
    """What one benchmark says of the parameter combination number ``at``."""
    value = _at(entry["result"], at)
    if not _is_number(value):
        return {"status": "failed"} if value is None and quantity == "seconds" else {}
    if quantity == "seconds_compile":
        return {"compile_seconds": float(value), "status": "ok", "reason": ""}
    if quantity == "error_depth":
        return {"error": float(value), "status": "ok" if value <= DRIFT_ALLOWED else "inaccurate", "reason": ""}
    if quantity != "seconds":
        return {quantity: float(value)}
    bounds = {"seconds_low": "stats_ci_99_a", "seconds_high": "stats_ci_99_b", "seconds_q25": "stats_q_25"}
    bounds["seconds_q75"] = "stats_q_75"
    samples = list(filter(_is_number, _at(entry.get("samples"), at) or []))
    found = {column: _at(entry.get(name), at) for column, name in bounds.items()}
    finite = {column: float(found_) for column, found_ in found.items() if found_ is not None and math.isfinite(found_)}
    whole = {"status": "ok", "reason": "", "seconds": float(value), "samples": samples, "n": len(samples)}
    return dict.fromkeys(bounds, float(value)) | finite | whole


def _at(values: list[Any] | None, at: int) -> Any:
    """asv cuts trailing nulls off a row and stores null for a column that is null throughout."""
    return values[at] if values and at < len(values) else None


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
