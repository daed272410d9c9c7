"""Faults that others reported: each is rejected, here, with its kind. ``docs/public-reports.md`` lists them all."""

from __future__ import annotations

import ast
import contextlib
import copy
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from meeting_mutants import MUTANTS
from reported_faults import FAULTS, Fault

import impls
from impls.conformance.budget import Budget, budget, run
from impls.conformance.cases import COLUMN, LEAVES, ROW, Case, cases
from impls.conformance.judge import compare, judge, judge_parts
from impls.evoformer import MSARowAttentionWithPairBias, TriangleAttention
from impls.interface import Backend
from impls.problem import OPERATIONS, Problem

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "public-reports.md"
FAST = [name for name in impls.names() if not impls.get(name).traits.compiles]
CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))
KINDS = ("C", "G", "M")


# The page


def rows() -> list[list[str]]:
    """The cells of the page's tables: report, kind of fault, where, and what catches it."""
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| [\w.-]+/[\w.-]+#\d+", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_report_has_what_catches_it() -> None:
    for report, kind, where, caught_by in rows():
        assert kind, report
        assert set(where.split(", ")) <= set(KINDS), report
        assert re.search(r"(cases|mutant|fault|test)s? `", caught_by), f"{report}: {caught_by!r} names nothing"


@pytest.mark.parametrize(("report", "caught_by"), [pytest.param(row[0], row[3], id=row[0]) for row in rows()])
def test_what_the_page_names_exists(report: str, caught_by: str) -> None:
    known = {
        "case": {case.family for case in cases()},
        "mutant": set(MUTANTS),
        "fault": {fault.attend.__name__ for fault in FAULTS},
    }
    kind = ""
    for word, name in re.findall(r"\b(case|mutant|fault|test)s?\b(?= `)|`([^`]+)`", caught_by):
        kind = word or kind
        if name and kind == "test":
            path, _, function = name.partition("::")
            tree = ast.parse((ROOT / "tests" / path).read_text())
            assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name
        elif name:
            assert name in known[kind], f"{report}: no {kind} {name!r}"


def test_every_fault_written_here_is_on_the_page() -> None:
    listed = {name for row in rows() for name in re.findall(r"`(\w+)`", row[3])}
    assert {fault.attend.__name__ for fault in FAULTS} <= listed


# Kernels with the fault are rejected


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.attend.__name__)
def test_a_kernel_with_the_reported_fault_is_rejected(fault: Fault) -> None:
    """By the cases of its kind, and not by plain ones: that is how it went unnoticed."""
    backend = Backend(fault.report, "", fault.attend)
    family = [case for case in cases() if (case.family, case.dtype) == (fault.family, fault.dtype)]
    assert any(judge(backend, case).status == "failed" for case in family)
    if fault.report != "aqlaboratory/openfold#468":  # which is wrong wherever it runs
        plain = [case.with_(dtype=fault.dtype, mask="random") for case in (ROW, COLUMN)]
        assert {judge(backend, case).status for case in plain} == {"passed"}


# Masks and values that are not finite


@pytest.mark.parametrize(("exact", "got"), [(1.0, torch.nan), (1.0, torch.inf), (0.0, torch.nan)])
def test_nan_is_never_close_to_a_number(exact: float, got: float) -> None:
    """tracel-ai/cubecl#1070: a comparison that NaN passes, because it is neither above nor below the tolerance."""
    one = torch.tensor([exact], dtype=torch.float64)
    check = compare("o", torch.tensor([got]), Budget({"o": one}, {"o": one}, {"o": 0.0}))
    assert check.ratio == torch.inf


@pytest.mark.parametrize("answer", [torch.nan, 0.0])
def test_where_the_reference_is_nan_nothing_passes(answer: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """tracel-ai/cubecl#1070, the other way about: a number where the reference has none is said, and is no pass."""
    case = Case("values", (2,), 1, 3, 3, 4, (1, 3, 3))
    inputs = case.inputs()
    inputs.bias.fill_(torch.nan)
    monkeypatch.setattr(Case, "inputs", lambda self: inputs)
    constant = Backend("constant", "", lambda q, k, v, bias, mask: torch.full_like(q, answer))
    assert judge(constant, case.with_(seed=int(answer == 0))).status == "not_judged"


# The bias and its gradient


@pytest.fixture
def all_threads() -> Iterator[None]:
    """As many as there are cores, and two at least: their order is what may change a sum."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(2, os.cpu_count() or 1))
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_gradients_repeat_or_are_declared_not_to(device: str, name: str) -> None:
    """aqlaboratory/openfold-3#271, Dao-AILab/flash-attention#414: sums over S that depend on the order of threads.

    All threads, five calls (30 on a GPU). Where a backend says that its bits may differ, each of its answers is within
    the budget.
    """
    S, repeats, dtype = (32, 5, "float32") if device == "cpu" else (512, 30, "bfloat16")
    case = Case("msa_row", (S,), 2, 32, 32, 16, (1, 2, 32, 32), "random", dtype, LEAVES, device=device)
    backend, case = impls.get(name), case.with_(repeats=repeats)
    verdict = judge_parts(backend, case)[-1]
    if verdict.status == "declined":
        pytest.skip(verdict.reasons[0])
    assert verdict.status == "passed", verdict.reasons
    if not backend.traits.deterministic:
        inputs = verdict.case.inputs()
        expected = budget(inputs)
        for _ in range(repeats - 1):
            assert all(compare(tensor, x, expected).ratio <= 1 for tensor, x in run(backend, inputs).items())


# Shapes, strides and limits


def test_a_fault_that_comes_to_light_later_is_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA/cuEquivariance#136: an illegal access that only the next synchronisation reports."""

    def synchronize(device: object = None) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cpu, "synchronize", synchronize)
    verdict = judge(impls.get("eager"), ROW)
    assert (verdict.status, verdict.reasons) == (
        "failed",
        ("raised RuntimeError: CUDA error: an illegal memory access was encountered",),
    )


