"""Which cell ``asv run`` is to measure again (the page adds the effort and the commit)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any


def selection(row: Mapping[Any, Any]) -> str:
    """The option of ``asv run``, quoted for a shell, that selects the history's cell ``row``. It may be repeated."""
    params = json.loads(row["params"]).values()
    shown = ", ".join(f".{re.escape(value)}." if isinstance(value, str) else str(value) for value in params)
    benchmark = re.escape(f"{row['module']}.{row['series']}.seconds_{row['direction']}")
    return f"-b {shlex.quote(f'^{benchmark}.{shown}.$')}"
