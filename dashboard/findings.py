"""What could not be read, in words: the file, the line, what is wrong with it, and the way out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """One thing wrong with one file; ``lines`` are the lines that have it (none: the whole file)."""

    path: Path
    problem: str
    way_out: str
    lines: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.path}{self.where}: {self.problem}. {self.way_out[:1].upper()}{self.way_out[1:]}."

    @property
    def where(self) -> str:
        """``", line 3"``, ``", lines 3, 4 and 9 more"``, or nothing."""
        if not self.lines:
            return ""
        shown = ", ".join(map(str, self.lines[:5]))
        more = f" and {len(self.lines) - 5} more" if len(self.lines) > 5 else ""
        return f", line{'s' * (len(self.lines) > 1)} {shown}{more}"


class Findings:
    """Collects findings; the same problem in many lines of a file is one finding."""

    def __init__(self) -> None:
        self._lines: dict[tuple[Path, str, str], list[int]] = {}

    def add(self, path: Path, problem: str, way_out: str, line: int | None = None) -> None:
        self._lines.setdefault((path, problem, way_out), []).extend([] if line is None else [line])

    def all(self) -> tuple[Finding, ...]:
        return tuple(Finding(*what, tuple(lines)) for what, lines in self._lines.items())
