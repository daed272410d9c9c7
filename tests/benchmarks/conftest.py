"""Sweeps in a folder of their own, over backends that misbehave."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import torch
from misbehaving import BRIEF, install, origin

from benchmarks.instrument.effort import Effort
from benchmarks.instrument.sweep import Sweep


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """On a busy machine two threads wait for each other longer than these tiny problems take."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH with backends that crash, hang, ..., registered as another package would."""
    folder = tmp_path_factory.mktemp("fakes")
    install(folder)
    return folder


@pytest.fixture(scope="session")
def sweep_over(fakes: Path) -> Callable[..., Sweep]:
    """A sweep that writes below ``results``; its workers see the misbehaving backends, and other paths first."""

    def make(results: Path, effort: Effort = BRIEF, paths: Iterable[Path] = (), env_dir: Path | None = None) -> Sweep:
        path = os.pathsep.join(map(str, [*paths, fakes]))
        environ = {**os.environ, "PYTHONPATH": path, "AXIALBENCH_THREADS": "1", "AXIALBENCH_DEVICE": "cpu"}
        return Sweep("msa_row", origin(results, env_dir), effort, environ)

    return make
