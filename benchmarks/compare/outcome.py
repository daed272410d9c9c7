"""What a comparison found out about one cell, and what it says about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.compare.paired import LOOKS, Estimate, Launch, estimate, verdict
from benchmarks.instrument.findings import MEASURED

LEADING = 3
ERROR_GROWTH, TELLING_ERROR = 1.5, 0.5
"""An error that grows by so much, and takes up so much of its budget, fails a comparison."""


@dataclass
class Proof:
    """One side's answer: its status and reason, error in units of the budget, bytes beyond the inputs, kernels."""

    status: str = ""
    reason: str = ""
    error: float | None = None
    bytes: int | None = None
    kernels: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """One cell (or anchor) of a comparison: the proof of both sides, the launches, and what they amount to."""

    key: str
    name: str
    proofs: dict[str, Proof]
    launches: list[Launch] = field(default_factory=list)
    estimate: Estimate | None = None
    verdict: str = "unclear"

    @property
    def timed(self) -> bool:
        """Whether both sides can be timed."""
        return all(proof.status in MEASURED for proof in self.proofs.values())

    def look(self) -> None:
        """Estimate anew, if there are launches enough."""
        if len(self.launches) >= LOOKS[0]:
            self.estimate = estimate(self.launches)

    def judge(self, real: bool, margin: float) -> None:
        """The verdict on its time."""
        if self.estimate is not None:
            self.verdict = verdict(self.estimate, real=real, margin=margin)

    @property
    def changes(self) -> list[str]:
        """What changed besides the time, in words: these need no statistics."""
        base, head = self.proofs["base"], self.proofs["head"]
        said = []
        if base.status != head.status:
            said.append(f"{base.status} became {head.status}" + (f": {head.reason}" if head.reason else ""))
        if None not in (base.bytes, head.bytes) and base.bytes != head.bytes:
            said.append(f"memory {base.bytes:,} became {head.bytes:,} bytes")
        if None not in (base.error, head.error) and base.error != head.error:
            said.append(f"error {base.error:.3g} became {head.error:.3g} of its budget")
        gone, new = leading(base.kernels, head.kernels), leading(head.kernels, base.kernels)
        if base.kernels and head.kernels and (gone or new):
            said.append(", ".join([*(f"no longer runs {x}" for x in gone), *(f"now runs {x}" for x in new)]))
        return said

    @property
    def worse(self) -> list[str]:
        """Why a comparison with this outcome fails; empty if it does not."""
        base, head = self.proofs["base"], self.proofs["head"]
        said = []
        if self.verdict == "slower":
            said.append("slower")
        if base.status == "ok" and head.status != "ok":
            said.append(f"ok became {head.status}")
        if base.bytes is not None and head.bytes is not None and head.bytes > base.bytes:
            said.append("more memory")
        if head.error is not None and head.error > max(TELLING_ERROR, ERROR_GROWTH * (base.error or 0)):
            said.append("less accurate")
        return said

    def as_dict(self) -> dict[str, Any]:
        """For the record, every sample included."""
        return {
            "cell": self.key, "name": self.name, "verdict": self.verdict, "worse": self.worse, "changes": self.changes,
            "estimate": self.estimate and vars(self.estimate),
            "proofs": {role: vars(proof) for role, proof in self.proofs.items()},
            "launches": [vars(launch) for launch in self.launches],
        }  # fmt: skip


def leading(kernels: list[str], others: list[str]) -> list[str]:
    """The LEADING longest of ``kernels`` that are not among ``others``: the order of the short ones is chance."""
    return [name for name in kernels[:LEADING] if name not in others]
