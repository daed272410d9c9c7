"""Whose numbers these are: the commit, environment and machine that asv is measuring, and what is uncommitted."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def machine_name(text: str) -> str:
    """``text`` if it can be a folder of ``results/``: what a command line's ``--machine`` takes.

    Raises argparse.ArgumentTypeError for any other name.
    """
    if not re.fullmatch(r"\w[\w.+-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} names no folder: use letters, digits, '_', '.', '+' and '-'")
    return text


@dataclass(frozen=True)
class Origin:
    """Where a sweep's numbers come from and go to.

    Attributes:
        env_dir: the environment that the commit was installed into; None if asv installed nothing (``-E existing``).
        machine: its name in ``results/``.
        results: asv's folder of results, or another for runs that asv does not save.
    """

    commit: str
    commit_date: str
    subject: str
    env_name: str
    env_dir: Path | None
    requirements: dict[str, str]
    machine: str
    results: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Origin:
        """What asv and the plugin say in environment variables."""
        repo = Path(environ.get("ASV_CONF_DIR", ROOT))
        env_dir = Path(environ["ASV_ENV_DIR"]) if environ.get("ASV_COMMIT") else None
        commit = environ.get("ASV_COMMIT") or environ.get("AXIALBENCH_COMMIT") or git(repo, "rev-parse", "HEAD")
        date, _, subject = git(repo, "log", "-1", "--format=%cI%n%s", commit).partition("\n")
        return cls(
            commit, date, subject, environ.get("ASV_ENV_NAME", "none"), env_dir, requirements(env_dir),
            environ.get("AXIALBENCH_MACHINE", "local"), Path(environ.get("AXIALBENCH_RESULTS", repo / "results")),
        )  # fmt: skip

    @property
    def file_name(self) -> str:
        """asv's name for the results of this commit and environment, without its ending."""
        env = self.env_name
        if len(env) >= 128:
            env = "env-" + hashlib.md5(env.encode(), usedforsecurity=False).hexdigest()
        return f"{self.commit[:8]}-{env}"

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.results / self.machine / "journal" / f"{self.file_name}.jsonl"

    @property
    def asv_file(self) -> Path:
        """asv's own file of results."""
        return self.results / self.machine / f"{self.file_name}.json"

    def saved_by_asv(self, module: str) -> datetime:
        """When asv began to read what it last saved of ``module``; long ago if it saved nothing."""
        with suppress(OSError, ValueError, KeyError):
            saved = json.loads(self.asv_file.read_text())
            column = saved["result_columns"].index("started_at")
            started = [
                row[column]
                for name, row in saved["results"].items()
                if name.split(".")[0] == module and len(row) > column
            ]
            return datetime.fromtimestamp(max((time or 0 for time in started), default=0) / 1000, UTC)
        return datetime.fromtimestamp(0, UTC)


def requirements(env_dir: Path | None) -> dict[str, str]:
    """The requirements that asv's environment is made of, as asv wrote them there."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found: dict[str, Any] = json.loads((env_dir / "asv-env-info.json").read_text())  # type: ignore[operator]
        return dict(found["requirements"])
    return {}


def instrument() -> str:
    """A short hash of all code under ``benchmarks/``: what measured."""
    folder, digest = ROOT / "benchmarks", hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def dirty(repo: Path = ROOT) -> dict[str, bool]:
    """Whether ``impls/`` and ``benchmarks/`` hold changes that are not committed."""
    return {room: bool(git(repo, "status", "--porcelain", "--", room)) for room in ("impls", "benchmarks")}


def warnings(changed: dict[str, bool]) -> list[str]:
    """What to tell the user about uncommitted changes."""
    said = []
    if changed["impls"]:
        said.append("impls/ has uncommitted changes: YOUR EDITS ARE NOT MEASURED, asv measures commits. Commit first.")
    if changed["benchmarks"]:
        said.append("benchmarks/ has uncommitted changes: THESE NUMBERS BELONG TO NO COMMIT and are marked as such.")
    return said


def git(repo: Path, *arguments: str) -> str:
    """What git says, or nothing where there is no repository."""
    done = subprocess.run(["git", "-C", str(repo), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""
