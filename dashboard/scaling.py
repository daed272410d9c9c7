"""How time and memory grow: exponents in S, R, T and N_head, each with its interval, beside those of ``impls.cost``.

    python -m dashboard.scaling [--results DIR] [--machine NAME] [--commit HASH]
    python -m dashboard.scaling --frontier limits.json --out frontier.svg

A series varies one axis; its exponent is the slope of log value over log size. No call is a power law over all sizes
(what a call costs anyway flattens it at the small end), so the interval holds both the samples' own uncertainty and how
far the points lie off a line.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student

from dashboard import frontier, history
from dashboard.figures import newest
from impls import cost
from impls.problem import Problem

AXES = ("S", "R", "T", "N_head")
SERIES = [
    *history.VIEW, "commit", "dirty", "module", "series", "operation", "level", "backend", "dtype", "direction",
]  # fmt: skip
"""Cells that share these differ in one size alone."""
OF_COMMITS = [name for name in SERIES if name not in ("commit", "dirty")]
CHANNELS = {"msa_global_column": 64, "triangle_starting": 128, "triangle_ending": 128, "template_pointwise": 128}
"""Channels of a module's main input, where they are not 256."""
CONFIDENCE = 0.95
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Exponent:
    """The slope of log value over log size, and the ends of its 95 % interval."""

    slope: float
    low: float
    high: float


def exponents(cells: pd.DataFrame) -> pd.DataFrame:
    """One row for each series and quantity (``seconds``, ``bytes``) that ``cells`` hold at two sizes or more.

    Columns: SERIES, ``axis``, ``sizes`` (a list), ``quantity``, ``exponent``, ``low``, ``high``, and two exponents of
    ``impls.cost`` at the same sizes. ``work``: of the FLOPs, or of the score tensor's bytes. ``least``: of the bytes
    that the core must move, or of those that it returns.
    """
    right = cells[(cells["status"] == "ok") & (cells["level"] != "stack")]
    rows = [row for _, series in right.groupby(SERIES, sort=False, dropna=False) for row in _of_series(series)]
    names = [*SERIES, "axis", "sizes", "quantity", "exponent", "low", "high", "work", "least"]
    return pd.DataFrame(rows, columns=names)


def _of_series(series: pd.DataFrame) -> Iterator[dict[str, Any]]:
    axis = series["size"].iloc[0].partition("=")[0]
    if axis not in AXES:
        return
    for quantity in ("seconds", "bytes"):
        known = series[series[quantity] > 0].sort_values(axis)
        sizes = known[axis].to_numpy()
        if len(set(sizes)) < 2:
            continue
        timed = quantity == "seconds"
        errors = np.log(known["seconds_high"].to_numpy() / known["seconds_low"].to_numpy()) / 2 if timed else 0.0
        found = fit(sizes, known[quantity].to_numpy(), errors)
        flops = cost.module_flops if known["level"].iloc[0] == "module" else cost.core_flops
        problems = [problem(row, _sizes(row)) for row in known.to_dict("records")]
        work, least = (flops, cost.least_bytes_moved) if timed else (cost.score_bytes, cost.output_bytes)
        yield {
            **{name: known[name].iloc[0] for name in SERIES}, "axis": axis, "sizes": [int(size) for size in sizes],
            "quantity": quantity, "exponent": found.slope, "low": found.low, "high": found.high,
            "work": fit(sizes, [work(one) for one in problems]).slope,
            "least": fit(sizes, [least(one) for one in problems]).slope,
        }  # fmt: skip


