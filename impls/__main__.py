"""``python -m impls``: the table of backends, and whether each can run on this machine.

``--json`` prints the same as JSON. ``python -m impls check my_package.my_module:my_kernel`` judges a kernel.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import textwrap
from dataclasses import asdict

from impls.abilities import Row, rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m impls", description="The backends, and whether each can run here.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    table = rows()
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=2))
    else:
        print_table(table)
    return 0


def print_table(table: list[Row]) -> None:
    """The table as aligned columns, as wide as the terminal."""
    devices = list(dict.fromkeys(device for row in table for device in row.devices))
    header = ["backend", "what it is", *(f"on {device}" for device in devices)]
    lines = [header, *([row.name, row.summary, *cells(row, devices)] for row in table)]
    names = max(len(row.name) for row in table)
    width = (shutil.get_terminal_size((120, 24)).columns - names - 2) // (len(header) - 1) - 2
    print(aligned(lines, max(width, 24)))


def cells(row: Row, devices: list[str]) -> list[str]:
    """What stands in a row for each device: the ability, and the reasons for its limits."""
    if row.error:
        return [f"cannot be loaded: {row.error}"] * max(1, len(devices))
    abilities = [row.devices[device] for device in devices]
    return ["\n".join([ability.words, *(f"({reason})" for reason in ability.reasons)]) for ability in abilities]


def aligned(lines: list[list[str]], width: int) -> str:
    """Columns of at most ``width`` characters, aligned, with a rule under the first line."""
    wrapped = [[wrap(cell, width) for cell in line] for line in lines]
    widths = [max(len(part) for line in wrapped for part in line[i]) for i in range(len(lines[0]))]
    text = ["  ".join(part.ljust(w) for part, w in zip(parts, widths, strict=True)).rstrip()
            for line in wrapped for parts in itertools.zip_longest(*line, fillvalue="")]  # fmt: skip
    return "\n".join([text[0], "  ".join("-" * w for w in widths), *text[1:]])


def wrap(cell: str, width: int) -> list[str]:
    return [part for line in cell.split("\n") for part in textwrap.wrap(line, width) or [""]]


if __name__ == "__main__":
    sys.exit(main())
