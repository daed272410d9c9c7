"""What was measured, as one tidy table: every journal of ``results/``, and asv's files for what no journal holds.

    history = load(Path("results"))
    history.cells       one row for each machine, environment, commit, series, parameters and direction (see COLUMNS)
    history.sweeps      one row for each sweep: versions, threads, device, effort, duration (see SWEEP_COLUMNS)
    history.comparisons what pairs of processes told of two commits (``dashboard/comparisons.py``), newest first
    history.findings    files and lines that could not be read, each with a way out; nothing else is lost by them

``results/README.md`` describes the files.
"""

from __future__ import annotations

import gc
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboard import asv_files
from dashboard.comparisons import comparisons
from dashboard.findings import Finding, Findings
from dashboard.journals import SWEEP_COLUMNS, Found, Journals
from dashboard.statistics import spread

EAGER = "eager"
Rows = npt.NDArray[np.integer[Any]]

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
    "round_of": ("object", "tuple: the round of each sample, counted over all processes"),
    "process_of": ("object", "tuple: the process of each sample"),
    "discarded": ("int64", "rounds that other work disturbed, and that were taken again"),
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
PLACE_COLUMNS = (
    "machine", "env", "commit", "commit_date", "subject", "dirty", "sweep", "threads", "device", "effort",
)  # fmt: skip
PROBLEM_COLUMNS = (
    "module", "series", "params", "size", "direction", "backend", "dtype", "operation", "level", "mask", "S", "R", "T",
    "N_head", "c", "B", "blocks", "scores", "flops", "point",
)  # fmt: skip
FOUND_COLUMNS = (
    "time", "status", "reason", "samples", "compile_seconds", "bytes", "predicted_bytes", "error", "errors", "kernels",
    "disturbed", "disturbances", "state",
)  # fmt: skip
COMPARED_COLUMNS = ("speedup", "speedup_low", "speedup_high", "standing")
SPREAD_COLUMNS = ("seconds", "seconds_low", "seconds_high", "seconds_q25", "seconds_q75")
VIEW = ["machine", "env", "threads"]  # one place where measurements may be compared
COMPARABLE = [*VIEW, "commit", "dirty", "module", "series", "point"]  # cells that share these differ in backend alone


class HistoryWarning(UserWarning):
    """A file or line of the results could not be read; the message names it and the way out."""


@dataclass(frozen=True)
class History:
    """All that ``results/`` holds (see the module's text)."""

    cells: pd.DataFrame
    sweeps: pd.DataFrame
    findings: tuple[Finding, ...] = ()
    comparisons: Sequence[dict[str, Any]] = ()


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
    findings, journals = Findings(), Journals()
    with no_collection():
        for path in sorted(results.glob("*/journal/*")):
            if path.suffix == ".jsonl":
                journals.read(path, findings)
            else:
                way_out = "move it out of the results folder"
                findings.add(path, "not a journal (expected <commit8>-<env>.jsonl)", way_out)
        cells = _of_journals(journals)
        of_asv = list(asv_files.rows(results, findings, journals.cells()))
        if of_asv:
            cells = pd.concat([cells, _with_threads(_table(of_asv, COLUMNS), cells)])
        cells = cells.sort_values("commit_date", kind="stable", na_position="first", ignore_index=True)
        sweeps = pd.DataFrame(journals.sweeps, columns=list(SWEEP_COLUMNS))
        in_pairs = comparisons(results, findings)
        return History(_compared(cells), sweeps, findings.all(), in_pairs)


