"""Anybody's kernel beside ours: ``python -m benchmarks run --backend module:kernel``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = """
import torch

def right(q, k, v, bias=None, mask=None):
    s = q @ k.mT * q.shape[-1] ** -0.5
    return (s if bias is None else s + bias).softmax(-1) @ v

def wrong(q, k, v, bias=None, mask=None):
    return right(q, k, v, bias, mask) * 1.1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "their_kernels.py").write_text(KERNELS)
    return tmp_path


def run(folder: Path, kernel: str) -> tuple[int, str, list[dict]]:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "run", "--backend", kernel, "--op", "template", "--R", "16",
         "--direction", "forward", "--json", str(folder / "records.json")],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    file = folder / "records.json"
    records = json.loads(file.read_text()) if file.exists() else []
    return done.returncode, done.stdout + done.stderr, [x for x in records if x["record"] == "cell"]


def test_a_right_kernel_is_timed_beside_ours_and_enters_no_series(folder: Path) -> None:
    status, said, cells = run(folder, "their_kernels:right")
    assert status == 0, said
    by_backend = {cell["params"]["backend"]: cell for cell in cells}
    assert by_backend["their_kernels:right"]["status"] == by_backend["eager"]["status"] == "ok"
    assert len(by_backend["their_kernels:right"]["seconds"]["samples"]) >= 4
    assert "their_kernels:right" in said
    assert not list((ROOT / "results").glob("kernel*"))


@pytest.mark.parametrize(
    ("kernel", "status", "reason"),
    [("wrong", "inaccurate", "o is"), ("missing", "absent", "no attribute 'missing'")],
)
def test_a_kernel_that_is_wrong_or_not_there_is_told(folder: Path, kernel: str, status: str, reason: str) -> None:
    code, said, cells = run(folder, f"their_kernels:{kernel}")
    assert code == (1 if kernel == "wrong" else 2), said
    cell = next(cell for cell in cells if cell["params"]["backend"] == f"their_kernels:{kernel}")
    assert cell["status"] == status
    assert reason in cell["reason"]
