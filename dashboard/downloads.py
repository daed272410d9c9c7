"""The whole dataset beside the page: every cell of the history, every column, as CSV and as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pandas as pd


def write(cells: pd.DataFrame, out: Path) -> list[Path]:
    """``out/cells.csv`` and ``out/cells.parquet``; lists and dicts as JSON texts."""
    import pyarrow
    from pyarrow import csv, parquet

    flat = cells.copy(deep=False)
    column: str
    for column in flat.select_dtypes("object", exclude="str"):
        flat[column] = _texts(flat[column].tolist())
    table = pyarrow.Table.from_pandas(flat, preserve_index=False)
    paths = [out / "cells.csv", out / "cells.parquet"]
    csv.write_csv(table, paths[0])
    parquet.write_table(table, paths[1])
    return paths


def _texts(values: list[Any]) -> list[str]:
    """Each value as JSON; a list or dict that many cells share is written once."""
    known: dict[int, str] = {}
    encode = msgspec.json.encode
    return [known.get(id(value)) or known.setdefault(id(value), encode(value).decode()) for value in values]
