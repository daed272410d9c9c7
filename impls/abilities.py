"""What each backend can do on this machine, in words: found by asking ``why_not`` about small typical problems."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from impls.interface import Backend, get, names
from impls.problem import DTYPES, CoreProblem

CHOICES: dict[str, tuple[str, ...]] = {
    "direction": ("forward", "training"),
    "bias": ("no bias", "a bias"),
    "mask": ("no mask", "a mask"),
    "dtype": DTYPES,
}
ONLY = {
    "forward": "forward only",
    "training": "training only",
    "no bias": "problems without a bias",
    "a bias": "problems with a bias",
    "no mask": "problems without a mask",
    "a mask": "problems with a mask",
}


@dataclass(frozen=True)
class Ability:
    """What a backend can do on one device.

    Attributes:
        runs: whether it can do anything at all.
        words: what it can do.
        reasons: why it cannot do the rest, as the backend says it.
    """

    runs: bool
    words: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One backend: what it is, its traits, and its ability by device; or the error that keeps it from loading."""

    name: str
    summary: str = ""
    traits: dict[str, Any] = field(default_factory=dict)
    devices: dict[str, Ability] = field(default_factory=dict)
    error: str | None = None


def rows() -> list[Row]:
    """A row for every backend, in the order of ``names()``."""
    return [row(name) for name in names()]


def row(name: str) -> Row:
    """The row of one backend. A plugin that cannot be loaded has its error in place of abilities."""
    try:
        backend = get(name)
    except (ImportError, TypeError) as error:
        return Row(name, error=str(error))
    abilities = {device: ability(backend, device) for device in devices()}
    return Row(name, backend.summary, asdict(backend.traits), abilities)


def devices() -> list[str]:
    """The kinds of device that PyTorch finds here."""
    import torch

    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def ability(backend: Backend, device: str, *, elsewhere: bool = False) -> Ability:
    """What ``backend`` can do on ``device``; ``elsewhere``, if nothing that every problem needs were missing there."""
    answers = {
        choice: list(backend.limits(typical(*choice, device=device))) for choice in itertools.product(*CHOICES.values())
    }
    if elsewhere:
        missing = set.intersection(*map(set, answers.values()))
        answers = {choice: [reason for reason in answer if reason not in missing] for choice, answer in answers.items()}
    reasons = tuple(dict.fromkeys(reason for answer in answers.values() for reason in answer))
    possible = [choice for choice, answer in answers.items() if not answer]
    if not possible:
        everywhere = tuple(reason for reason in reasons if all(reason in answer for answer in answers.values()))
        return Ability(False, "no", everywhere or reasons)
    limited = "; ".join(limits(possible))
    return Ability(True, f"yes: {limited}" if limited else "yes", reasons)


def typical(direction: str, bias: str, mask: str, dtype: str, *, device: str) -> CoreProblem:
    """A small triangle attention: a square of edges, since there are kernels for nothing else."""
    training, biased = direction == "training", bias == "a bias"
    return CoreProblem(
        (1, 64), 4, 64, 64, 32, (1, 1, 4, 64, 64) if biased else None, mask == "a mask", dtype, device,
        training=training, bias_grad=training and biased,
    )  # fmt: skip


def limits(possible: list[tuple[str, ...]]) -> Iterable[str]:
    """What the possible choices have in common, and then which pairs of choices never meet."""
    axes = list(CHOICES)
    left = {
        axis: [value for value in CHOICES[axis] if any(c[i] == value for c in possible)] for i, axis in enumerate(axes)
    }
    for axis, values in left.items():
        if len(values) < len(CHOICES[axis]):
            yield ", ".join(values) if axis == "dtype" else ONLY[values[0]]
    for (i, first), (j, second) in itertools.combinations(enumerate(axes), 2):
        for x, y in itertools.product(left[first], left[second]):
            if not any(choice[i] == x and choice[j] == y for choice in possible):
                yield f"not {x} with {y}"
