"""Backends that misbehave, and tiny cells to sweep over them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.instrument.cells import Cell
from benchmarks.instrument.effort import EFFORTS
from benchmarks.instrument.origin import Origin
from benchmarks.instrument.problems import Problem

FAKES = """
import ctypes, os, time
import torch
from impls import Backend, Traits, get

def fake(name, attend, need=0):
    return Backend(name, name, attend, traits=Traits(fake=False), bytes_beyond_inputs=lambda problem: need)

eager = get("eager").attend

def die(*inputs):
    os.abort()

def sleep(*inputs):
    time.sleep(600)

def hoard(*inputs):
    return torch.zeros(2**50)

def stumble(*inputs):
    raise ValueError("stumbled over a stone")

def killed(*inputs):
    os.kill(os.getpid(), 9)

def segfault(*inputs):
    ctypes.string_at(0)

def half_right(q, k, v, bias, mask):
    o = eager(q, k, v, bias, mask)
    return torch.cat([o[..., :1, :] * 1.001, o[..., 1:, :]], -2)

def unbiased(q, k, v, bias, mask):
    o = eager(q, k, v, bias.detach(), mask)
    return o + 0 * bias.sum()

def nowhere(q, k, v, bias, mask):
    return eager(q, k, v, bias, mask) / 0

crash, hang, hog, trip = fake("crash", die), fake("hang", sleep), fake("hog", hoard), fake("trip", stumble)
shot, segv = fake("shot", killed), fake("segv", segfault)
wrong, no_dbias, nan = fake("wrong", half_right), fake("no_dbias", unbiased), fake("nan", nowhere)
giant = fake("giant", eager, need=10**15)
refuses = Backend("refuses", "refuses", eager, limits=lambda problem: ["it is Sunday"])
"""
NAMES = ("crash", "hang", "shot", "segv", "hog", "trip", "wrong", "no_dbias", "nan", "giant", "refuses")

TINY = Problem("msa_row", "core", "float32", N_head=2, c=8, R=24, S=3)
BRIEF = replace(
    EFFORTS["full"], name="brief", rounds=2, processes=2, seconds=0.02, samples=3, warm_up=0.01, patience=8.0
)
ALONE = replace(BRIEF, processes=1)


def cell(backend: str, direction: str = "forward", problem: Problem = TINY, series: str = "OverR") -> Cell:
    params = {"R": problem.R, "dtype": problem.dtype, "backend": backend}
    return Cell("msa_row", series, params, problem, direction)


def origin(results: Path, env_dir: Path | None = None) -> Origin:
    date = "2026-01-02T03:04:05+00:00"
    requirements = {"torch": "2.13.0"}
    return Origin("c0ffee00" * 5, date, "A commit", "env", env_dir, requirements, "bench-1", results)


def install(folder: Path) -> None:
    """Put the backends into ``folder`` as a package that registers them, for PYTHONPATH."""
    (folder / "misbehaving_backends.py").write_text(FAKES)
    info = folder / "misbehaving-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: misbehaving\nVersion: 1.0\n")
    points = "".join(f"{name} = misbehaving_backends:{name}\n" for name in NAMES)
    (info / "entry_points.txt").write_text(f"[axialbench.backends]\n{points}")
