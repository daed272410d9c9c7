"""``python -m impls contracts``: what each backend declares, held against what it does when it is run.

Every question is put by running the backend on small problems; an answer that is not what was declared is a
contradiction. ``docs/backends.md`` is made from this (``--page``), and ``results/conformance/contracts.jsonl``
(``--record``).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.profiler import profile

from impls.conformance import contracts_page, contracts_record
from impls.conformance.budget import run
from impls.conformance.cases import SHAPES, WIDTHS, Case, resized
from impls.conformance.check import load
from impls.conformance.judge import Verdict, judge, judge_parts
from impls.conformance.quirks import LAYOUTS
from impls.interface import Backend, get, names
from impls.problem import DTYPES, CoreInputs

BASE = Case.of(SHAPES["triangle_starting"].with_(mask="random", direction="training"))
"""What the questions vary: a square of edges, since some kernels know nothing else."""

ALL_TAKEN = "right, or declined"
MANY = 12
BUILT_ANEW = "not tried, since code would be built for each"
STATUSES = {
    "passed": "right",
    "failed": "wrong",
    "declined": "declined",
    "not_judged": "not judged",
    "not_tried": BUILT_ANEW,
}


@dataclass(frozen=True)
class Finding:
    """The answer to one question: what was ``declared``, what was ``found``, and how the second denies the first."""

    question: str
    declared: str
    found: str
    contradiction: str = ""

    @property
    def ok(self) -> bool | None:
        """Whether what was found is as declared; None where nothing was tried."""
        return None if self.found.startswith("not tried") else not self.contradiction


@dataclass(frozen=True)
class Contract:
    """All findings about one backend on one kind of device; or, in words, why it cannot be run there at all."""

    backend: Backend
    device: str
    findings: tuple[Finding, ...] = ()
    unavailable: tuple[str, ...] = ()

    @property
    def needs_cuda(self) -> bool:
        return any("CUDA" in reason for reason in self.unavailable)

    @property
    def why_not_run(self) -> str:
        """Why there are no findings: a backend that needs CUDA says nothing about the packages of this machine."""
        return "it needs CUDA" if self.needs_cuda else "; ".join(self.unavailable)

    @property
    def contradictions(self) -> list[str]:
        return [f"{finding.question}: {finding.contradiction}" for finding in self.findings if finding.contradiction]


def contract(backend: Backend, device: str = "cpu") -> Contract:
    """Put every question to ``backend``. Raises nothing that the backend raises."""
    candidates = [
        BASE.with_(dtype=dtype, bias_shape=shape, grad=BASE.grad if shape else BASE.grad[:3], device=device)
        for shape, dtype in itertools.product((BASE.bias_shape, None), ("float32", "float16", "bfloat16"))
    ]
    refusals = {case: backend.why_not(case.with_(grad=()).core()) for case in candidates}
    base = next((case for case, reasons in refusals.items() if not reasons), None)
    if base is None:
        shared = set.intersection(*(set(reasons) for reasons in refusals.values()))
        return Contract(backend, device, unavailable=tuple(filter(shared.__contains__, refusals[candidates[0]])))
    probe = Probe(backend, base)
    return Contract(backend, device, tuple(question(probe) for question in QUESTIONS))


class Probe:
    """A backend, the problem that is varied for it, and the verdicts so far."""

    def __init__(self, backend: Backend, base: Case) -> None:
        self.backend, self.base = backend, base
        self.verdicts: dict[Case, Verdict] = {}
        self.built = {self.taken(base.with_(dtype=dtype)).core() for dtype in (base.dtype, "bfloat16")}

    def taken(self, case: Case) -> Case:
        """The most of ``case`` that the backend takes: all, or without the bias's gradient, or else forward only."""
        parts = [case.with_(grad=grad) for grad in (case.grad, tuple(name for name in case.grad if name != "bias"))]
        return next((part for part in parts if not self.backend.why_not(part.core())), case.with_(grad=()))

    def can_try(self, case: Case) -> bool:
        """Whether a case is cheap: for a backend that builds code, one that needs no other shape, layout or inputs."""
        core = self.taken(case).core()
        if not self.backend.traits.compiles or self.backend.why_not(core):
            return True
        return core in self.built and not {*case.quirks} & {*LAYOUTS}

    def verdict(self, case: Case, *, whole: bool = False) -> Verdict:
        """The verdict on ``case``, or on the most of it that the backend takes (``judge_parts``) unless ``whole``."""
        if not self.can_try(case):
            return Verdict(case, "not_tried")
        found = judge(self.backend, case) if whole else judge_parts(self.backend, case)[-1]
        self.verdicts[case] = found
        return found

    def judged(self, question: str, declared: str, cases: Mapping[str, Case], *, whole: bool = False) -> Finding:
        """The finding of several cases: which are right, which declined and why, which wrong."""
        verdicts = {label: self.verdict(case, whole=whole) for label, case in cases.items()}
        groups: dict[tuple[str, str], list[str]] = {}
        for label, verdict in verdicts.items():
            alike = re.sub(r"[\d,x]+", "#", verdict.reasons[0]) if verdict.reasons else ""
            groups.setdefault((verdict.status, alike), []).append(label)
        texts = []
        for (status, _), labels in sorted(groups.items(), key=lambda group: [*STATUSES].index(group[0][0])):
            reason = "".join(f" ({reason})" for reason in verdicts[labels[0]].reasons[:1])
            texts.append(f"{STATUSES[status]}: {named(labels, len(cases))}{reason}")
        wrong = [text for text in texts if text.startswith(STATUSES["failed"])]
        return Finding(question, declared, "; ".join(texts), "; ".join(wrong))


