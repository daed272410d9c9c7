"""The README's figures, as SVG and PNG without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from dashboard import charts
from dashboard.history import VIEW
from dashboard.naming import number
from dashboard.operations import describe
from dashboard.units import ratio, si
from dashboard.verdict import verdict

DTYPE = "float32"


def write(cells: pd.DataFrame, out: Path) -> list[Path]:
    """Write ``speedup`` and ``scaling`` for one commit's cells to ``out``; returns the paths.

    Raises ValueError if nothing in ``cells`` can be drawn.
    """
    import vl_convert

    own = cells[(cells["dtype"] == DTYPE) & (cells["level"] == "core") & (cells["size"] != "")]
    drawn = {name: spec for name, spec in (("speedup", speedup(own)), ("scaling", scaling(own))) if spec}
    if not drawn:
        raise ValueError(f"no {DTYPE} timings of cores in these results: measure with `make bench`, then draw again")
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, spec in drawn.items():
        svg, png = out / f"{name}.svg", out / f"{name}.png"
        spec = spec | {"background": "white"}
        svg.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
        png.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
        paths += [svg, png]
    return paths


def newest(cells: pd.DataFrame, machine: str | None = None, commit: str | None = None) -> pd.DataFrame:
    """The cells of one commit in one place: the newest, or that of ``machine`` and ``commit`` (a prefix of its hash).

    Raises ValueError if there are none.
    """
    own = cells[~cells["dirty"]]
    if machine is not None:
        own = own[own["machine"] == machine]
    if commit is not None:
        own = own[own["commit"].str.startswith(commit)]
    if own.empty:
        raise ValueError(f"no results of machine {machine or 'any'}, commit {commit or 'any'}")
    last = own.sort_values("commit_date", kind="stable", na_position="first").iloc[-1]
    same = pd.Series(True, index=own.index)
    for name in (*VIEW, "commit"):
        same &= (own[name] == last[name]) | (own[name].isna() & pd.isna(last[name]))
    return own[same]


def speedup(cells: pd.DataFrame) -> charts.Spec | None:
    """Every backend against eager, at the size in the middle of each operation's."""
    values = []
    for (operation, direction), group in cells.groupby(["operation", "direction"], sort=False):
        rows = group.to_dict("records")
        at = verdict(rows).at
        sizes = set(at.split(", "))
        for row in {row["backend"]: row for row in rows if row["size"] in sizes and number(row["speedup"])}.values():
            values.append(
                {
                    "operation": f"{describe(str(operation)).title} ({at.replace('=', ' ')})", "direction": direction,
                    "backend": row["backend"], "speedup": row["speedup"], "low": row["speedup_low"],
                    "high": row["speedup_high"], "text": f"{row['backend']}: {ratio(row['speedup'])}",
                }
            )  # fmt: skip
    values = [value for value in values if value["backend"] != "eager"]
    return charts.with_data(charts.speedups(), values) if values else None


def scaling(cells: pd.DataFrame) -> charts.Spec | None:
    """Time and memory of row attention over R, forward."""
    rows = cells[(cells["series"] == "OverR") & (cells["operation"] == "msa_row") & (cells["direction"] == "forward")]
    panels = []
    for title, unit, names in (("Time of a call", "s", ("seconds",)), ("Memory beyond the inputs", "B", BYTES)):
        values = [value for row in rows.to_dict("records") for value in points(row, "R", unit, names)]
        if values:
            heading = f"{title}, MSA row attention, forward"
            spec = charts.with_data(charts.scaling(unit), values, width=300, height=260, title=heading)
            spec["encoding"]["x"] |= {
                "title": "R (residues)", "axis": {"values": sorted({value["size"] for value in values})},
            }  # fmt: skip
            panels.append({name: part for name, part in spec.items() if name not in ("$schema", "config")})
    return {**charts.with_data({}, []), "hconcat": panels, "config": charts.scaling("s")["config"]} if panels else None


BYTES = ("bytes", "predicted_bytes")


def points(row: dict[Any, Any], axis: str, unit: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The cell ``row`` as a value of ``charts.scaling``: the first of ``names`` that is known."""
    for name in names:
        if number(row[name]):
            kind = "predicted" if name.startswith("predicted") else "measured"
            timed = unit == "s"
            return [
                {
                    "size": row[axis], "value": row[name], "backend": row["backend"], "kind": kind,
                    "low": row["seconds_low"] if timed else None, "high": row["seconds_high"] if timed else None,
                    "text": f"{row['backend']}, {row['size']}: {si(row[name], unit)}, {kind}",
                }
            ]  # fmt: skip
    return []
