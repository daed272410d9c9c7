"""``python -m impls``: the table of backends, and whether each can run on this machine.

``--json`` prints the same as JSON. ``python -m impls check my_package.my_module:my_kernel`` judges a kernel.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from argparse import RawDescriptionHelpFormatter as Verbatim
from dataclasses import asdict

from impls.abilities import Row, rows
from impls.columns import aligned
from impls.conformance import check, contracts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m impls", description="The backends, and whether each can run here.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    commands = parser.add_subparsers(dest="command", metavar="check", help="judge a kernel: check --help says how")
    check.add_arguments(commands.add_parser("check", description=check.__doc__, formatter_class=Verbatim))
    contracts.add_arguments(commands.add_parser("contracts", description=contracts.__doc__, formatter_class=Verbatim))
    options = parser.parse_args(arguments)
    if options.command == "check":
        return check.main(options)
    if options.command == "contracts":
        return contracts.main(options)
    table = rows()
    print(json.dumps([asdict(row) for row in table], indent=2) if options.json else as_text(table))
    return 0


def as_text(table: list[Row]) -> str:
    """The table as aligned columns, as wide as the terminal."""
    devices = list(dict.fromkeys(device for row in table for device in row.devices))
    header = ["backend", "what it is", *(f"on {device}" for device in devices)]
    lines = [header, *([row.name, row.summary, *cells(row, devices)] for row in table)]
    names = max(len(row.name) for row in table)
    width = (shutil.get_terminal_size((120, 24)).columns - names - 2) // (len(header) - 1) - 2
    return aligned(lines, max(width, 24))


def cells(row: Row, devices: list[str]) -> list[str]:
    """What stands in a row for each device: the ability, and the reasons for its limits."""
    if row.error:
        return [f"cannot be loaded: {row.error}"] * max(1, len(devices))
    abilities = [row.devices[device] for device in devices]
    return ["\n".join([ability.words, *(f"({reason})" for reason in ability.reasons)]) for ability in abilities]


if __name__ == "__main__":
    sys.exit(main())
