"""torch.compile is not given up silently, and a missing compiler is said in words."""

from __future__ import annotations

import sysconfig
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import impls
from impls.backends import compiled

PROBLEM = impls.CoreProblem((2,), 2, 4, 5, 8)


def limits(name: str = "compiled") -> str:
    return "; ".join(impls.get(name).limits(PROBLEM))


@pytest.mark.parametrize("name", ["compiled", "flex"])
def test_missing_compiler_is_named(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert "needs a C++ compiler, and 'g++' is not found: install g++" in limits(name)
    monkeypatch.setenv("CXX", "/nowhere/clang++")
    assert "'/nowhere/clang++' is not found" in limits(name)


def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert f"Python.h is not in {tmp_path}: install python3-dev" in limits()


def test_no_compiler_is_asked_for_where_triton_builds_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(compiled.compiler_limits(impls.CoreProblem((2,), 2, 4, 5, 8, device="cuda"))) == []


def test_every_shape_of_many_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = []

    def count(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=count))
    compiled.compiled_for.cache_clear()
    lengths = range(3, 3 + 2 * torch._dynamo.config.recompile_limit)
    for length in [*lengths, *lengths]:
        q = torch.randn(2, length, 4)
        torch.testing.assert_close(impls.get("compiled")(q, q, q), impls.get("eager")(q, q, q))
    assert len(graphs) == len(lengths)
    compiled.compiled_for.cache_clear()
