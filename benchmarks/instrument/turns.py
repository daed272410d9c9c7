"""The timing of one problem's cells: in rounds, taking turns; a round that other work disturbed is taken again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.instrument import machine
from benchmarks.instrument.effort import Effort
from benchmarks.instrument.findings import MEASURED, Finding, rounded
from benchmarks.instrument.pool import Pool
from benchmarks.instrument.workers import WorkerFailedError

Patience = Callable[[Finding, int], float]
"""Seconds to wait for so many calls of a cell."""


@dataclass(frozen=True)
class Round:
    """One round in one process: what the worker said of each cell, and the machine's states before and after it."""

    number: int
    process: int
    answers: list[tuple[Finding, dict[str, Any]]]
    span: machine.Span

    @property
    def disturbances(self) -> list[str]:
        """What else was at work meanwhile, in words."""
        return machine.between(self.span)[1]

    @property
    def timed(self) -> float:
        """Seconds in timed calls."""
        return float(sum(sum(said["seconds"]) for _, said in self.answers))

    def keep(self) -> None:
        """These samples are the cells'."""
        for finding, said in self.answers:
            finding.samples += [rounded(x) for x in said["seconds"]]
            finding.host += [rounded(x) for x in said["host"] or []]
            finding.rounds += [self.number] * len(said["seconds"])
            finding.processes += [self.process] * len(said["seconds"])
            finding.copies = said["copies"]

    def discard(self) -> None:
        """These samples do not count: they are written down with the reason."""
        for finding, said in self.answers:
            finding.discarded.append({
                "round": self.number, "process": self.process, "samples": [rounded(x) for x in said["seconds"]],
                "disturbances": self.disturbances,
            })  # fmt: skip


class Turns:
    """Times cells in the workers of ``pool``.

    ``timed`` are the seconds in calls that count, ``discarded`` the number of rounds that do not.
    """

    def __init__(self, pool: Pool, effort: Effort, patience: Patience, seed: str) -> None:
        self.pool, self.effort, self.patience = pool, effort, patience
        self.random = random.Random(seed)
        self.timed, self.discarded = 0.0, 0
        self.warm: set[tuple[str, int | None]] = set()

    def take(self, findings: list[Finding], device: str) -> None:
        """Time ``findings`` in rounds: each in the next process, all cells in every round, in random order.

        A disturbed round is taken again, as often as the effort allows for a problem, and no more if that is disturbed
        too: what lasts is not waited for. Then it counts, and marks its cells.
        """
        kept: list[Round] = []
        retries = self.effort.retries
        for number in range(self.effort.processes * self.effort.rounds):
            process = number % self.effort.processes
            for finding in self.due(findings, process):
                self.warm_up(finding, process)
            taken = self.round(findings, number, device)
            while taken.disturbances and retries:
                taken.discard()
                self.discarded += 1
                taken = self.round(findings, number, device)
                retries = 0 if taken.disturbances else retries - 1
            taken.keep()
            kept.append(taken)
            self.timed += taken.timed
            self.pool.tidy(process, "rest", self.effort.patience)
        state, _ = machine.between((kept[0].span[0], kept[-1].span[1]))
        for finding in findings:
            finding.state = state
            finding.disturbances += disturbed(kept)

    def due(self, findings: list[Finding], process: int) -> list[Finding]:
        """Those that are timed in ``process``, in random order."""
        due = [x for x in findings if not (x.compiles and process >= self.effort.compiling_processes)]
        return self.random.sample(due, len(due))

    def round(self, findings: list[Finding], number: int, device: str) -> Round:
        """Time every cell that is due, once; one whose worker fails gets its status."""
        process = number % self.effort.processes
        before = machine.state(self.pool.pids, device)
        share = self.effort.seconds / self.effort.processes / self.effort.rounds
        answers = []
        for finding in self.due(findings, process):
            n = max(1, min(self.effort.samples, round(share / max(finding.call_seconds, 1e-9))))
            if said := self.ask(finding, process, {"do": "time", "n": n}, calls=10 * n):
                answers.append((finding, said))
        return Round(number, process, answers, (before, machine.state(self.pool.pids, device)))

    def warm_up(self, finding: Finding, process: int) -> None:
        """Warm a cell up in a process that has not run it yet."""
        if (finding.cell.key, self.pool.workers[process].pid) in self.warm:
            return
        known = finding.call_seconds or (0.0 if finding.compiles else finding.first_seconds)
        order = {"do": "warm", "most": self.effort.warm_up, "last": known or None}
        if said := self.ask(finding, process, order, calls=10):
            self.warm.add((finding.cell.key, self.pool.workers[process].pid))
            finding.call_seconds = said["seconds"]
            if finding.compiles and process == 0:
                finding.compile_seconds = rounded(max(0.0, finding.first_seconds - finding.call_seconds))

    def ask(self, finding: Finding, process: int, order: dict[str, Any], calls: int) -> dict[str, Any] | None:
        """What the worker says of the cell; None if it fails, or has failed before."""
        if finding.status not in MEASURED:
            return None
        try:
            return self.pool.ask(process, {**order, **finding.order}, self.patience(finding, calls))
        except WorkerFailedError as failure:
            finding.end(failure.status, str(failure))
            return None


def disturbed(rounds: list[Round]) -> list[str]:
    """What disturbed those of ``rounds`` that were, in words: ``"other processes took 31% ..., in 2 of 9 rounds"``."""
    spans = [taken.span for taken in rounds if taken.disturbances]
    if spans:
        return [f"{said}, in {len(spans)} of {len(rounds)} rounds" for said in machine.between(*spans)[1]]
    return machine.between(*(taken.span for taken in rounds))[1]
