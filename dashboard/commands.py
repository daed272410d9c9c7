"""The command that measures one cell again (the page adds the effort and the commit)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any


def reproduce(row: Mapping[Any, Any]) -> str:
    """A shell command that measures the cell ``row`` of the history again, but for the commit that ends it."""
    params = json.loads(row["params"]).values()
    shown = ", ".join(f".{re.escape(value)}." if isinstance(value, str) else str(value) for value in params)
    benchmark = re.escape(f"{row['module']}.{row['series']}.seconds_{row['direction']}")
    return f"asv run -b {shlex.quote(f'^{benchmark}.{shown}.$')}"