def answer(probe: Probe, inputs: CoreInputs) -> dict[str, Tensor]:
    """What the backend answers; nothing where it raises, which the questions about verdicts report."""
    try:
        return run(probe.backend, inputs)
    except Exception:
        return {}


def named(labels: list[str], total: int) -> str:
    """The labels, or how many there are of them."""
    if len(labels) <= MANY:
        return ", ".join(labels)
    return f"all {total}" if len(labels) == total else f"{len(labels)} others"


def rows_without_keys(probe: Probe) -> Finding:
    declared = "zeros, and zero gradients"
    verdict = probe.verdict(case := probe.base.with_(mask="full_row"))
    question = "Rows without a valid key"
    if verdict.status == "passed":
        return Finding(question, declared, declared if verdict.case.direction == "training" else "zeros")
    inputs = case.with_(grad=()).inputs()
    if not (answered := answer(probe, inputs)):
        return Finding(question, declared, verdict.reasons[0], verdict.reasons[0])
    row = answered["o"].flatten(0, -4)[0]
    mean = inputs.v.flatten(0, -4)[0].mean(-2, keepdim=True).expand_as(row)
    found = (
        "zeros, but wrong gradients" if not row.any()
        else "numbers that are not finite" if not row.isfinite().all()
        else "the mean of all values" if torch.allclose(row, mean, atol=1e-2)
        else "other numbers"
    )  # fmt: skip
    return Finding(question, declared, found, f"{found}; {verdict.reasons[0]}")


def infinite_bias(probe: Probe) -> Finding:
    cases = {
        "some": probe.base.with_(mask="none", quirks=("empty_row",)),
        "with a mask": probe.base.with_(mask="full_row", quirks=("empty_row",)),
    }
    question, declared = "A bias of -inf, along a whole row too", "as a masked key"
    return probe.judged(question, declared, cases) if probe.base.bias_shape else no_bias(probe, question, declared)


def no_bias(probe: Probe, question: str, declared: str) -> Finding:
    reasons = probe.backend.why_not(BASE.with_(dtype=probe.base.dtype, device=probe.base.device, grad=()).core())
    return Finding(question, declared, f"declined: {reasons[0]}")


def hidden_numbers(probe: Probe) -> Finding:
    cases = {"NaN, +inf and -inf": probe.base.with_(mask="full_row", quirks=("poison",))}
    return probe.judged("Numbers in masked keys and values", "reach nothing", cases)


def dtypes(probe: Probe) -> Finding:
    return probe.judged("Dtypes", ALL_TAKEN, {dtype: probe.base.with_(dtype=dtype) for dtype in DTYPES})


