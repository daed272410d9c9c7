"""The journal: a line for every finished cell, on disk before the next is begun (schema: ``results/README.md``)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = 1
Record = dict[str, Any]


def append(path: Path, *records: Record) -> None:
    """Add ``records`` to the journal, together, and wait until they are on disk. A torn last line is ended first.

    Raises ValueError for a number that is not finite.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"schema": SCHEMA, **record}, allow_nan=False, separators=(",", ":")) for record in records]
    with path.open("ab+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write("".join(line + "\n" for line in lines).encode())
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> Iterator[Record]:
    """The journal's records of this schema, in order; none if there is no such file.

    A line that is not JSON is left out: it was torn when the writer was killed.
    """
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and record.get("schema") == SCHEMA:
                yield record


def write_atomically(path: Path, text: str) -> None:
    """Write a whole file so that a reader, or a crash, finds the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text)
    os.replace(beside, path)
