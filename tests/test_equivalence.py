"""Every backend against the float64 specification, on every case of ``impls.conformance.cases``, within the budget."""

from __future__ import annotations

import pytest
import torch

import impls
from impls.abilities import ability
from impls.conformance.cases import Case, cases, few
from impls.conformance.judge import judge_parts

pytestmark = pytest.mark.usefixtures("one_thread")
DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


def to_try(name: str, devices: tuple[str, ...] = DEVICES) -> list[Case]:
    """All cases on every device on which the backend can run at all."""
    backend = impls.get(name)
    chosen = few() if backend.traits.compiles else cases()
    return [case.with_(device=device) for device in devices if ability(backend, device).runs for case in chosen]


def tried_by() -> dict[Case, list[str]]:
    """Who is tried on each case: one after the other, since they share its budget."""
    found: dict[Case, list[str]] = {}
    for name in impls.names():
        for case in to_try(name):
            found.setdefault(case, []).append(name)
    return found


@pytest.mark.parametrize(
    ("name", "case"),
    [pytest.param(name, case, id=f"{name}: {case}") for case, names in tried_by().items() for name in names],
)
def test_equals_the_reference(name: str, case: Case, summary) -> None:
    verdicts = judge_parts(impls.get(name), case)
    first, verdict = verdicts[0], verdicts[-1]
    for reason in first.reasons if first.status in ("declined", "not_judged") else ():
        summary.note(first.status, name, reason)
    if verdict.status in ("declined", "not_judged"):
        pytest.skip(f"{name}: {verdict.reasons[0]}")
    assert verdict.status == "passed", f"{name} on case\n    {verdict.case}\n" + "\n".join(verdict.reasons)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", impls.names())
def test_what_is_not_tried(name: str, device: str, summary) -> None:
    """The summary says how many cases are left, and why: a backend that compiles for seconds is tried on few shapes."""
    tried, able = to_try(name, (device,)), ability(impls.get(name), device)
    if not able.runs:
        for reason in able.reasons:
            summary.note("declined", name, reason, len(cases()))
        pytest.skip(f"{name}: {'; '.join(able.reasons)}")
    assert {case.kind for case in tried} >= set(impls.problem.OPERATIONS)
    if left := len(cases()) - len(tried):
        shapes = len({case.core() for case in tried})
        summary.note("not_tried", name, f"compiles for seconds a shape, so {shapes} shapes were tried", left)
