"""Random problems over every backend that runs here: answers within their budget, and relations that hold.

    make fuzz MINUTES=10
    python tests/fuzz.py --minutes 10 --seed 7 --backends chunked,sdpa

Every problem is put to all backends, and so is one relation on it. Half of the problems are new; half are close to one
of the corpus, which keeps for each backend, dtype and tensor the problem whose error came closest to its budget. The
corpus is a file, tried first in the next run. What fails is shrunk, printed with the command that repeats it, and
written down beside the corpus. Ctrl-C ends a run early and loses nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from relations import RELATIONS, Relation

import impls
from impls.conformance.cases import Case, random_case, resized
from impls.conformance.check import several
from impls.conformance.judge import Verdict, judge_parts
from impls.conformance.quirks import CALLS, QUIRKS
from impls.conformance.shrink import shrink, simpler, smallest, symptom
from impls.interface import Backend, UnsupportedProblem
from impls.problem import DTYPES, MASK_KINDS

FOLDER = Path(__file__).parent.parent / ".fuzz"
SHRUNK = 5
"""How many failures of one backend with one symptom are shrunk; those that shrink to the same are printed once."""
MOST_LOGITS = 2**18


@dataclass
class Corpus:
    """For each backend, dtype and tensor: the problem whose error came closest to its budget, and how close."""

    path: Path
    closest: dict[tuple[str, str, str], tuple[float, Case]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Corpus:
        corpus = cls(path)
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            place = (entry["backend"], entry["dtype"], entry["tensor"])
            corpus.closest[place] = entry["ratio"], Case.parse(entry["case"])
        return corpus

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        entries = (
            {"backend": backend, "dtype": dtype, "tensor": tensor, "ratio": ratio, "case": str(case)}
            for (backend, dtype, tensor), (ratio, case) in sorted(self.closest.items(), key=lambda item: item[0])
        )
        self.path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))

    def learn(self, backend: Backend, verdict: Verdict) -> None:
        """Keep the problem of ``verdict`` where it came closer to the budget than any before."""
        for check in verdict.checks:
            place = (backend.name, verdict.case.dtype, check.tensor)
            if self.closest.get(place, (0.0, None))[0] < check.ratio <= 1:
                self.closest[place] = check.ratio, verdict.case

    def cases(self) -> list[Case]:
        return list(dict.fromkeys(case for _, case in self.closest.values()))


@dataclass(frozen=True)
class Failure:
    """What went wrong, at its smallest, and the command that repeats it."""

    backend: str
    what: str
    reasons: tuple[str, ...]
    case: Case

    @property
    def command(self) -> str:
        case = shlex.quote(str(self.case))
        if self.what in RELATIONS:
            return f"python tests/fuzz.py --relation {self.what} --backends {self.backend} --case {case}"
        return f"python -m impls check {self.backend} --case {case}"

    def __str__(self) -> str:
        return f"{self.backend}: {self.what}\n" + "".join(f"    {x}\n" for x in (*self.reasons, self.command))


@dataclass
class Fuzz:
    """A run: what is tried, what was found so far."""

    backends: list[Backend]
    corpus: Corpus
    rng: random.Random
    dtypes: tuple[str, ...] = DTYPES
    device: str = "cpu"
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    shrunk: Counter[tuple[str, str]] = field(default_factory=Counter)

    def problems(self) -> Iterator[Case]:
        """The corpus, then new problems and neighbours of the corpus's in turn, without end."""
        yield from self.known()
        while True:
            known = self.known()
            if known and self.rng.random() < 0.5:
                yield neighbour(self.rng.choice(known), self.rng)
            else:
                yield random_case(self.rng, dtype=self.rng.choice(self.dtypes))

    def known(self) -> list[Case]:
        """The corpus's problems in the dtypes that are tried."""
        return [case for case in self.corpus.cases() if case.dtype in self.dtypes]

    def run(self, until: Callable[[], bool]) -> None:
        """Try problems until told to stop, or until Ctrl-C; the corpus is written in either case."""
        try:
            for case in self.problems():
                if until():
                    break
                self.counts["problems"] += 1
                self.counts[case.dtype] += 1
                relation = self.rng.choice(list(RELATIONS.values()))
                for backend in self.backends:
                    self.judge(backend, case.with_(device=self.device))
                    self.relate(backend, relation, case.with_(device=self.device, **relation.fixed))
        except KeyboardInterrupt:
            print("\nstopped", file=sys.stderr)
        finally:
            self.corpus.write()

    def judge(self, backend: Backend, case: Case) -> None:
        """One verdict."""
        verdict = judge_parts(backend, case)[-1]
        self.counts[verdict.status] += 1
        self.corpus.learn(backend, verdict)
        if verdict.status == "failed" and self.worth_shrinking(backend, symptom(verdict)):
            small = shrink(backend, verdict)
            self.report(Failure(backend.name, symptom(verdict), small.reasons, small.case))

    def relate(self, backend: Backend, relation: Relation, case: Case) -> None:
        """One relation."""
        outcome = broken(relation, backend, case)
        self.counts["relations declined" if outcome is None else "relations"] += 1
        if outcome:
            self.counts["relations broken"] += 1
            if self.worth_shrinking(backend, relation.name):
                fits = {name: value for name, value in relation.fixed.items() if name != "grad"}

                def fails(other: Case) -> bool:
                    return other == other.with_(**fits) and bool(broken(relation, backend, other))

                case = smallest(case, fails)
                self.report(Failure(backend.name, relation.name, (broken(relation, backend, case) or outcome,), case))

    def worth_shrinking(self, backend: Backend, what: str) -> bool:
        """Whether a failure of this kind is still worth shrinking; it is then counted.

        At most once for a backend that compiles for every problem that is tried.
        """
        self.shrunk[backend.name, what] += 1
        return self.shrunk[backend.name, what] <= (1 if backend.traits.compiles else SHRUNK)

    def report(self, failure: Failure) -> None:
        """Print it, and write it down at once, unless it is known."""
        if failure in self.failures:
            return
        self.failures.append(failure)
        print(f"\n{failure}", flush=True)
        self.corpus.path.parent.mkdir(parents=True, exist_ok=True)
        record = {"backend": failure.backend, "what": failure.what, "reasons": failure.reasons,
                  "case": str(failure.case), "command": failure.command}  # fmt: skip
        with (self.corpus.path.parent / "failures.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")

    def summary(self) -> str:
        """What was tried, in a line."""
        counts = self.counts
        tried = sum(counts[status] for status in ("passed", "failed", "not_judged"))
        closest = max(self.corpus.closest.items(), key=lambda item: item[1][0], default=None)
        near = f"; closest to its budget {closest[1][0]:.2f} ({' '.join(closest[0])})" if closest else ""
        broken = counts["failed"] + counts["relations broken"]
        return (
            f"{counts['problems']:,} problems, {tried:,} answers, {counts['relations']:,} relations, "
            f"{broken:,} failures{near}"
        )


