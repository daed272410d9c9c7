"""``python -m impls check my_package.my_module:my_kernel``: is a kernel right?

The kernel is a callable with the signature of the core call, ``(q, k, v, bias, mask) -> o``, an ``impls.Backend``, or
the name of a registered backend. A callable claims every problem, and declines one by raising
``NotImplementedError("why")``. A ``Backend`` claims what its ``limits`` let through.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import torch

from impls import report
from impls.cases import Case, cases, few
from impls.conformance import Verdict, judge_parts
from impls.interface import Backend, as_backend, get
from impls.problem import DTYPES, OPERATIONS, Problem, one_of
from impls.shrink import shrink, symptom

CASES_OF_A_FAMILY = 2
FAILURES_SHOWN = 4


def load(target: str) -> Backend:
    """The backend that ``target`` names: ``package.module:attribute``, or a registered name.

    Raises ImportError, AttributeError, ValueError or TypeError, each saying what was looked for.
    """
    module, colon, attribute = target.partition(":")
    if not colon:
        return get(target)
    return as_backend(getattr(importlib.import_module(module), attribute), attribute, target)


def chosen(
    backend: Backend,
    operations: Collection[str] = OPERATIONS,
    dtypes: Collection[str] = DTYPES,
    *,
    forward_only: bool = False,
    quick: bool = False,
    device: str = "cpu",
) -> list[Case]:
    """The cases to judge: the given operations', and the groups' that suit them, in the given dtypes.

    ``quick`` keeps two cases of every family and dtype. A backend that compiles for seconds is given few shapes.
    """
    biased = any(Problem(operation=name).has_bias for name in operations)
    kept: dict[Case, None] = {}
    for case in few() if backend.traits.compiles else cases():
        if case.dtype not in dtypes or (case.kind in OPERATIONS and case.kind not in operations):
            continue
        if case.bias_shape is not None and not biased:
            continue
        kept.setdefault(case.with_(grad=() if forward_only else case.grad, device=device))
    return sampled(list(kept)) if quick else list(kept)


def sampled(everything: list[Case]) -> list[Case]:
    """Two cases of every family and dtype, masked and in training where there are such."""
    families: dict[tuple[str, str], list[Case]] = {}
    for case in everything:
        families.setdefault((case.family, case.dtype), []).append(case)
    rng = random.Random(0)
    kept = []
    for family in families.values():
        rng.shuffle(family)
        family.sort(key=lambda case: (case.mask != "full_row", not case.grad))
        kept += family[:CASES_OF_A_FAMILY]
    return kept


def check(
    backend: Backend, target: str, selection: list[Case], progress: Callable[[int, Case], None] = lambda n, case: None
) -> report.Report:
    """Judge ``backend`` on every case of ``selection``, and shrink what fails.

    The cases are so small that more than one thread only costs; those that repeat a call get all threads, whose order
    may change an answer.
    """
    verdicts: dict[Case, Verdict] = {}
    threads = torch.get_num_threads()
    for n, case in enumerate(selection):
        progress(n, case)
        torch.set_num_threads(threads if case.repeats > 1 else 1)
        verdicts |= {verdict.case: verdict for verdict in judge_parts(backend, case)}
    torch.set_num_threads(threads)
    failures: dict[str, Verdict] = {}
    for verdict in verdicts.values():
        if verdict.status == "failed":
            failures.setdefault(f"{symptom(verdict)} {verdict.case.family}", verdict)
    smallest = {}
    for verdict in list(failures.values())[:FAILURES_SHOWN]:
        small = shrink(backend, verdict)
        smallest[str(small.case)] = small
    return report.Report(target, tuple(verdicts.values()), tuple(smallest.values()))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="package.module:kernel, or the name of a registered backend")
    parser.add_argument("--ops", type=several("operation", OPERATIONS), default=OPERATIONS, metavar="A,B",
                        help="operations whose shapes are tried: " + ", ".join(OPERATIONS))  # fmt: skip
    parser.add_argument(
        "--dtypes", type=several("dtype", DTYPES), default=DTYPES, metavar="A,B", help=", ".join(DTYPES)
    )
    parser.add_argument("--forward-only", action="store_true", help="judge no gradients")
    parser.add_argument("--quick", action="store_true", help="two cases of every family, instead of all")
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
    """0 if the kernel is right, 1 if it is wrong or nothing could be judged, 2 if it or the case cannot be found."""
    try:
        backend = load(options.target)
        if options.case:
            selection = [Case.parse(options.case)]
        else:
            selection = chosen(
                backend, options.ops, options.dtypes,
                forward_only=options.forward_only, quick=options.quick, device=options.device,
            )  # fmt: skip
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        print(f"{options.target}: {error}", file=sys.stderr)
        return 2
    result = check(backend, options.target, selection, progress(len(selection)))
    print(report.as_json(result) if options.json else report.as_text(result))
    if options.html:
        options.html.write_text(report.as_html(result))
    return 0 if result.passed else 1


def progress(total: int) -> Callable[[int, Case], None]:
    """A line on a terminal that says how far it is; nothing elsewhere."""

    def line(n: int, case: Case) -> None:
        if sys.stderr.isatty():
            text = f"{n + 1}/{total} {case.kind} {case.dtype}"
            print(f"\r{text:<60}", end="\n" if n + 1 == total else "", file=sys.stderr, flush=True)

    return line
