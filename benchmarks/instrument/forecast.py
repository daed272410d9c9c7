"""How long a call will take, before it is tried."""

from __future__ import annotations

from benchmarks.instrument.findings import Finding

FIRST_GUESS = 0.2
"""Share of a plain matrix product's rate that a backend is expected to reach before its own is known."""
TELLING = 0.01
"""Seconds a call must take for its rate to say something about bigger problems."""


class Forecast:
    """Work over rate: the rate at the last, and so the biggest, problem that the same backend did in the same way.

    ``matmul`` is the rate of a plain matrix product in each dtype, multiplications and additions a second.
    """

    def __init__(self, matmul: dict[str, float]) -> None:
        self.matmul = matmul
        self.rates: dict[tuple[str, ...], float] = {}

    def seconds(self, finding: Finding) -> float:
        """Seconds that one call should take."""
        guess = FIRST_GUESS * self.matmul[finding.cell.problem.dtype]
        return finding.flops / self.rates.get(kind(finding), guess)

    def learn(self, finding: Finding) -> None:
        """Remember how fast it was, if it was timed and took long enough to tell."""
        if finding.samples and min(finding.samples) > TELLING:
            self.rates[kind(finding)] = finding.flops / min(finding.samples)


def kind(finding: Finding) -> tuple[str, ...]:
    """What two measurements must share for the rate of one to say something about the other."""
    problem = finding.cell.problem
    return problem.operation, problem.level, problem.dtype, finding.cell.backend, finding.cell.direction
