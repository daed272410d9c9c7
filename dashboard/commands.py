"""The command that measures one cell again."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any


def reproduce(row: Mapping[Any, Any]) -> str:
    """A shell command that measures the cell ``row`` of the history again, at its commit and with its effort."""
    params = json.loads(row["params"]).values()
    shown = ", ".join(f".{re.escape(value)}." if isinstance(value, str) else str(value) for value in params)
    benchmark = re.escape(f"{row['module']}.{row['series']}.seconds_{row['direction']}")
    effort = f"AXIALBENCH_EFFORT={shlex.quote(row['effort'])} " if row["effort"] else ""
    return f"{effort}asv run -b {shlex.quote(f'^{benchmark}.{shown}.$')} {row['commit'][:8]}^!"