def gradients(probe: Probe) -> Finding:
    wanted = {"all at once": probe.base.grad} | {f"of {name} alone": (name,) for name in probe.base.grad}
    cases = {label: probe.base.with_(grad=grad) for label, grad in wanted.items()}
    return probe.judged("Gradients", ALL_TAKEN, cases, whole=True)


def broadcasts(probe: Probe) -> Finding:
    question, declared = "A bias broadcast over any axes", ALL_TAKEN
    if probe.base.bias_shape is None:
        return no_bias(probe, question, declared)
    axes = dict(zip(("B", "rows", "heads", "queries", "keys"), probe.base.core().scores_shape, strict=True))
    cases = {}
    for kept in itertools.product((True, False), repeat=len(axes)):
        missing = [name for name, keep in zip(axes, kept, strict=True) if not keep]
        shape = tuple(n if keep else 1 for n, keep in zip(axes.values(), kept, strict=True))
        cases[" and ".join(missing) or "none"] = probe.base.with_(bias_shape=shape)
    return probe.judged(question, declared, cases)


def wide_bias(probe: Probe) -> Finding:
    question, declared = "A float32 bias beside half precision", ALL_TAKEN
    if probe.base.bias_shape is None:
        return no_bias(probe, question, declared)
    half = ("bfloat16", "float16")
    return probe.judged(question, declared, {x: probe.base.with_(dtype=x, bias_dtype="float32") for x in half})


def lengths(probe: Probe) -> Finding:
    sizes = {
        "one key": (9, 1), "one query": (1, 9), "fewer queries": (5, 33), "fewer keys": (33, 5), "no key": (9, 0),
        "no query": (0, 9), "130": (130, 130),
    }  # fmt: skip
    cases = {label: resized(probe.base, Q=Q, K=K).with_(mask="padding") for label, (Q, K) in sizes.items()}
    for n in (1, 2, 17, 33):
        same = resized(probe.base, Q=n, K=n)
        cases[f"a square of {n}"] = same.with_(batch=(same.batch[0], n))
    return probe.judged("Lengths", ALL_TAKEN, cases)


def widths(probe: Probe) -> Finding:
    cases = {f"{c}": resized(probe.base, c=c) for c in (*WIDTHS, 256)}
    return probe.judged("Widths of a head", ALL_TAKEN, cases)


def layouts(probe: Probe) -> Finding:
    return probe.judged("Strided inputs", ALL_TAKEN, {name: probe.base.with_(quirks=(name,)) for name in LAYOUTS})


def untouched(probe: Probe) -> Finding:
    modified = {
        reason for verdict in probe.verdicts.values() for reason in verdict.reasons if reason.endswith("was modified")
    }
    found = ", ".join(sorted(modified)) or "never modified"
    return Finding("Inputs", "never modified", found, found if modified else "")


def repeated(probe: Probe) -> Finding:
    question = "The same call again"
    if not probe.backend.traits.deterministic:
        return Finding(question, "may differ in the last bits", "not tried: nothing was promised")
    large = resized(probe.base, Q=64, K=64).with_(batch=(2, 64))
    if not probe.can_try(large):
        large = probe.base
    inputs = probe.taken(large).inputs()
    threads = torch.get_num_threads()
    torch.set_num_threads(max(2, threads))
    answers = [answer(probe, inputs) for _ in range(3)]
    torch.set_num_threads(threads)
    unequal = [name for name, x in answers[0].items() if not all(torch.equal(x, y[name]) for y in answers[1:])]
    found = (
        f"{', '.join(unequal)} differ" if unequal else f"{', '.join(answers[0]) or 'an exception'} the same three times"
    )
    return Finding(question, "the same bits", found, found if unequal else "")


def variants(probe: Probe) -> Iterator[tuple[str, Case]]:
    """Forward and training, with and without bias and mask, as far as the backend takes them."""
    for direction, biased, mask in itertools.product(("forward", "training"), (False, True), ("none", "random")):
        case = probe.base.with_(mask=mask)
        if not biased:
            case = case.with_(bias_shape=None, grad=case.grad[:3])
        elif case.bias_shape is None:
            continue
        case = case if direction == "training" else case.with_(grad=())
        if not probe.backend.why_not(case.core()) and probe.can_try(case):
            extras = [name for name, there in (("bias", biased), ("mask", mask != "none")) if there]
            yield direction + (f" with {' and '.join(extras)}" if extras else ""), case


