"""The command that measures one cell again."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any


def reproduce(row: Mapping[Any, Any]) -> str:
    """A shell command that measures the cell ``row`` of the history again, at its commit."""
    params = json.loads(row["params"]).values()
    shown = ", ".join(f".{re.escape(value)}." if isinstance(value, str) else re.escape(str(value)) for value in params)
    name = f"{row['module']}.{row['series']}.seconds_{row['direction']}"
    pattern = f"^{re.escape(name)}\\({shown}\\)"
    return f"asv run -b {shlex.quote(pattern)} {row['commit'][:8]}^!"
