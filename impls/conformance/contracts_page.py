"""``docs/backends.md``: contracts as a page to read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from impls.abilities import ability, typical
from impls.cuda import assuming
from impls.interface import Backend

if TYPE_CHECKING:
    from impls.conformance.contracts import Contract

ASSUMED = (9, 0)
INTRODUCTION = """# Backends: what they declare, and what running them showed

Made by `make contracts` with PyTorch {version} on a CPU; a test fails when it is stale. `python -m impls contracts
NAME` says the same of one backend, or of your kernel. Every answer comes from running small problems, forward and
backward, and comparing with the float64 specification ([checking.md](checking.md)); the kernel that ran is read from
PyTorch's profile. A backend that needs CUDA shows what it declares for a GPU of compute capability {capability}, which
was not run.
"""
UNUSUAL: tuple[dict[str, Any], ...] = (
    {"c": 12}, {"c": 30}, {"c": 512}, {"K": 1}, {"K": 192}, {"batch": (1, 3)}, {"batch": (256, 256)}, {"H": 65_536},
    {"batch": (64, 64), "Q": 1024, "K": 1024, "c": 128}, {"H_kv": 1},
)  # fmt: skip
"""Sizes at which kernels for GPUs have limits."""


def page(contracts: list[Contract]) -> str:
    """The whole page: an overview, then a section a backend."""
    capability = ".".join(map(str, ASSUMED))
    version = torch.__version__.partition("+")[0]
    parts = [INTRODUCTION.format(version=version, capability=capability), overview(contracts)]
    return "\n".join(part.rstrip() + "\n" for part in (*parts, *map(section, contracts)))


def overview(contracts: list[Contract]) -> str:
    """One line a backend: whether it ran, and in how many answers it did as it declares."""
    return table(("backend", "what it is", "on a CPU"), map(overview_row, contracts))


def overview_row(contract: Contract) -> tuple[str, str, str]:
    name, found = contract.backend.name, len(contract.contradictions)
    outcome = "not run" if contract.unavailable else f"{found} contradictions" if found else "as declared"
    return f"[`{name}`](#{name})", contract.backend.summary, outcome


def section(contract: Contract) -> str:
    """One backend: its findings, or why there are none, and what it declares for a GPU."""
    backend = contract.backend
    lines = [f"## {backend.name}", "", f"*{backend.summary}*", ""]
    if contract.unavailable:
        lines += [f"Not run: {contract.why_not_run}.", ""]
    else:
        rows = [
            (f.question, f.declared, f.found + f" **Contradiction: {f.contradiction}**" * bool(f.contradiction))
            for f in contract.findings
        ]
        lines += [table(("question", "declared", "found"), rows)]
    return "\n".join([*lines, *on_a_gpu(contract.backend)])


def on_a_gpu(backend: Backend) -> Iterator[str]:
    """What a backend declares for CUDA: for typical problems, and for sizes at which kernels have limits.

    A reason that holds for every problem, such as a package that is missing here, is this machine's and left out.
    """
    with assuming(ASSUMED):
        declared = ability(backend, "cuda", elsewhere=True)
        rarely = [reason for sizes in UNUSUAL for reason in limits(backend, sizes)]
    yield f"Declared on CUDA: {declared.words}."
    shown = {re.sub(r"[\d,x]+", "#", reason): reason for reason in (*declared.reasons, *rarely)}
    yield "".join(f"\n- {reason}" for reason in shown.values())


def limits(backend: Backend, sizes: dict[str, Any]) -> Iterator[str]:
    """What else is refused in a problem that the backend takes, when it has other sizes."""
    for bias, dtype in (("a bias", "float32"), ("no bias", "float32"), ("no bias", "bfloat16")):
        usual = typical("training", bias, "a mask", dtype, device="cuda")
        changed = replace(usual, **{"bias_shape": usual.bias_shape and (1,), "H_kv": None} | sizes)
        known = set(backend.limits(usual))
        yield from (reason for reason in backend.limits(changed) if reason not in known)


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    return "\n".join(map(table_row, (header, ("---",) * len(header), *rows))) + "\n"


def table_row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
