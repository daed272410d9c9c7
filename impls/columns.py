"""Plain text in aligned columns."""

from __future__ import annotations

import itertools
import textwrap


def aligned(lines: list[list[str]], width: int) -> str:
    """Columns of at most ``width`` characters, aligned, with a rule under the first line."""
    wrapped = [[wrap(cell, width) for cell in line] for line in lines]
    widths = [max(len(part) for line in wrapped for part in line[i]) for i in range(len(lines[0]))]
    text = [
        "  ".join(part.ljust(w) for part, w in zip(parts, widths, strict=True)).rstrip()
        for line in wrapped
        for parts in itertools.zip_longest(*line, fillvalue="")
    ]
    return "\n".join([text[0], "  ".join("-" * w for w in widths), *text[1:]])


def wrap(cell: str, width: int) -> list[str]:
    return [part for line in cell.split("\n") for part in textwrap.wrap(line, width) or [""]]
