"""From a failing case to the smallest one that fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from impls.conformance.cases import Case, resized
from impls.conformance.judge import AnyCase, Verdict, judge
from impls.conformance.modules.cases import AXES, ModuleCase
from impls.interface import Backend

LARGEST_SEARCH = 400

C = TypeVar("C", Case, ModuleCase)


def shrink(backend: Backend, verdict: Verdict) -> Verdict:
    """The verdict on the smallest case found that fails as ``verdict`` on a backend does."""
    return shrink_by(partial(judge, backend), verdict)


def shrink_by(judge: Callable[..., Verdict], verdict: Verdict) -> Verdict:
    """The verdict that ``judge`` gives on the smallest case found that fails as ``verdict`` does."""
    case: Any = verdict.case
    verdicts = {case: verdict}

    def fails(case: AnyCase) -> bool:
        verdicts[case] = judge(case)
        return fault(verdicts[case]) == fault(verdict)

    return verdicts[smallest(case, fails)]


def smallest(case: C, fails: Callable[[C], bool]) -> C:
    """The smallest case found that still ``fails``, as ``case`` does: greedy, one simplification at a time.

    At most 400 cases are tried.
    """
    tried = 0
    while True:
        for other in simpler(case):
            if (tried := tried + 1) > LARGEST_SEARCH:
                return case
            if fails(other):
                case = other
                break
        else:
            return case


def symptom(verdict: Verdict) -> str:
    """How a case failed, without its numbers; empty if it did not."""
    if verdict.status != "failed":
        return ""
    if verdict.checks and verdict.ratio > 1:
        return "wrong numbers"
    return verdict.reasons[0].partition(":")[0]


def fault(verdict: Verdict) -> tuple[str, bool]:
    """How a case failed, and whether in the output already."""
    return symptom(verdict), bool(verdict.checks) and verdict.checks[0].ratio > 1


def simpler(case: C) -> Iterator[C]:
    """Cases that are simpler than ``case`` in one respect, the greatest simplifications first."""
    for quirk in case.quirks:
        yield case.with_(quirks=tuple(name for name in case.quirks if name != quirk))
    if case.repeats > 1:
        yield case.with_(repeats=1)
    if case.grad:
        yield case.with_(grad=())
        if len(case.grad) > 1:
            yield from (case.with_(grad=(name,)) for name in case.grad)
    if isinstance(case, ModuleCase):
        yield from simpler_module(case)
    else:
        yield from simpler_call(case)


def simpler_mask(case: C) -> Iterator[C]:
    if case.mask != "none":
        yield case.with_(mask="none")
        if case.mask == "full_row":
            yield case.with_(mask="random")


def simpler_module(case: ModuleCase) -> Iterator[ModuleCase]:
    """Fewer options, axes and numbers of a module's call."""
    if case.gated:
        yield case.with_(gated=False, grad=tuple(name for name in case.grad if not name.startswith("linear_g")))
    yield from simpler_mask(case)
    for axis, length in enumerate(case.batch):
        before, after = case.batch[:axis], case.batch[axis + 1 :]
        yield case.with_(batch=before + after)
        for size in smaller_sizes(length):
            yield case.with_(batch=(*before, size, *after))
    for name in (*AXES[case.operation], "N_head", "c", "c_in"):
        for size in smaller_sizes(getattr(case, name)):
            if size > 2 or name not in ("c_in", "c_z"):  # LayerNorm of two channels knows only their order
                yield case.with_(**{name: size})


def simpler_call(case: Case) -> Iterator[Case]:
    """Fewer options, axes and numbers of a core call."""
    if case.bias_shape is not None:
        yield without_bias(case)
        if case.bias_dtype is not None:
            yield case.with_(bias_dtype=None)
    yield from simpler_mask(case)
    if case.H_kv not in (None, case.H):
        yield case.with_(H_kv=None)
    for axis in range(len(case.batch)):
        yield without_batch_axis(case, axis)
    for size in smaller_sizes(case.Q) if case.Q == case.K else ():
        yield resized(case, Q=size, K=size)
    for name, length in (("H", case.H), ("Q", case.Q), ("K", case.K), ("c", case.c)):
        for size in smaller_sizes(length):
            yield resized(case, **{name: size})
    for axis, length in enumerate(case.batch):
        for size in smaller_sizes(length):
            yield with_batch_axis(case, axis, size)


def smaller_sizes(length: int) -> list[int]:
    """Small ones, halves and near ones, odd and even, since a fault may lie in the remainder."""
    sizes = {1, 2, 3, 5, length // 2, length // 2 + 1, length - 2, length - 1}
    return sorted(n for n in sizes if 1 <= n < length)


def without_bias(case: Case) -> Case:
    return case.with_(bias_shape=None, bias_dtype=None, grad=tuple(name for name in case.grad if name != "bias"))


def without_batch_axis(case: Case, axis: int) -> Case:
    """``case`` at the first index of one leading axis."""
    batch = case.batch[:axis] + case.batch[axis + 1 :]
    shape = case.bias_shape
    if shape is not None and (bias_axis := bias_axis_of(case, axis)) >= 0:
        shape = shape[:bias_axis] + shape[bias_axis + 1 :]
    return case.with_(batch=batch, bias_shape=shape)


def with_batch_axis(case: Case, axis: int, size: int) -> Case:
    batch = (*case.batch[:axis], size, *case.batch[axis + 1 :])
    shape = case.bias_shape
    if shape is not None and (bias_axis := bias_axis_of(case, axis)) >= 0 and shape[bias_axis] == case.batch[axis]:
        shape = (*shape[:bias_axis], size, *shape[bias_axis + 1 :])
    return case.with_(batch=batch, bias_shape=shape)


def bias_axis_of(case: Case, axis: int) -> int:
    """The axis of the bias that meets leading axis ``axis``; negative if the bias has none."""
    return axis - (len(case.batch) + 3 - len(case.bias_shape or ()))