def score_sized(probe: Probe) -> Finding:
    """Found by the largest single allocation of a call whose logits are far larger than its inputs."""
    question, declared = "A tensor as large as the logits", probe.backend.traits.score_sized
    if probe.backend.traits.compiles:
        return Finding(question, declared, f"{BUILT_ANEW} shape")
    made: list[str] = []
    spared: list[str] = []
    for label, case in variants(probe):
        large = resized(case, H=4, Q=256, K=256, c=8)
        large = large.with_(batch=(1, 16), bias_shape=large.bias_shape and (1, *large.bias_shape[1:]))
        if probe.backend.why_not(large.core()):
            continue
        inputs = large.inputs()
        with profile(profile_memory=True) as profiled:
            answer(probe, inputs)
        assert profiled.profiler is not None
        events = profiled.profiler.kineto_results.events()
        largest = max((event.nbytes() for event in events if event.name() == "[memory]"), default=0)
        (made if largest >= large.core().scores * inputs.q.element_size() else spared).append(label)
    found = "; ".join(f"{what}: {', '.join(labels)}" for what, labels in (("made", made), ("none", spared)) if labels)
    denied = made if declared.startswith("never") else spared if declared.startswith("always") else []
    return Finding(question, declared, found, f"declared {declared!r}, but not so: {', '.join(denied)}" * bool(denied))


def kernels(probe: Probe) -> Finding:
    """Found in PyTorch's profile: the backend's own kernel, another backend's, or ordinary operations."""
    known = [kernel for backend in loadable() for kernel in backend.traits.kernels]
    own = probe.backend.traits.kernels
    ran: dict[str, list[str]] = {}
    for label, case in variants(probe):
        inputs = case.inputs()
        with profile() as profiled:
            answer(probe, inputs)
        seen = {event.name for event in profiled.events() or ()}
        shown = [kernel for kernel in (*own, *known) if any(name.startswith(kernel) for name in seen)]
        ran.setdefault(shown[0] if shown else "ordinary operations", []).append(label)
    found = "; ".join(
        f"{kernel}: {', '.join(labels)}" if len(ran) > 1 else f"{kernel}, in every call"
        for kernel, labels in ran.items()
    )
    others = {kernel: labels for kernel, labels in ran.items() if own and kernel not in own}
    fell_back = "; ".join(f"{kernel} ran instead: {', '.join(labels)}" for kernel, labels in others.items())
    return Finding("The kernel that ran", " or ".join(own) or "none of its own", found, fell_back)


def loadable() -> list[Backend]:
    """Every backend but those of other packages that cannot be loaded; ``python -m impls`` says why."""
    found = []
    for name in names():
        with contextlib.suppress(ImportError, TypeError):
            found.append(get(name))
    return found


QUESTIONS: tuple[Callable[[Probe], Finding], ...] = (
    rows_without_keys, infinite_bias, hidden_numbers, dtypes, gradients, broadcasts, wide_bias, lengths, widths,
    layouts, untouched, repeated, score_sized, kernels,
)  # fmt: skip
"""In the order in which they are put; ``untouched`` looks at all verdicts before it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("targets", nargs="*", help="backends or package.module:kernel; all backends if none is given")
    parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write all as a page, such as docs/backends.md")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write all as data, a JSON object a line")


def main(options: argparse.Namespace) -> int:
    """0 if nothing contradicts what was declared, 1 if something does, 2 if a target cannot be found."""
    try:
        backends = [load(target) for target in options.targets] or loadable()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        print(error, file=sys.stderr)
        return 2
    found = [contract(backend, options.device) for backend in backends]
    if options.page:
        options.page.write_text(contracts_page.page(found))
    if options.record:
        options.record.write_text(contracts_record.record(found))
    if not options.page and not options.record:
        print("\n".join(contracts_page.section(each) for each in found))
    return 1 if any(each.contradictions for each in found) else 0
