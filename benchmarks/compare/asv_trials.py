"""The trials of ``compare``, through ``asv continuous`` instead: does it report a slowdown that is really computed?

``python -m benchmarks.compare.asv_trials --slowdown 0.05 --trials 10 --busy``: a clone with a second commit whose
backends compute on for 5 % of every call's time; a plain ``time_*`` benchmark of asv's, of which every parameter is one
trial (the same cells as ``trials``). asv measures both commits in turn, as it does by itself. Told is what it says with
its usual factor, 1.1, and with one as small as the margin of ``compare``, of the same measurements.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.compare.trials import PLANT, busy, cells
from benchmarks.instrument import choice, origin, plugin

SUITE = """
from functools import partial


class Trial:
    params = [list(range({trials}))]
    param_names = ["trial"]

    def setup(self, trial):
        import torch

        import impls
        from benchmarks.compare.trials import cells
        from benchmarks.instrument.inputs import seeded
        from benchmarks.instrument.specimen import call_of, inputs_of

        torch.set_num_threads(1)
        cell = cells(trial + 1)[-1]
        inputs = inputs_of(cell.problem, seeded(cell.problem, "cpu"))
        call = call_of(cell.problem, impls.get(cell.backend), cell.direction, inputs)
        self.call = partial(call, inputs.cotangent)

    def time_forward(self, trial):
        self.call()
"""
ON_PATH = (
    "import sys, sysconfig; open(sysconfig.get_path('purelib') + '/trial.pth', 'w').write('\\n'.join(sys.argv[1:]))"
)
"""For asv's environment: it finds the commit's files, and this environment's packages (torch above all)."""
ROW = re.compile(r"^\| *([-+!x]?) *\|[^|]*\|[^|]*\| *([~\d.na/]+) *\| *trial\.Trial\.time_forward\((\d+)\) *\|$", re.M)
FACTORS = (1.1, 1.02)
IDENTITY = ("-c", "user.name=AxialBench", "-c", "user.email=axialbench@example.org")


def git(folder: Path, *arguments: str) -> str:
    """What git says. Raises CalledProcessError."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def planted(folder: Path, slowdown: float) -> tuple[str, str]:
    """A clone of HEAD in ``folder`` with one more commit, slower by ``slowdown``; both commits."""
    git(origin.ROOT, "clone", "-q", "--no-hardlinks", str(origin.ROOT), str(folder))
    base = git(folder, "rev-parse", "HEAD")
    git(folder, "checkout", "-q", "-B", "main")
    with (folder / "impls" / "interface.py").open("a") as file:
        file.write(PLANT.format(slowdown=slowdown))
    git(folder, *IDENTITY, "commit", "-q", "-a", "-m", f"every call computes {slowdown:.0%} longer")
    return base, git(folder, "rev-parse", "HEAD")


def configured(folder: Path, trials: int) -> Path:
    """asv's configuration, and its suite, in ``folder``; the configuration's path."""
    (folder / "suite").mkdir()
    (folder / "suite" / "__init__.py").touch()
    (folder / "suite" / "trial.py").write_text(SUITE.format(trials=trials))
    (folder / "on_path.py").write_text(ON_PATH)
    conf = {
        "version": 1, "project": "trial", "repo": "clone", "branches": ["main"], "environment_type": "virtualenv",
        "benchmark_dir": "suite", "matrix": {"req": {"pip+asv_runner": ["0.3.2"]}}, "build_command": [],
        "uninstall_command": [],
        "install_command": [f"python {folder / 'on_path.py'} {{build_dir}} {sysconfig.get_path('purelib')}"],
    }  # fmt: skip
    path = folder / "asv.conf.json"
    path.write_text(json.dumps(conf))
    return path


def asv(conf: Path, *arguments: str) -> str:
    """What asv says. Raises RuntimeError, with that, if it failed; a slowdown that it reports is no failure."""
    command = [sys.executable, "-m", "asv", arguments[0], "--config", str(conf), *arguments[1:]]
    done = subprocess.run(command, cwd=conf.parent, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def verdicts(said: str) -> dict[int, tuple[str, str]]:
    """By trial, asv's mark (``+`` is slower, ``-`` faster) and ratio, from a table of ``asv compare``."""
    return {int(trial): (mark, ratio) for mark, ratio, trial in ROW.findall(said)}


def main() -> None:
    """Measure once, and print what asv makes of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slowdown", type=float, default=0.05)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--busy", action="store_true", help="another process works on the last core")
    given = parser.parse_args()
    begun = time.monotonic()
    plugin.describe(plugin.LOCAL)
    with tempfile.TemporaryDirectory(prefix="axialbench-") as name, busy(given.busy):
        commits = planted(Path(name) / "clone", given.slowdown)
        conf = configured(Path(name), given.trials)
        asv(conf, "continuous", "--machine", plugin.LOCAL, "--show-stderr", *commits)
        found = {
            factor: verdicts(asv(conf, "compare", "--machine", plugin.LOCAL, "--factor", str(factor), *commits))
            for factor in FACTORS
        }
    print(f"{given.trials} trials in {time.monotonic() - begun:.0f} s")
    for number, cell in enumerate(cells(given.trials)):
        marks = ", ".join(f"factor {factor:g}: {said(of.get(number, ('', '')))}" for factor, of in found.items())
        print(f"{marks}  {choice.name(cell)}")
    for factor, of in found.items():
        counts = Counter(said(one) for one in of.values())
        print(f"factor {factor:g}: {', '.join(f'{n} {verdict}' for verdict, n in counts.most_common())}")


def said(one: tuple[str, str]) -> str:
    """asv's mark in words, with its ratio where it reports one."""
    return {"+": "slower", "-": "faster"}.get(one[0], "not reported")


if __name__ == "__main__":
    main()
