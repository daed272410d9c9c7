"""``python -m impls check my_package.my_module:my_kernel``: is a kernel right?

The kernel is a callable with the signature of the core call, ``(q, k, v, bias, mask) -> o``, an ``impls.Backend``, or
the name of a registered backend. A callable claims every problem, and declines one by raising
``NotImplementedError("why")``. A ``Backend`` claims what its ``limits`` let through. Either is called as
``Backend.__call__`` calls it: k and v have as many heads as q, and no axis is empty.

With ``--module`` it is a whole module of the operation that ``--op`` names: its class or another builder with our
module's signature and parameter names (``impls.evoformer``), or a function ``(parameters, x, z=None, mask=None, *,
N_head)``. The name of a registered backend stands for our modules over it.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import random
import sys
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from impls.conformance import report
from impls.conformance.cases import MIXED, Case, cases, few, mixed
from impls.conformance.judge import AnyCase, Verdict, judge, judge_parts
from impls.conformance.modules.cases import DTYPES_TRIED, ModuleCase, module_cases
from impls.conformance.modules.judge import Subject, judge_module, judge_module_parts, over, subject
from impls.conformance.shrink import fault, shrink_by, symptom
from impls.interface import Backend, as_backend, get
from impls.masks import MASKED_ROWS
from impls.problem import DTYPES, OPERATIONS, Problem, one_of

CASES_OF_A_FAMILY = 2
MOST_SCORES_OF_QUICK = 2**22
FAILURES_SHRUNK = 4
SIMPLEST_FIRST = ("float32", "float64", "bfloat16", "float16")

C = TypeVar("C", Case, ModuleCase)


@dataclass(frozen=True)
class Examination:
    """How one target is judged: on one case, and on as much of a case as it takes."""

    judge: Callable[[Any], Verdict]
    parts: Callable[[Any], list[Verdict]]


def of_kernel(backend: Backend) -> Examination:
    return Examination(partial(judge, backend), partial(judge_parts, backend))


def of_module(module: Subject) -> Examination:
    return Examination(partial(judge_module, module), partial(judge_module_parts, module))


def load(target: str) -> Backend:
    """The backend that ``target`` names: ``package.module:attribute``, or a registered name.

    Raises ImportError, AttributeError, ValueError or TypeError, each saying what was looked for.
    """
    found = attribute_of(target)
    return found if isinstance(found, Backend) else as_backend(found, target.partition(":")[2], target)


def load_module(target: str) -> Subject:
    """The module that ``target`` names: ``package.module:attribute``, or ours over a backend of a registered name.

    Raises as ``load`` does.
    """
    found = attribute_of(target)
    return over(found) if isinstance(found, Backend) else subject(found, target.partition(":")[2], target)


def attribute_of(target: str) -> object:
    """What stands at ``package.module:attribute``; the backend if ``target`` is a name without a colon."""
    module, colon, attribute = target.partition(":")
    if colon:
        return getattr(importlib.import_module(module), attribute)
    try:
        return get(target)
    except ValueError as error:
        raise ValueError(f"{error}; code of your own is named module:callable, such as {target}:attend") from error


def chosen(
    backend: Backend,
    operations: Collection[str] = OPERATIONS,
    dtypes: Collection[str] = DTYPES,
    *,
    forward_only: bool = False,
    quick: bool = False,
    more: int = 0,
    device: str = "cpu",
) -> list[Case]:
    """The cases to judge: the given operations', and the groups' that suit them, in the given dtypes.

    ``quick`` keeps two cases of every family and dtype, of at most four million logits; ``more`` mixtures are tried
    beyond those of every run. A backend that compiles for seconds is given few shapes.
    """
    biased = any(Problem(operation=name).has_bias for name in operations)
    kept: dict[Case, None] = {}
    every = few() if backend.traits.compiles else (*cases(), *mixed(range(MIXED, MIXED + more)))
    for case in every:
        if case.dtype not in dtypes or (case.kind in OPERATIONS and case.kind not in operations):
            continue
        if case.bias_shape is not None and not biased:
            continue
        kept.setdefault(case.with_(grad=() if forward_only else case.grad, device=device))
    return sampled([case for case in kept if case.core().scores <= MOST_SCORES_OF_QUICK]) if quick else list(kept)


def chosen_of_module(
    operations: Collection[str],
    dtypes: Collection[str] = DTYPES_TRIED,
    *,
    masked_rows: str = "zero",
    forward_only: bool = False,
    quick: bool = False,
    device: str = "cpu",
) -> list[ModuleCase]:
    """The cases to judge a module of these operations on.

    ``masked_rows`` says what is right for a row with no valid key; ``quick`` keeps two cases of every family and dtype.
    Raises ValueError if none of ``dtypes`` is one that modules are judged in.
    """
    if not {*dtypes} & {*DTYPES_TRIED}:
        raise ValueError(f"modules are judged in {', '.join(DTYPES_TRIED)}; not in {', '.join(dtypes)}")
    kept: dict[ModuleCase, None] = {}
    for case in module_cases(operations):
        if case.dtype in dtypes:
            grad = () if forward_only else case.grad
            kept.setdefault(case.with_(grad=grad, masked_rows=masked_rows, device=device))
    return sampled(list(kept)) if quick else list(kept)


def sampled(everything: list[C]) -> list[C]:
    """Of every kind, family and dtype two cases, masked and in training where there are such, and a forward one."""
    families: dict[tuple[str, str, str], list[C]] = {}
    for case in everything:
        families.setdefault((case.kind, case.family, case.dtype), []).append(case)
    rng = random.Random(0)
    kept = []
    for family in families.values():
        rng.shuffle(family)
        family.sort(key=lambda case: (not case.grad, case.mask != "full_row"))
        kept += family[:CASES_OF_A_FAMILY]
        kept += [case for case in family[CASES_OF_A_FAMILY:] if not case.grad][:1]
    return kept


def check(
    examination: Examination,
    target: str,
    selection: Collection[AnyCase],
    progress: Callable[[int, AnyCase], None] = lambda n, case: None,
) -> report.Report:
    """Judge the target on every case of ``selection``, and shrink what fails.

    The cases are so small that more than one thread only costs; those that repeat a call get all threads, whose order
    may change an answer.
    """
    verdicts: dict[AnyCase, Verdict] = {}
    threads = torch.get_num_threads()
    try:
        with redirect_stdout(sys.stderr):  # what a kernel prints is no part of the report
            for n, case in enumerate(selection):
                progress(n, case)
                torch.set_num_threads(threads if case.repeats > 1 else 1)
                verdicts |= {verdict.case: verdict for verdict in examination.parts(case)}
            torch.set_num_threads(threads)
            smallest = at_their_smallest(examination, list(verdicts.values()))
    except KeyboardInterrupt:
        raise Interrupted(report.Report(target, tuple(verdicts.values()), ())) from None
    finally:
        torch.set_num_threads(threads)
    return report.Report(target, tuple(verdicts.values()), smallest)


class Interrupted(Exception):
    """Ctrl-C; ``so_far`` is the report on what was judged by then."""

    def __init__(self, so_far: report.Report) -> None:
        super().__init__("interrupted")
        self.so_far = so_far


def at_their_smallest(examination: Examination, verdicts: list[Verdict]) -> tuple[Verdict, ...]:
    """The failures that differ once they are shrunk: in how they fail, or on what.

    Only the simplest dtype in which a symptom is seen is looked at, without quirks if it is seen without. There one
    failure of every fault is shrunk, then of every fault one of another family of cases, until four are.
    """
    simplest: dict[str, tuple[int, bool]] = {}
    faults: dict[tuple[str, bool], dict[str, Verdict]] = {}
    for verdict in sorted(verdicts, key=effort):
        if verdict.status == "failed" and effort(verdict) == simplest.setdefault(symptom(verdict), effort(verdict)):
            faults.setdefault(fault(verdict), {}).setdefault(verdict.case.family, verdict)
    rounds = itertools.zip_longest(*(families.values() for families in faults.values()))
    candidates = [verdict for one_of_each in rounds for verdict in one_of_each if verdict]
    distinct: dict[tuple[object, ...], Verdict] = {}
    for verdict in candidates[:FAILURES_SHRUNK]:
        small = shrink_by(examination.judge, verdict)
        distinct.setdefault((fault(small), small.case.traits), small)
    return tuple(distinct.values())


def effort(verdict: Verdict) -> tuple[int, bool]:
    """What makes a failure hard to look into: its dtype, and quirks."""
    return SIMPLEST_FIRST.index(verdict.case.dtype), bool(verdict.case.quirks)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="package.module:callable, or the name of a registered backend")
    parser.add_argument("--module", action="store_true", help="the target is a whole module, of the operation --op")
    parser.add_argument("--ops", "--op", type=several("operation", OPERATIONS), metavar="A,B",
                        help="operations whose shapes are tried: " + ", ".join(OPERATIONS))  # fmt: skip
    parser.add_argument(
        "--dtypes", type=several("dtype", DTYPES), default=DTYPES, metavar="A,B", help=", ".join(DTYPES)
    )
    parser.add_argument("--masked-rows", choices=MASKED_ROWS, default="zero",
                        help="what the module gives for a row with no valid key (zero)")  # fmt: skip
    parser.add_argument("--forward-only", action="store_true", help="judge no gradients")
    parser.add_argument("--quick", action="store_true", help="two cases of every family, instead of all")
    parser.add_argument(
        "--more", type=int, default=0, metavar="N", help="N more mixtures drawn at random, over all dtypes"
    )
    parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda")
    parser.add_argument("--case", metavar="TEXT", help="judge this one case, as a failure's report gives it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page as well")


def several(what: str, known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """A parser of names with commas between."""

    def parse(text: str) -> tuple[str, ...]:
        try:
            return tuple(one_of(what, name, known) for name in text.split(","))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse


def main(options: argparse.Namespace) -> int:
    """0 if the target is right, 1 if it is wrong or nothing could be judged, 2 if it or the case cannot be found."""
    try:
        examination, selection = ordered(options)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        print(f"{options.target}: {error}", file=sys.stderr)
        return 2
    command = f"--module {options.target}" if options.module else options.target
    try:
        result = check(examination, command, selection, progress(len(selection)))
    except Interrupted as stopped:
        print(report.as_json(stopped.so_far) if options.json else report.as_text(stopped.so_far))
        print(f"interrupted after {len(stopped.so_far.verdicts)} of {len(selection)} cases", file=sys.stderr)
        return 130
    print(report.as_json(result) if options.json else report.as_text(result))
    if options.html:
        options.html.write_text(report.as_html(result))
    return 0 if result.passed else 1


def ordered(options: argparse.Namespace) -> tuple[Examination, Collection[AnyCase]]:
    """What the command line asks for: how to judge the target, and on which cases."""
    narrowed = {"forward_only": options.forward_only, "quick": options.quick, "device": options.device}
    if not options.module:
        backend = load(options.target)
        found = [Case.parse(options.case)] if options.case else None
        selection = found or chosen(backend, options.ops or OPERATIONS, options.dtypes, more=options.more, **narrowed)
        return of_kernel(backend), selection
    module = load_module(options.target)
    if options.case:
        return of_module(module), [ModuleCase.parse(options.case)]
    if not options.ops and ":" in options.target:
        raise ValueError(f"say which operation the module is of, such as --op msa_row (of {', '.join(OPERATIONS)})")
    operations = options.ops or OPERATIONS
    return of_module(module), chosen_of_module(operations, options.dtypes, masked_rows=options.masked_rows, **narrowed)


def progress(total: int) -> Callable[[int, AnyCase], None]:
    """A line on a terminal that says how far it is; nothing elsewhere."""

    def line(n: int, case: AnyCase) -> None:
        if sys.stderr.isatty():
            text = f"{n + 1}/{total} {case.kind} {case.dtype}"
            print(f"\r{text:<60}", end="\n" if n + 1 == total else "", file=sys.stderr, flush=True)

    return line
