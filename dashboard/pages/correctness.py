"""What the conformance kit found, for the page of that name: the files of ``results/conformance/``, line by line.

    correctness   {"schema": 1, "kernels", "modules", "right", "contracts": file, "charts": {"drift": specification}}
    file          {"file", "command": its writer, "missing": bool, "broken": unreadable lines, "rows": [...]}

The rows are the files' lines (``results/conformance/README.md``), with the keys of the classes below alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from dashboard.charts import with_scales
from dashboard.pages.correctness_charts import drift
from dashboard.pages.record import Record


class Line(msgspec.Struct, gc=False):
    schema: Literal[1]


class WrongKernel(Line):
    mutant: str
    families_by_dtype: dict[str, int]
    dtypes_by_family: dict[str, int]
    operation: str = ""


class RightKernel(Line):
    kernel: str
    dtype: str
    tried: int
    rejected: int
    not_judged: int
    largest_ratio: float


class Answer(Line):
    backend: str
    device: str
    torch: str
    question: str | None
    declared: str | None
    found: str
    ok: bool | None


FILES: dict[str, tuple[str, type[Line], str]] = {
    "kernels": ("kill_matrix.jsonl", WrongKernel, "python tests/kill_matrix.py kill_matrix.jsonl"),
    "modules": ("module_kill_matrix.jsonl", WrongKernel, "python tests/kill_matrix.py module_kill_matrix.jsonl"),
    "right": ("false_rejections.jsonl", RightKernel, "python tests/false_rejections.py"),
    "contracts": ("contracts.jsonl", Answer, "make contracts"),
}


def files(record: Record) -> dict[str, Any]:
    """The page's one data file."""
    spec = with_scales(drift(), sorted(record.history.cells["backend"].unique()))
    read = {name: _read(record.results, *about) for name, about in FILES.items()}
    return {"correctness": {"schema": 1, **read, "charts": {"drift": spec}}}


def _read(results: Path | None, name: str, line: type[Line], command: str) -> dict[str, Any]:
    """What one file holds, and what there is to say about the rest."""
    try:
        texts = (results / "conformance" / name).read_bytes().split(b"\n") if results else None
    except OSError:
        texts = None
    rows, broken = [], 0
    for text in filter(bytes.strip, texts or ()):
        try:
            rows.append(msgspec.to_builtins(msgspec.json.decode(text, type=line)))
        except (msgspec.DecodeError, UnicodeDecodeError):
            broken += 1
    return {"file": name, "command": command, "missing": texts is None, "broken": broken, "rows": rows}
