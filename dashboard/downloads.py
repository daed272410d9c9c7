"""The whole dataset beside the page: every cell of the history, every column, as CSV and as Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd


def write(cells: pd.DataFrame, out: Path) -> list[Path]:
    """``out/cells.csv`` and, where pyarrow is installed, ``out/cells.parquet``; lists and dicts as JSON texts."""
    flat = cells.copy()
    column: str
    for column in flat.select_dtypes("object", exclude="str"):
        flat[column] = flat[column].map(json.dumps)
    paths = [out / "cells.csv"]
    flat.to_csv(paths[0], index=False, errors="backslashreplace")
    try:
        flat.to_parquet(out / "cells.parquet", index=False)
    except ImportError:
        return paths
    return [*paths, out / "cells.parquet"]