def over_commits(cells: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """For each series, quantity and set of sizes: what they are, and the exponents commit by commit, in order of time.

    ``cells`` are ordered so, and none of them dirty. The first of each pair is OF_COMMITS and ``axis``, ``sizes`` and
    ``quantity``; the second has the columns ``commit``, ``exponent``, ``low`` and ``high``. Exponents over other sizes
    are no change of the code, so they are apart.
    """
    read = [*dict.fromkeys((*OF_COMMITS, *AXES, "size", "commit", "seconds", "seconds_low", "seconds_high", "bytes"))]
    right = cells.loc[(cells["status"] == "ok") & (cells["level"] != "stack"), read]
    for names, series in right.groupby(OF_COMMITS, sort=False, dropna=False):
        axis = series["size"].iloc[0].partition("=")[0]
        if axis not in AXES:
            continue
        for quantity in ("seconds", "bytes"):
            known = series[series[quantity] > 0].drop_duplicates(["commit", axis], keep="last")
            commits, wanted = list(dict.fromkeys(known["commit"])), [quantity, "seconds_low", "seconds_high"]
            ordered = known.pivot(index="commit", columns=axis, values=wanted).reindex(commits)
            values = ordered[quantity].to_numpy()
            errors = np.zeros_like(values)
            if quantity == "seconds":
                errors = np.log(ordered["seconds_high"].to_numpy() / ordered["seconds_low"].to_numpy()) / 2
            measured = ~np.isnan(values)
            for pattern in np.unique(measured, axis=0):
                sizes = ordered[quantity].columns.to_numpy()[pattern]
                rows = (measured == pattern).all(axis=1)
                if len(sizes) > 1:
                    found = _slopes(sizes, values[rows][:, pattern], errors[rows][:, pattern])
                    table = dict(zip(("exponent", "low", "high"), found, strict=True))
                    what = {"axis": axis, "sizes": [int(size) for size in sizes], "quantity": quantity}
                    of = np.array(commits, dtype=object)[rows]
                    yield dict(zip(OF_COMMITS, names, strict=True)) | what, pd.DataFrame({"commit": of, **table})


def fit(sizes: npt.ArrayLike, values: npt.ArrayLike, errors: npt.ArrayLike = 0.0) -> Exponent:
    """The exponent of ``values`` in ``sizes``: least squares on the logarithms.

    ``errors`` are half the 95 % intervals of the values' logarithms. The interval is the wider of two: what they
    amount to, and, from three sizes on, Student's t of the distances from the line. Raises ValueError for fewer than
    two different sizes.
    """
    return Exponent(*_slopes(np.asarray(sizes), np.asarray(values, dtype=float), np.asarray(errors)).tolist())


def _slopes(sizes: Values, values: Values, errors: Values) -> Values:
    """Slope, and low and high end of its interval, for every row of ``values`` (``fit`` says how)."""
    x, y = np.log(sizes.astype(float)), np.log(values)
    if len(np.unique(x)) < 2:
        raise ValueError(f"an exponent needs values at two sizes or more, here {sizes.tolist()}")
    centred = x - x.mean()
    spread = float((centred**2).sum())
    slope = (centred * y).sum(-1) / spread
    own = np.sqrt(((centred * errors) ** 2).sum(-1)) / spread
    free = len(x) - 2
    off = np.zeros_like(slope)
    if free:
        rest = y - y.mean(-1, keepdims=True) - slope[..., None] * centred
        quantile = float(student.ppf((1 + CONFIDENCE) / 2, free))
        off = quantile * np.sqrt((rest**2).sum(-1) / free / spread)
    half = np.maximum(own, off)
    return np.stack([slope, slope - half, slope + half])


def problem(about: Mapping[Any, Any], sizes: Mapping[str, Any]) -> Problem:
    """The problem as ``impls`` describes it. Raises ValueError for one that it does not know."""
    return Problem(
        operation=about["operation"], dtype=about["dtype"], direction=about["direction"], mask=about["mask"] or "none",
        c_in=CHANNELS.get(about["operation"], 256), **sizes,
    )  # fmt: skip


def _sizes(row: Mapping[Any, Any]) -> dict[str, int]:
    """The row's axes, those it has."""
    return {axis: int(row[axis]) for axis in (*AXES, "c") if not math.isnan(row[axis])}


def main(argv: list[str] | None = None) -> int:
    """Print the exponents of one commit, or draw a memory frontier."""
    parser = argparse.ArgumentParser(prog="python -m dashboard.scaling", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"), help="the record (default: results)")
    parser.add_argument("--machine", help="whose results (default: those measured last)")
    parser.add_argument("--commit", help="of which commit (default: the newest)")
    parser.add_argument("--frontier", type=Path, metavar="FILE",
                        help="instead: draw the limits of `python -m benchmarks frontier --json FILE`")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("frontier.svg"), help="where to (default: frontier.svg)")
    given = parser.parse_args(argv)
    if given.frontier:
        try:
            print("\n".join([*frontier.draw(given.frontier, given.out), str(given.out)]))
        except (OSError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        return 0
    found = exponents(newest(history.frame(given.results), given.machine, given.commit))
    if found.empty:
        print("No series has numbers at two sizes: measure more of them, `python -m benchmarks run --effort full`")
        return 1
    print(as_text(found))
    return 0


def as_text(found: pd.DataFrame) -> str:
    """A line for each exponent, series by series."""
    shown = found.sort_values(["module", "series", "operation", "direction", "dtype", "quantity"], kind="stable")
    ends = zip(shown["low"], shown["high"], strict=True)
    interval = [f"{low:.2f} to {high:.2f}" if low < high else "" for low, high in ends]
    columns = ["operation", "level", "axis", "sizes", "direction", "dtype", "quantity", "backend"]
    table = shown[columns].assign(
        sizes=[",".join(map(str, sizes)) for sizes in shown["sizes"]],
        exponent=shown["exponent"].map("{:.2f}".format),
        interval=interval,
        work=shown["work"].map("{:.2f}".format),
        least=shown["least"].map("{:.2f}".format),
    )
    return table.to_string(index=False)


if __name__ == "__main__":
    sys.exit(main())
