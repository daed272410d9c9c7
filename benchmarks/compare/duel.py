"""The measuring: both sides as live processes on the same cores, taking turns; pair after pair, until it is clear."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.compare.outcome import Outcome, Proof
from benchmarks.compare.paired import LOOKS, Launch, discoveries
from benchmarks.compare.revisions import Side
from benchmarks.instrument import choice, machine, runtime
from benchmarks.instrument.affinity import allowed, pinned
from benchmarks.instrument.anchor import ANCHORS
from benchmarks.instrument.cells import Cell
from benchmarks.instrument.effort import EFFORTS
from benchmarks.instrument.findings import MEASURED, Finding, by_problem, merge, rounded
from benchmarks.instrument.sweep import WrongImplsError, is_under, memory_limit
from benchmarks.instrument.workers import WorkerFailedError, WorkerProcess

TURN = 0.02
"""Seconds that a side computes before it is the other's turn, unless one call takes longer."""
FEWEST_TURNS = 3
ANCHOR_SECONDS = 0.3
EFFORT = EFFORTS["quick"]


class Duel:
    """Compares two sides, cell by cell. ``outcomes`` holds what is known so far, also when it is interrupted.

    Attributes:
        seconds: timed seconds a cell may take in all, both sides together.
        pairs: most pairs of processes.
        margin: a difference below this share (0.02) is none worth a word.
    """

    def __init__(
        self, sides: tuple[Side, Side], cells: list[Cell], *, seconds: float, pairs: int, margin: float, threads: int,
        device: str | None = None, progress: Callable[[str], None] = lambda said: None,
    ) -> None:  # fmt: skip
        self.sides = {side.role: side for side in sides}
        self.groups = by_problem(merge(cells))
        self.pairs, self.seconds = pairs, seconds / pairs
        self.margin, self.threads, self.device = margin, threads, device
        self.limit = memory_limit(dict(os.environ))
        self.progress = progress
        self.random = random.Random(0)
        self.outcomes = {
            f"anchor {name}": Outcome(f"anchor {name}", f"anchor {name}", self._unproved("ok")) for name in ANCHORS
        }
        self.outcomes |= {
            finding.cell.key: Outcome(finding.cell.key, choice.name(finding.cell), self._unproved())
            for group in self.groups
            for finding in group
        }
        self.software: dict[str, dict[str, Any]] = {}
        self.states: list[dict[str, Any]] = []

    def _unproved(self, status: str = "") -> dict[str, Proof]:
        return {role: Proof(status) for role in self.sides}

    def run(self, after: Callable[[], object] = lambda: None) -> None:
        """Launch pairs of processes until every verdict is clear, or ``pairs`` are used up; ``after`` each, call."""
        for n in range(self.pairs):
            with self.launched(second=("base", "head")[n % 2]) as workers:
                self.launch(n, workers)
            if n + 1 in LOOKS:
                self.look()
            after()
            if not self.unclear():
                break

    def look(self) -> None:
        """Estimate and judge everything anew."""
        for outcome in self.outcomes.values():
            outcome.look()
        real = discoveries({key: x.estimate.p for key, x in self.outcomes.items() if x.estimate})
        for key, outcome in self.outcomes.items():
            outcome.judge(key in real, self.margin)

    def unclear(self) -> list[str]:
        """The cells that want more launches."""
        return [
            key for key, outcome in self.outcomes.items()
            if not key.startswith("anchor") and outcome.verdict == "unclear" and (outcome.timed or not outcome.launches)
            and not self.ended(outcome)
        ]  # fmt: skip

    def ended(self, outcome: Outcome) -> bool:
        """Whether nothing more can be learned of it: one side cannot do it."""
        return any(proof.status and proof.status not in MEASURED for proof in outcome.proofs.values())

    @contextmanager
    def launched(self, second: str) -> Iterator[dict[str, WorkerProcess]]:
        """A fresh pair of processes on the least busy cores, ``second`` started last; one process for two backends.

        Raises WrongImplsError where a worker imports another ``impls`` than its side's.
        """
        self.second = second
        settings = {"device": self.device, "threads": self.threads, "limit": self.limit}
        order = sorted(self.sides.values(), key=lambda side: side.role == second)
        alone = all(side.backend for side in order)
        workers: dict[str, WorkerProcess] = {}
        with pinned(self.threads):
            for side in order:
                environ = os.environ | runtime.settings(os.environ) | {
                    "PYTHONPATH": str(side.folder), "OMP_NUM_THREADS": str(self.threads),
                    "MKL_NUM_THREADS": str(self.threads),
                }  # fmt: skip
                same = alone and workers
                workers[side.role] = (
                    next(iter(workers.values())) if same else WorkerProcess(settings, environ, side.python)
                )
                workers[side.role].start()
            try:
                for role, worker in workers.items():
                    self.greet(role, worker)
                yield workers
            finally:
                for worker in workers.values():
                    worker.stop()

    def greet(self, role: str, worker: WorkerProcess) -> None:
        """Make sure of what the worker measures."""
        said = worker.ask({"do": "hello"}, EFFORT.patience)
        if not is_under(said["impls"], str(self.sides[role].folder)):
            raise WrongImplsError(f"the {role} worker imports {said['impls']}, not {self.sides[role].folder}'s impls")
        self.software[role] = {name: said[name] for name in ("python", "torch", "packages", "device", "device_name")}

    def launch(self, n: int, workers: dict[str, WorkerProcess]) -> None:
        """Everything that is still unclear, and the anchors, in one pair of processes."""
        pids = [worker.pid for worker in workers.values() if worker.pid]
        device = self.software["base"]["device"]
        before = machine.state(pids, device)
        for name in ANCHORS:
            self.take_turns([(self.outcomes[f"anchor {name}"], {"do": "anchor", "name": name})], workers,
                            ANCHOR_SECONDS)  # fmt: skip
        wanted = set(self.unclear())
        for group in self.groups:
            findings = [finding for finding in group if finding.cell.key in wanted]
            self.progress(
                f"pair {n + 1} of at most {self.pairs}, {len(wanted)} cells unclear: {group[0].cell.problem.key}"
            )
            for finding in findings:
                self.prove(finding, workers)
            timed = [(self.outcomes[x.cell.key], x) for x in findings if self.outcomes[x.cell.key].timed]
            self.take_turns(
                [(outcome, {"do": "time", **finding.order}) for outcome, finding in timed], workers,
                self.seconds * len(timed), warm=True,
            )  # fmt: skip
        state, disturbances = machine.between((before, machine.state(pids, device)))
        self.states.append({**state, "cpus": allowed(), "disturbances": disturbances, "second": self.second})

    def order(self, order: dict[str, Any], role: str) -> dict[str, Any]:
        """``order`` for one side: of two backends, each side has its own."""
        backend = self.sides[role].backend
        return order | {"backend": backend} if backend and "backend" in order else order

    def prove(self, finding: Finding, workers: dict[str, WorkerProcess]) -> None:
        """What both sides answer, and what memory it takes; once."""
        outcome = self.outcomes[finding.cell.key]
        for role, worker in workers.items():
            if outcome.proofs[role].status:
                continue
            try:
                asked = worker.ask(self.order({"do": "ask", **finding.order}, role), EFFORT.patience)
                if "unsupported" in asked:
                    outcome.proofs[role] = Proof("unsupported", asked["unsupported"])
                    continue
                said = worker.ask(
                    self.order({"do": "prove", **finding.order, "repeats": 1,
                                "checked_scores": EFFORT.checked_scores}, role), 10 * EFFORT.patience,
                )  # fmt: skip
            except WorkerFailedError as failure:
                outcome.proofs[role] = Proof(failure.status, str(failure))
                continue
            judged = Finding(finding.cells, errors=said["errors"])
            judged.judge()
            outcome.proofs[role] = Proof(
                judged.status, judged.reason, judged.error, max(said["bytes"]), said["kernels"]
            )

    def take_turns(
        self, pairs: list[tuple[Outcome, dict[str, Any]]], workers: dict[str, WorkerProcess], seconds: float,
        *, warm: bool = False,
    ) -> None:  # fmt: skip
        """Time every outcome of ``pairs`` on both sides, in random order every round, for ``seconds``."""
        samples: dict[tuple[str, str], list[float]] = {}
        numbers: dict[str, int] = {}
        turns = [(outcome, order, role) for outcome, order in pairs for role in workers]
        failed: set[str] = set()
        for outcome, order, role in self.random.sample(turns, len(turns)):
            try:
                first = self.first_call(order, role, workers[role], warm)
            except WorkerFailedError as failure:
                outcome.proofs[role] = Proof(failure.status, str(failure))
                failed.add(outcome.key)
                continue
            numbers[outcome.key] = min(numbers.get(outcome.key, 10**6), max(1, int(TURN / max(first, 1e-9))))
        begun, rounds = time.monotonic(), 0
        while turns and (rounds < FEWEST_TURNS or time.monotonic() - begun < seconds):
            for outcome, order, role in self.random.sample(turns, len(turns)):
                if outcome.key in failed:
                    continue
                try:
                    said = workers[role].ask(self.order(order, role) | {"n": numbers[outcome.key]}, 5 * EFFORT.patience)
                except WorkerFailedError as failure:
                    outcome.proofs[role] = Proof(failure.status, str(failure))
                    failed.add(outcome.key)
                    continue
                samples.setdefault((outcome.key, role), []).extend(rounded(x) for x in said["seconds"])
            rounds += 1
        for outcome, _ in pairs:
            if outcome.key not in failed:
                base, head = (tuple(samples[outcome.key, role]) for role in ("base", "head"))
                outcome.launches.append(Launch(base, head, self.second))

    def first_call(self, order: dict[str, Any], role: str, worker: WorkerProcess, warm: bool) -> float:
        """Warm up; seconds of a call."""
        if warm:
            warming = {**order, "do": "warm", "most": EFFORT.warm_up}
            return float(worker.ask(self.order(warming, role), 10 * EFFORT.patience)["seconds"])
        return min(worker.ask(order | {"n": 5}, EFFORT.patience)["seconds"])
