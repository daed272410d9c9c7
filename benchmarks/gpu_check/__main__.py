"""One part, in a process of its own: ``python -m benchmarks.gpu_check PART FOLDER DEVICE SECONDS [--tiny]``."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks.gpu_check.parts import PARTS, Task
from benchmarks.instrument import machine


def main() -> None:
    """Run the part that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=[part.name for part in PARTS])
    parser.add_argument("folder", type=Path)
    parser.add_argument("device", choices=("cuda", "cpu"))
    parser.add_argument("seconds", type=float)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    machine.end_with_parent()
    task = Task(given.folder, given.part, given.device, given.seconds, given.tiny)
    importlib.import_module(f"benchmarks.gpu_check.{given.part}").main(task)


if __name__ == "__main__":
    main()
