"""The sweep: all cells of one module, measured once, backends taking turns, in processes that may die."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.instrument import journal, machine, origin, runtime
from benchmarks.instrument.affinity import pinned
from benchmarks.instrument.alone import alone
from benchmarks.instrument.anchor import ANCHORS
from benchmarks.instrument.cells import Cell, Selection, left_out
from benchmarks.instrument.effort import Effort, cold_inputs, effort, parse_memory
from benchmarks.instrument.findings import OPEN, Finding, by_problem, merge, now, reading, rounded
from benchmarks.instrument.forecast import Forecast
from benchmarks.instrument.origin import Origin
from benchmarks.instrument.pool import Pool
from benchmarks.instrument.progress import Progress
from benchmarks.instrument.turns import Turns
from benchmarks.instrument.workers import WorkerFailedError

FRESH = timedelta(days=1)
"""A killed sweep is taken up again within this time."""
COMPILE_PATIENCE = 600.0
ANCHOR_CALLS = 30
SHARE_OF_MEMORY = 0.8


class WrongImplsError(RuntimeError):
    """The workers import another ``impls`` than the commit's."""


class Sweep:
    """One module's measuring: what is found goes to the journal cell by cell, and to asv at the end."""

    def __init__(self, module: str, origin: Origin, effort: Effort, environ: dict[str, str] | None = None) -> None:
        self.module, self.origin, self.effort = module, origin, effort
        self.id = f"{now():%Y%m%dT%H%M%S%fZ}-{module}"
        self.environ = dict(os.environ) if environ is None else environ
        self.threads = int(self.environ.get("AXIALBENCH_THREADS") or machine.cores())
        self.limit = memory_limit(self.environ)
        self.cache = tempfile.TemporaryDirectory(prefix="axialbench-")
        self.cold = cold_inputs(self.environ)
        settings = {
            "device": self.environ.get("AXIALBENCH_DEVICE"), "threads": self.threads, "limit": self.limit,
            "cold": self.cold,
        }  # fmt: skip
        self.runtime = runtime.settings(self.environ)
        environ = self.environ | self.runtime | {
            "OMP_NUM_THREADS": str(self.threads), "MKL_NUM_THREADS": str(self.threads),
            "TORCHINDUCTOR_CACHE_DIR": self.cache.name,
        }  # fmt: skip
        self.pool = Pool(effort.processes, settings, environ)
        self.turns = Turns(self.pool, effort, self.patience, seed=self.id)
        self.readings: dict[str, dict[str, Any]] = {}
        self.building = 0.0

    def measure(self, cells: list[Cell], selection: Selection) -> dict[str, dict[str, Any]]:
        """Measure ``cells``; by each cell's place, what asv's benchmarks return of it.

        Raises WrongImplsError if the workers do not see the commit's ``impls``, NotAloneError if another run measures.
        """
        self.started = time.monotonic()
        with ExitStack() as at_the_end:
            at_the_end.callback(self.cache.cleanup)
            at_the_end.enter_context(alone(self.origin.results / self.origin.machine))
            at_the_end.enter_context(pinned(self.threads))
            at_the_end.callback(self.pool.stop)
            self.begin(selection)
            findings = self.take_up(merge(cells))
            work = {finding.cell.key: self.work(finding) for finding in findings}
            self.progress = Progress(self.module, work, self.effort.module_seconds)
            for finding in findings:
                if reason := left_out(finding.cell, self.effort):
                    finding.end("not_run", reason)
            self.finish(finding for finding in findings if finding.status)
            for group in by_problem(finding for finding in findings if not finding.status):
                self.measure_group(group)
            journal.append(self.origin.journal, {
                "record": "done", "sweep": self.id, "finished": now().isoformat(timespec="seconds"),
                "wall_seconds": round(time.monotonic() - self.started, 2), "timed_seconds": round(self.turns.timed, 2),
                "building_seconds": round(self.building, 2), "discarded_rounds": self.turns.discarded,
                "orders": {order: round(seconds, 2) for order, seconds in self.pool.orders.items()},
            })  # fmt: skip
            return self.readings

    def begin(self, selection: Selection) -> None:
        """Start the workers, make sure of what they measure, and write the sweep's record."""
        self.pool.start()
        hello = {"do": "hello"}
        said, *_ = [self.pool.ask(process, hello, self.effort.patience) for process in range(len(self.pool))]
        env_dir, found = self.origin.env_dir, said.pop("impls")
        if env_dir is not None and not is_under(found, str(env_dir)):
            raise WrongImplsError(f"the workers import {found}, which does not lie in asv's environment {env_dir}")
        self.device, self.forecast = said["device"], Forecast(self.pool.ask(0, {"do": "rates"}, self.effort.patience))
        free = said.pop("free_bytes")
        if self.device == "cuda":
            self.limit = memory_limit(self.environ, free)
        anchors = {name: self.anchor(name) for name in ANCHORS}
        self.identity = {
            "effort": self.effort.name, "instrument": origin.instrument(), "threads": self.threads,
            "runtime": self.runtime, "device": self.device, "torch": said["torch"], "packages": said["packages"],
            "inputs": "cold" if self.cold or self.device == "cuda" else "warm",
        }  # fmt: skip
        journal.append(self.origin.journal, {
            "record": "sweep", "sweep": self.id, "module": self.module, "started": now().isoformat(timespec="seconds"),
            "commit": self.origin.commit, "commit_date": self.origin.commit_date, "subject": self.origin.subject,
            "dirty": origin.dirty(), "machine": self.origin.machine, "env_name": self.origin.env_name,
            "requirements": self.origin.requirements, **said, **self.identity, "memory_limit": self.limit,
            "anchors": anchors,
            "operations": sorted(selection.operations) if selection.operations else None,
            "selection": selection.as_dict(),
        })  # fmt: skip

    def anchor(self, name: str) -> float:
        """Seconds of an anchor's call: the lower quartile."""
        order = {"do": "anchor", "name": name, "n": ANCHOR_CALLS}
        said = self.pool.ask(0, order, self.effort.patience)
        return rounded(statistics.quantiles(said["seconds"], n=4)[0])

    def take_up(self, findings: list[Finding]) -> list[Finding]:
        """What is still to be measured: cells that a killed sweep of this kind finished are taken as they stand.

        asv saves a module whose sweep was killed too, as failed. So its file tells only of sweeps that ended whether
        what they found has arrived there.
        """
        oldest, saved = now() - FRESH, self.origin.saved_by_asv(self.module)
        last = datetime.fromtimestamp(0, UTC)
        sweeps: set[str] = set()
        done: dict[str, dict[str, Any]] = {}
        for record in journal.read(self.origin.journal):
            if record["record"] == "sweep" and record["module"] == self.module:
                if all(record.get(name) == value for name, value in self.identity.items()):
                    sweeps.add(record["sweep"])
            elif record["sweep"] in sweeps and record["record"] == "cell":
                last = datetime.fromisoformat(record["time"])
                if last > oldest:
                    done[record["cell"]] = reading(record)
            elif record["sweep"] in sweeps and record["record"] == "done" and last <= saved:
                done.clear()
        for finding in findings:
            if finding.cell.key in done:
                self.readings |= {cell.place: done[finding.cell.key] for cell in finding.cells}
        return [finding for finding in findings if finding.cell.key not in done]

    def work(self, finding: Finding) -> float:
        """A rough cost of measuring it, for the progress line."""
        if left_out(finding.cell, self.effort):
            return 0.0
        return min(self.forecast.seconds(finding), self.effort.longest_call) + 0.1

    def measure_group(self, group: list[Finding]) -> None:
        """Measure all cells of one problem, side by side."""
        for step in (self.ask, self.prove):
            for finding in group:
                step(finding)
            self.finish(finding for finding in group if finding.status not in OPEN)
            group = [finding for finding in group if finding.status in OPEN]
        if not group:
            return
        if group[0].cell.problem.timed:
            self.turns.take(group, self.device)
            for finding in group:
                self.forecast.learn(finding)
        self.finish(group)
        for process in range(len(self.pool)):
            self.pool.tidy(process, "forget", self.effort.patience)

    def ask(self, finding: Finding) -> None:
        """Find out, without running it, whether the cell can be measured."""
        cell = finding.cell
        if reason := self.late():
            return finding.end("not_run", reason)
        try:
            said = self.pool.ask(0, {"do": "ask", **finding.order}, self.effort.patience)
        except WorkerFailedError as failure:
            return finding.end(failure.status, str(failure))
        if "unsupported" in said:
            return finding.end("unsupported", said["unsupported"])
        finding.predicted_bytes, finding.compiles = said["predicted_bytes"], said["compiles"]
        need = cell.problem.input_bytes * len(self.pool) + (finding.predicted_bytes or 0)
        if need > self.limit:
            return finding.end("too_big", f"needs {size(need)}, {size(self.limit)} here")
        seconds = self.forecast.seconds(finding)
        if cell.problem.timed and seconds > self.effort.longest_call:
            allowed = f"{self.effort.name} effort allows {self.effort.longest_call:g} s"
            return finding.end("not_run", f"would take about {seconds:.2g} s a call; {allowed}")
        return None

    def late(self) -> str:
        """Why there is no time for more; empty while there is."""
        allowed = self.effort.module_seconds
        if time.monotonic() - self.started - self.building < allowed:
            return ""
        return f"its turn did not come: {self.effort.name} effort gives a module {allowed:g} s"

    def prove(self, finding: Finding) -> None:
        """Whether it is right, what memory it takes, and how long its first call takes."""
        if reason := self.late():
            return finding.end("not_run", reason)
        order = {
            "do": "prove", **finding.order,
            "repeats": self.effort.memory_repeats if finding.cell.problem.timed else 0,
            "checked_scores": self.effort.checked_scores,
        }  # fmt: skip
        try:
            said = self.pool.ask(0, order, self.patience(finding, 20))
        except WorkerFailedError as failure:
            return finding.end(failure.status, str(failure))
        finding.errors, finding.kernels = said["errors"], said["kernels"]
        finding.bytes = max(said["bytes"], default=None)
        finding.first_seconds = said["first"]
        if finding.compiles:
            self.building += said["first"]
        if len(set(said["bytes"])) > 1:
            finding.disturbances.append(f"memory differed between calls: {', '.join(map(str, said['bytes']))} bytes")
        return finding.judge()

    def finish(self, findings: Iterable[Finding]) -> None:
        """Write them down, at once, and go on."""
        records = [(finding, list(finding.records(self.id, self.device))) for finding in findings]
        if records:
            journal.append(self.origin.journal, *(record for _, lines in records for record in lines))
        for finding, lines in records:
            self.readings |= {cell.place: reading(lines[0]) for cell in finding.cells}
            self.progress.step(finding.cell.key)

    def patience(self, finding: Finding, calls: int) -> float:
        """Seconds to wait for ``calls`` calls before a worker counts as hung."""
        known = finding.call_seconds or self.forecast.seconds(finding)
        return self.effort.patience + 3 * calls * known + (COMPILE_PATIENCE if finding.compiles else 0)


def memory_limit(environ: dict[str, str], free: int | None = None) -> int:
    """Bytes that one cell may need: AXIALBENCH_MEMORY, or most of what is free."""
    if text := environ.get("AXIALBENCH_MEMORY"):
        return parse_memory(text)
    return int(SHARE_OF_MEMORY * (machine.free_memory() if free is None else free))


def is_under(path: str, folder: str) -> bool:
    """Whether ``path`` lies in ``folder``, links resolved."""
    return os.path.commonpath([os.path.realpath(path), os.path.realpath(folder)]) == os.path.realpath(folder)


def size(n: int) -> str:
    """Bytes as people say them: ``"251 GB"``."""
    for unit, scale in {"TB": 1e12, "GB": 1e9, "MB": 1e6}.items():
        if n >= scale:
            return f"{n / scale:.3g} {unit}"
    return f"{n} bytes"


def from_environment(module: str, cells: list[Cell]) -> dict[str, dict[str, Any]]:
    """The sweep of ``module`` that the environment asks for: see ``effort`` for the variables."""
    machine.end_with_parent()
    selection = Selection.from_environment()
    sweep = Sweep(module, Origin.from_environment(), effort())
    return sweep.measure([cell for cell in cells if selection.has(cell)], selection)