def broken(relation: Relation, backend: Backend, case: Case) -> str | None:
    """How ``backend`` breaks ``relation``; empty if it does not, None if it declines the case."""
    try:
        relation.holds(backend, case)
    except UnsupportedProblem:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return ""


def neighbour(case: Case, rng: random.Random) -> Case:
    """A problem that differs from ``case`` in one respect."""
    quirk = rng.choice([name for name in QUIRKS if name not in CALLS])
    size = rng.choice(("H", "Q", "K", "c"))
    length = getattr(case, size)
    other = rng.choice((
        case.with_(seed=rng.randrange(2**31)),
        case.with_(mask=rng.choice(MASK_KINDS)),
        case.with_(quirks=tuple(name for name in QUIRKS if (name in case.quirks) != (name == quirk))),
        resized(case, **{size: rng.choice((max(1, length - 1), length + 1, 2 * length))}),
        rng.choice([*simpler(case), case.with_(seed=case.seed + 1)]),
    ))  # fmt: skip
    return other if other.core().scores * other.c <= MOST_LOGITS else case.with_(seed=rng.randrange(2**31))


def runnable(names: tuple[str, ...] | None, device: str) -> list[Backend]:
    """The named backends; without names, all that run here and do not compile for seconds.

    Raises ValueError where one of the named cannot run at all.
    """
    typical = Case("values", (2,), 2, 4, 4, 16, dtype="bfloat16", device=device).core()
    found = [impls.get(name) for name in names or impls.names()]
    if names is None:
        return [backend for backend in found if not backend.traits.compiles and not backend.why_not(typical)]
    for backend in found:
        if reasons := backend.why_not(typical):
            raise ValueError(f"{backend.name}: {'; '.join(reasons)}")
    return found


def timer(minutes: float, fuzz: Fuzz) -> Callable[[], bool]:
    """Whether the time is up; and a progress line: on a terminal twice a second, elsewhere once a minute."""
    end = time.monotonic() + 60 * minutes
    terminal = sys.stderr.isatty()
    pause, last = (0.5 if terminal else 60.0), -math.inf

    def up() -> bool:
        nonlocal last
        now = time.monotonic()
        if now - last >= pause:
            last = now
            left = max(0, int(end - now))
            text = f"{fuzz.summary()}; {left // 60}:{left % 60:02} left"
            print(f"\r{text:<150}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)
        return now >= end

    return up


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, help="of the problems; otherwise another each time, and printed")
    parser.add_argument("--backends", type=several("backend", tuple(impls.names())), metavar="A,B",
                        help="default: all that run here and do not compile")  # fmt: skip
    parser.add_argument("--dtypes", type=several("dtype", DTYPES), default=DTYPES, metavar="A,B")
    parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where corpus and failures are kept: .fuzz")
    parser.add_argument("--relation", choices=RELATIONS, help="with --case: hold this relation to that case, no more")
    parser.add_argument("--case", type=Case.parse, metavar="TEXT")
    options = parser.parse_args(argv)
    if (options.relation is None) != (options.case is None):
        parser.error("--relation and --case go together (python -m impls check repeats a case by itself)")
    return options


def main(argv: list[str] | None = None) -> int:
    """0 if nothing failed, 1 if something did."""
    options = arguments(argv)
    torch.set_num_threads(1)
    backends = runnable(options.backends, options.device)
    if options.case:
        relation = RELATIONS[options.relation]
        outcomes = {backend.name: broken(relation, backend, options.case) for backend in backends}
        for name, outcome in outcomes.items():
            print(f"{name}: {relation.name}: {'declined' if outcome is None else outcome or 'holds'}")
        return int(any(outcomes.values()))
    seed = random.randrange(2**31) if options.seed is None else options.seed
    print(f"seed {seed}; {', '.join(backend.name for backend in backends)}", flush=True)
    corpus = Corpus.read(options.folder / "corpus.jsonl")
    fuzz = Fuzz(backends, corpus, random.Random(seed), options.dtypes, options.device)
    fuzz.run(timer(options.minutes, fuzz))
    print(f"\n{fuzz.summary()}")
    return int(bool(fuzz.failures))


if __name__ == "__main__":
    sys.exit(main())
