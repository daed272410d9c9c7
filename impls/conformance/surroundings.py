"""What a call must leave as it finds it: PyTorch's settings and its random numbers, which belong to the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "whether gradients are recorded": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "whether algorithms are deterministic": (
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms,
    ),
    "the precision of float32 products": (
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision,
    ),
    "the state of the random numbers": (torch.get_rng_state, torch.set_rng_state),
}  # fmt: skip


@contextmanager
def kept(changed: list[str]) -> Iterator[None]:
    """Put every setting back at the end, and add the names of those that were not what they had been to ``changed``."""
    before = {name: read() for name, (read, _) in SETTINGS.items()}
    try:
        yield
    finally:
        for name, (read, write) in SETTINGS.items():
            now = read()
            same = torch.equal(now, before[name]) if isinstance(now, torch.Tensor) else now == before[name]
            if not same:
                changed.append(name)
                write(before[name])


@contextmanager
def asked_for(quirks: Collection[str]) -> Iterator[None]:
    """The settings under which a case with these quirks is called."""
    with ExitStack() as settings:
        if "inference" in quirks:
            settings.enter_context(torch.inference_mode())
        if "deterministic" in quirks:
            settings.enter_context(deterministic())
        yield


@contextmanager
def deterministic() -> Iterator[None]:
    """Deterministic algorithms where there are any; and NaN in what is allocated and not yet written."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