@contextmanager
def no_collection() -> Iterator[None]:
    """Without looking for garbage among the millions of lists that are kept: a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _of_journals(journals: Journals) -> pd.DataFrame:
    """The cells of the journals, with COLUMNS and their dtypes."""
    places = _table(journals.places, PLACE_COLUMNS).take(journals.place_of)
    problems = _table(journals.problems, PROBLEM_COLUMNS).take(journals.problem_of)
    found: dict[str, Any] = {name: [getattr(x, name) for x in journals.found] for name in FOUND_COLUMNS}
    found |= _timing(journals.found) | {"source": ["journal"] * len(journals.found)}
    columns = {name: column.array for table in (places, problems) for name, column in table.items()}
    columns |= {name: _column(name, values).array for name, values in found.items()}
    return pd.DataFrame(columns | dict.fromkeys(COMPARED_COLUMNS, math.nan), columns=list(COLUMNS))


def _timing(found: Sequence[Found]) -> dict[str, Any]:
    """The columns that describe how long a call takes; those that were timed alike are described together."""
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for at, cell in enumerate(found):
        alike.setdefault((len(cell.samples), cell.rounds), []).append(at)
    columns = {name: np.full(len(found), math.nan) for name in SPREAD_COLUMNS}
    for (n, rounds), rows in alike.items():
        if n:
            described = spread([found[row].samples for row in rows], rounds)
            for name, values in zip(SPREAD_COLUMNS, described, strict=True):
                columns[name][rows] = values
    return {
        **columns,
        "n": [len(cell.samples) for cell in found],
        "rounds": [len(set(cell.rounds)) for cell in found],
        "round_of": [cell.rounds for cell in found],
        "process_of": [cell.processes for cell in found],
        "discarded": [cell.discarded for cell in found],
    }


def _with_threads(of_asv: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """``of_asv`` with the thread count, which asv does not keep: the one of all ``cells`` of that environment."""
    counts = cells[VIEW].drop_duplicates()
    agreed = counts[~counts.duplicated(VIEW[:2], keep=False)]
    return of_asv.assign(threads=of_asv[VIEW[:2]].merge(agreed, how="left")["threads"])


def _table(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> pd.DataFrame:
    """Rows as a DataFrame with the columns ``names`` and their dtypes."""
    return pd.DataFrame({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _column(name: str, values: Sequence[Any]) -> pd.Series:
    """A column with its dtype of COLUMNS."""
    dtype, _ = COLUMNS[name]
    if dtype.startswith("datetime"):
        moments = pd.Series(values, dtype="object")
        return pd.to_datetime(moments, utc=True, errors="coerce", format="ISO8601").dt.as_unit("us")
    if dtype == "float64":
        return pd.Series([math.nan if value is None else value for value in values], dtype="float64")
    return pd.Series(values, dtype="object").astype(dtype)  # type: ignore[call-overload]


def _compared(cells: pd.DataFrame) -> pd.DataFrame:
    """``cells`` with what they are beside those that differ in backend alone.

    That is the time of plain eager attention over each one's own, the fastest, and what is level with it.
    """
    group = cells.groupby(COMPARABLE, sort=False, dropna=False).ngroup().to_numpy()
    ok = (cells["status"] == "ok").to_numpy()
    low, seconds, high = (cells[name].to_numpy() for name in ("seconds_low", "seconds", "seconds_high"))
    eager = ok & (cells["backend"] == EAGER).to_numpy()
    of_eager = _first(group, np.flatnonzero(eager))
    ratios = {"speedup": (seconds, seconds), "speedup_low": (low, high), "speedup_high": (high, low)}
    for name, (eagers, own) in ratios.items():
        ratio = np.where(ok & (of_eager >= 0), eagers[of_eager] / own, math.nan)
        cells[name] = np.where(eager, 1.0, ratio)
    timed = np.flatnonzero(ok & ~np.isnan(seconds))
    fastest = _first(group, timed[np.argsort(seconds[timed], kind="stable")])
    standing = np.full(len(cells), "", dtype=object)
    standing[timed[low[timed] <= high[fastest[timed]]]] = "level"
    standing[fastest[timed]] = "fastest"
    cells["standing"] = pd.Series(standing, index=cells.index, dtype="str")
    return cells


def _first(group: Rows, rows: Rows) -> Rows:
    """For every row its group's first among ``rows``; -1 where there is none."""
    first = np.full(group.max(initial=-1) + 1, -1)
    first[group[rows[::-1]]] = rows[::-1]
    return first[group]
