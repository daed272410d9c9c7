"""AxialBench's implementations of AlphaFold attention: what is measured.

``impls.names()`` lists the backends, ``impls.get("sdpa")`` gives one, ``impls.evoformer`` holds the modules. Nothing
here loads torch before it is used, so that plain arithmetic (``impls.cost``) and problem descriptions stay cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from impls.problem import CoreProblem, Problem

if TYPE_CHECKING:
    from impls import evoformer, reference
    from impls.interface import Backend, Traits, UnsupportedProblem, get, names

_LAZY = dict.fromkeys(("Backend", "Traits", "UnsupportedProblem", "get", "names"), "impls.interface")
_LAZY_MODULES = ("evoformer", "reference", "masks", "conformance", "zoo", "cost")

__all__ = [
    "Backend",
    "CoreProblem",
    "Problem",
    "Traits",
    "UnsupportedProblem",
    "evoformer",
    "get",
    "names",
    "reference",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _LAZY_MODULES:
        return importlib.import_module(f"impls.{name}")
    raise AttributeError(f"module 'impls' has no attribute {name!r}")
