"""``python -m benchmarks gpu-check``: one command for the day a CUDA machine is there.

Its parts (``parts.PARTS``) run one after the other, each in a process of its own that is ended when its time is up.
Everything is written at once into one folder, ``results/<machine>/gpu-check/<time>/``: a run that is killed keeps what
it has. With ``--device cpu`` the same code runs on a CPU, by its clock, which tries the logic.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.gpu_check import report
from benchmarks.gpu_check.parts import PARTS, Part
from benchmarks.instrument import gpu, journal, origin
from benchmarks.instrument.findings import now
from benchmarks.instrument.workers import how_it_ended

GRACE = 0.9
"""Share of its time that a part is told: what it does not end by itself is ended for it at the rest."""
RESERVE = 5.0
"""Seconds kept for the report."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``gpu-check`` takes."""
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--machine", type=origin.machine_name, default="local", help="the machine's name in results/ (default: local)"
    )
    parser.add_argument("--minutes", type=float, default=8.0, help="for everything (default: 8)")
    parser.add_argument("--part", action="append", choices=[part.name for part in PARTS], help="one part only; repeat")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: whether it runs, not how fast anything is")
    parser.add_argument("--results", type=Path, default=origin.ROOT / "results", help=argparse.SUPPRESS)


def main(given: argparse.Namespace) -> int:
    """0; 1 if something is wrong or did not come to its end; 2 where there is no CUDA; 130 if interrupted."""
    until = time.monotonic() + 60 * given.minutes - RESERVE
    if given.device == "cuda" and (reason := no_cuda()):
        print(f"{reason}. With --device cpu the same parts run on the CPU, which tries them.", file=sys.stderr)
        return 2
    folder = given.results / given.machine / "gpu-check" / f"{now():%Y%m%dT%H%M%SZ}"
    folder.mkdir(parents=True)
    chosen = [part for part in PARTS if not given.part or part.name in given.part]
    wrong: list[str] = []
    for number, part in enumerate(chosen):
        limit = (until - time.monotonic()) * part.share / sum(other.share for other in chosen[number:])
        print(f"{part.name}: {part.what} (at most {limit:.0f} s)", flush=True)
        begun = time.monotonic()
        try:
            ended, failed = run(part, folder, given.device, limit, given.tiny)
        except KeyboardInterrupt:
            report.write(folder)
            print(f"Interrupted: what was found is in {folder}")
            return 130
        journal.append(folder / "parts.jsonl", {
            "record": "part", "part": part.name, "ended": ended, "failed": failed, "limit": round(limit, 1),
            "seconds": round(time.monotonic() - begun, 1),
        })  # fmt: skip
        wrong = report.write(folder)
    for sentence in wrong:
        print(f"WRONG: {sentence}")
    print(f"{len(wrong)} wrong. {folder / 'report.md'}")
    return 1 if wrong else 0


def run(part: Part, folder: Path, device: str, limit: float, tiny: bool) -> tuple[str, bool]:
    """How the part's process ended, in words, and whether that is a failure. Its words go to ``<part>.log``."""
    if limit <= 0:
        return "left out: no time was left", True
    command = [sys.executable, "-m", "benchmarks.gpu_check", part.name, str(folder), device, f"{GRACE * limit:.1f}"]
    with (folder / f"{part.name}.log").open("w") as log:
        process = subprocess.Popen(
            [*command, *(["--tiny"] if tiny else [])], cwd=origin.ROOT, env=gpu.ORDER | os.environ, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            found = any(
                path.stat().st_size for path in folder.rglob("*.jsonl") if part.name in (*path.parts, path.stem)
            )
            kept = "what it had found is kept" if found else "it had found nothing"
            return f"cut short after {limit:.0f} s: {kept}", not found
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return ("came to its end", False) if code == 0 else (f"ended {how_it_ended(code)}; its log says more", True)


def no_cuda() -> str:
    """Why there is no CUDA here; empty if there is. In a process of its own: this one stays free of a device."""
    program = "import torch; print(torch.version.cuda, torch.cuda.is_available())"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if said.returncode:
        return f"PyTorch cannot be imported: {(said.stderr.strip().splitlines() or ['no reason'])[-1]}"
    version, available = said.stdout.split()
    if available == "True":
        return ""
    if version == "None":
        return "This PyTorch was built without CUDA"
    return f"PyTorch, built for CUDA {version}, finds no device"