# Precision


@cache
def blocks() -> list[tuple[MSARowAttentionWithPairBias, TriangleAttention]]:
    """48 gated blocks of row and triangle attention, in float64."""
    torch.manual_seed(0)
    return [
        (
            MSARowAttentionWithPairBias(16, 8, c=4, N_head=4).double(),
            TriangleAttention(8, "starting", c=4, N_head=2).double(),
        )
        for _ in range(48)
    ]


@cache
def through_48_blocks(backend: str, dtype: torch.dtype, device: str, times: float = 1.0) -> torch.Tensor:
    """What an MSA representation has become behind all blocks, each adding ``times`` what it should."""
    generator = torch.Generator().manual_seed(0)
    m, z = (torch.randn(1, n, 7, c, generator=generator).to(device, dtype) for n, c in ((3, 16), (7, 8)))
    mask = torch.ones(1, 3, 7, dtype=torch.bool, device=device)
    mask[..., -2:] = False
    with torch.no_grad():
        for row, triangle in ((copy.deepcopy(module).to(device, dtype) for module in block) for block in blocks()):
            row.core = triangle.core = impls.get(backend)
            m = m + times * row(m, z, mask)
            z = z + times * triangle(z)
    return m.double().cpu()


def drift(backend: str, dtype: torch.dtype, device: str, times: float = 1.0) -> float:
    """How far 48 blocks lead from float64, of the result's own size."""
    exact = through_48_blocks("reference", torch.float64, "cpu")
    return ((through_48_blocks(backend, dtype, device, times) - exact).abs().max() / exact.abs().max()).item()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_48_blocks_drift_no_further_than_plain_attention_does(device: str, dtype: torch.dtype) -> None:
    """jwohlwend/boltz#391: a kernel that was fine by itself, and a structure that was not."""
    eager = drift("eager", dtype, device)
    assert 0 < eager < 1000 * torch.finfo(dtype).eps
    for name in FAST:
        with contextlib.suppress(impls.UnsupportedProblem):
            assert drift(name, dtype, device) < 3 * eager, name
    if dtype == torch.float32:
        assert drift("eager", dtype, device, times=1.001) > 3 * eager, "a thousandth too much in every block shows"


# AlphaFold's semantics


@pytest.mark.parametrize("gate", [-3.0, 3.0])
def test_a_gate_lies_between_zero_and_one(gate: float) -> None:
    """lucidrains/alphafold2#84: a gate without its sigmoid multiplies by 3, or by -3."""
    gated, plain = (MSARowAttentionWithPairBias(12, 6, c=4, N_head=2, gated=g).double() for g in (True, False))
    gated.load_state_dict(plain.state_dict(), strict=False)
    x, z = torch.randn(1, 3, 5, 12, dtype=torch.float64), torch.randn(1, 5, 5, 6, dtype=torch.float64)
    with torch.no_grad():
        gated.linear_g.weight.zero_()
        gated.linear_g.bias.fill_(gate)
        for module in (gated, plain):
            module.linear_o.bias.zero_()
        ratio = gated(x, z) / plain(x, z)
    torch.testing.assert_close(ratio, torch.sigmoid(torch.full_like(ratio, gate)))


SHAPES = {
    "msa_row": ("2x3x4x7x8", "2x1x4x7x7", "2x3x7"),
    "msa_column": ("2x7x4x3x8", None, "2x7x3"),
    "msa_global_column": ("2x7x1x4x8", None, "2x7x3"),
    "triangle_starting": ("2x7x4x7x8", "2x1x4x7x7", "2x7x7"),
    "triangle_ending": ("2x7x4x7x8", "2x1x4x7x7", "2x7x7"),
    "template_pointwise": ("2x7x7x4x1x8", None, "2x1x1x5"),
}
"""q, bias and mask of each operation at B=2, S=3, R=7, T=5, N_head=4, c=8."""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_documented_shapes_are_the_real_ones(operation: str) -> None:
    """google-deepmind/alphafold#894: shapes documented without the axis of the heads."""
    inputs = Problem(operation=operation, B=2, S=3, R=7, T=5, N_head=4, c=8, mask="padding").core_inputs()
    q, bias, mask = SHAPES[operation]
    assert ["x".join(map(str, x.shape)) for x in (inputs.q, inputs.mask)] == [q, mask]
    assert bias == (None if inputs.bias is None else "x".join(map(str, inputs.bias.shape)))
    assert impls.get("eager")(*inputs[:5]).shape == inputs.q.shape


# How answers are judged


def test_gradients_of_a_mean_are_told_from_zeros() -> None:
    """aqlaboratory/openfold-3#258: under a mean loss over 20,000 elements every gradient is below a usual tolerance."""
    inputs = Case("msa_row", (25,), 4, 25, 25, 8, (1, 4, 25, 25), "random", grad=LEAVES).inputs()
    inputs = inputs._replace(cotangent=torch.full_like(inputs.cotangent, 1 / inputs.cotangent.numel()))
    expected = budget(inputs)
    answer = run(impls.get("chunked"), inputs)
    for name in ("dq", "dk", "dv", "dbias"):
        assert expected.exact[name].abs().max() < 1e-2
        assert compare(name, answer[name], expected).ratio <= 1
        assert compare(name, 0 * answer[name], expected).ratio > 100
