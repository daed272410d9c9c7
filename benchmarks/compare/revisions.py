"""The two sides of a comparison: where their ``impls`` lies, and which Python runs it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from benchmarks.instrument import origin

WORKING_TREE = "."


@dataclass(frozen=True)
class Side:
    """One of the two that are compared.

    Attributes:
        role: ``"base"`` or ``"head"``.
        commit: the commit's hash, or ``"working tree"``.
        folder: what holds ``impls/``.
        python: the interpreter, in whose environment torch is found.
        backend: what takes the cell's backend's place; None if nothing does.
    """

    role: str
    commit: str
    subject: str
    folder: Path
    python: str = sys.executable
    backend: str | None = None

    @property
    def name(self) -> str:
        """For tables: ``"db6d9cb2"``, ``"working tree"``, or the backend."""
        return self.backend or (self.commit[:8] if len(self.commit) == 40 else self.commit)

    def as_dict(self) -> dict[str, Any]:
        """For the record: all but the paths, which are this machine's own."""
        return {name: value for name, value in asdict(self).items() if name not in ("folder", "python")}


def side(role: str, revision: str, into: Path, **options: Any) -> Side:
    """The side that ``revision`` names: a commit, a branch, or ``.`` for the working tree as it is.

    The commit's ``impls`` is unpacked below ``into``. Raises ValueError where git knows no such revision, or it has no
    ``impls``.
    """
    if revision == WORKING_TREE:
        return Side(role, "working tree", "what is not committed included", origin.ROOT, **options)
    commit = origin.git(origin.ROOT, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not commit:
        raise ValueError(f"git knows no revision {revision!r}; expected a commit, a branch, a tag, or . for this tree")
    packed = subprocess.run(["git", "-C", str(origin.ROOT), "archive", commit, "impls"], capture_output=True)
    if packed.returncode:
        raise ValueError(f"{revision} ({commit[:8]}) has no impls/: there is nothing to measure")
    folder = into / role
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Side(role, commit, origin.git(origin.ROOT, "log", "-1", "--format=%s", commit), folder, **options)
