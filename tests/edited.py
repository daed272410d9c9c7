"""One function of an adapter with a step changed: what a stand-in must notice."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest


def edit(monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str, right: str, wrong: str) -> None:
    """Have ``module.function`` be as its source is with ``wrong`` in place of ``right``, which must be there."""
    source = inspect.getsource(getattr(module, function))
    assert right in source
    changed: dict[str, Any] = dict(vars(module))
    exec(source.replace(right, wrong), changed)
    monkeypatch.setattr(module, function, changed[function])
