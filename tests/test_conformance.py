"""The checker checked: right kernels pass it, wrong ones do not, and what it says is what happened."""

from __future__ import annotations

import math
import random

import pytest
import torch
from kill_matrix import RECORDS, Trial, as_text, families_of, kernels, killed_twice, recorded
from mutants import MUTANTS
from right_kernels import RIGHT

import impls
from impls.conformance.budget import budget, floor
from impls.conformance.cases import KINDS, SHAPES, Case, cases, few, random_case
from impls.conformance.judge import judge, judge_parts
from impls.conformance.quirks import QUIRKS, describe
from impls.interface import Backend, Traits, UnsupportedProblem
from impls.problem import DTYPES

pytestmark = pytest.mark.usefixtures("one_thread")
CASE = Case("msa_row", (2, 3), 4, 17, 17, 8, (2, 1, 4, 17, 17), "full_row", grad=("q", "k", "v", "bias"))
right = impls.get("eager").attend


def kernel(attend, **options) -> Backend:
    return Backend("mine", "a kernel", attend, **options)


# Right kernels


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_are_never_rejected(name: str, dtype: str) -> None:
    rng = random.Random(f"{name} {dtype}")
    for _ in range(40):
        verdict = judge(kernel(RIGHT[name]), case := random_case(rng, dtype=dtype))
        assert verdict.status in ("passed", "not_judged"), f"{case}\n" + "\n".join(verdict.reasons)


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_pass_every_kind_of_case(name: str) -> None:
    for case in few():
        verdict = judge(kernel(RIGHT[name]), case)
        assert verdict.status == "passed", f"{case}\n" + "\n".join(verdict.reasons)


# Wrong kernels


@pytest.mark.parametrize(
    ("trial", "dtype"),
    [pytest.param(trial, dtype, id=f"{trial}-{dtype}") for trial in kernels() for dtype in trial.dtypes],
)
def test_every_mutant_is_killed_by_two_kinds_of_case(trial: Trial, dtype: str) -> None:
    assert killed_twice(trial, dtype, recorded("kill_matrix.jsonl"))


@pytest.mark.parametrize("file", RECORDS)
def test_the_recorded_kill_matrix_is_of_these_mutants_and_full(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    matrix, trials = recorded(file), RECORDS[file]()
    with capsys.disabled():
        print("\n" + as_text(matrix, families_of(trials)))
    by_dtype = {name: entry["families_by_dtype"] for name, entry in matrix.items()}
    assert {name: tuple(dtypes) for name, dtypes in by_dtype.items()} == {str(trial): trial.dtypes for trial in trials}
    assert all(n >= 2 for dtypes in by_dtype.values() for n in dtypes.values())


# The budget


@pytest.mark.parametrize("case", cases()[::7], ids=str)
def test_the_yardstick_itself_is_close_to_the_exact_answer(case: Case) -> None:
    """Else a fault of plain eager attention would excuse the same fault in others."""
    expected = budget(case.inputs())
    if case.dtype == "float16" and "large" in case.quirks and not all(map(math.isfinite, expected.eager.values())):
        pytest.skip("beyond the largest number of float16, and not judged")
    for name, error in expected.eager.items():
        assert error <= 2 * expected.floor[name].max() if expected.floor[name].numel() else error == 0


@pytest.mark.parametrize("case", few(), ids=str)
def test_sums_of_absolute_values_are_no_smaller_than_the_sums(case: Case) -> None:
    inputs = case.inputs()
    expected, eps = budget(inputs), torch.finfo(inputs.q.dtype).eps
    for name, exact in expected.exact.items():
        assert (expected.floor[name] / (2 * eps) >= exact.abs()).all(), name


def test_nothing_is_allowed_where_nothing_contributes() -> None:
    inputs = CASE.inputs()
    floors = floor(inputs)
    hidden = ~inputs.mask[:, :, None, :, None].expand(inputs.k.shape)
    assert hidden.any()
    assert not floors["dk"][hidden].any()
    assert not floors["dv"][hidden].any()
    assert (floors["dv"][~hidden] > 0).all()
    assert not floors["o"][0, 0].any(), "the first row of a full_row mask has no valid key"


def test_a_bias_that_masks_buys_no_tolerance() -> None:
    plain, masking = CASE.with_(mask="none"), CASE.with_(mask="none", quirks=("mask_in_bias",))
    assert budget(masking.inputs()).of("o").max() < 10 * budget(plain.inputs()).of("o").max()


@pytest.mark.parametrize("keys", [1000, 400_000])
def test_zeros_are_no_answer_however_small_the_values_are(keys: int) -> None:
    case = Case("cross", (), 1, 2, keys, 4)
    assert budget(case.inputs()).exact["o"].abs().max() < 0.2
    assert judge(kernel(lambda q, k, v, bias, mask: torch.zeros_like(q)), case).status == "failed"


# Verdicts


def test_a_verdict_tells_the_worst_element() -> None:
    def off_by_one(q, k, v, bias, mask):
        o = right(q, k, v, bias, mask).clone()
        o[1, 2, 3, 4, 5] += 1
        return o

    verdict = judge(kernel(off_by_one), CASE)
    o = verdict.checks[0]
    assert (verdict.status, o.tensor, o.where) == ("failed", "o", (1, 2, 3, 4, 5))
    assert o.error == pytest.approx(1, abs=1e-5)
    assert o.ratio == pytest.approx(o.error / o.budget)
    assert verdict.ratio == o.ratio
    assert verdict.reasons[0].startswith("o[1, 2, 3, 4, 5] is off by 1.00e+00, budget ")


def test_nan_instead_of_a_number_fails_before_any_other_comparison() -> None:
    verdict = judge(kernel(lambda q, k, v, bias, mask: right(q, k, v, bias, mask) * torch.nan), CASE)
    assert verdict.status == "failed"
    assert {check.ratio for check in verdict.checks} == {float("inf")}


def test_where_eager_is_not_finite_nothing_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    overflowing = Case("values", (2,), 1, 3, 3, 4, (1, 3, 3), dtype="float16", quirks=("offset", "high"), seed=1)
    inputs = overflowing.inputs()
    inputs.bias.fill_(torch.nan)
    monkeypatch.setattr(Case, "inputs", lambda self: inputs)
    verdict = judge(kernel(lambda q, k, v, bias, mask: torch.zeros_like(q)), overflowing.with_(seed=2))
    assert (verdict.status, verdict.reasons) == ("not_judged", ("eager itself is not finite in o",))


def test_what_a_kernel_raises_is_a_failure() -> None:
    def raising(q, k, v, bias, mask):
        raise RuntimeError("expected K % 8 == 0")

    assert judge(kernel(raising), CASE).reasons == ("raised RuntimeError: expected K % 8 == 0",)


@pytest.mark.parametrize("wrong", [lambda o: o[..., :-1], lambda o: o.double(), lambda o: o.flatten(0, 1)])
def test_shape_and_dtype_are_held(wrong) -> None:
    verdict = judge(kernel(lambda *inputs: wrong(right(*inputs))), CASE.with_(grad=()))
    assert verdict.status == "failed"
    assert "expected (2, 3, 4, 17, 8) torch.float32 on cpu" in verdict.reasons[0]


def test_a_detached_answer_fails_in_training() -> None:
    assert judge(kernel(lambda *inputs: right(*inputs).detach()), CASE).status == "failed"


@pytest.mark.parametrize("name", ["k", "bias", "mask"])
def test_modified_inputs_are_named(name: str) -> None:
    def modifying(q, k, v, bias, mask):
        {"k": k, "bias": bias, "mask": mask}[name].data.logical_not_()
        return right(q, k, v, bias, mask)

    assert f"{name} was modified" in judge(kernel(modifying), CASE).reasons


def test_a_write_beside_the_inputs_is_seen() -> None:
    def spilling(q, k, v, bias, mask):
        v.data.as_strided((1,), (1,), 0).fill_(0)
        return right(q, k, v, bias, mask)

    assert "v was modified" in judge(kernel(spilling), CASE.with_(quirks=("margins",))).reasons


def test_identical_calls_are_equal_unless_declared() -> None:
    noisy, repeated = MUTANTS["non_deterministic"].attend, CASE.with_(repeats=3)
    assert "o differs between identical calls" in judge(kernel(noisy), repeated).reasons
    assert judge(kernel(noisy, traits=Traits(deterministic=False)), repeated).status == "passed"


def test_a_backend_declines_with_its_reasons() -> None:
    limited = kernel(right, limits=lambda p: ["has no backward"] if p.training or p.bias_grad else [])
    assert (judge(limited, CASE).status, judge(limited, CASE).reasons) == ("declined", ("has no backward",))

    def refusing(q, k, v, bias, mask):
        raise UnsupportedProblem("only on Sundays")

    assert (judge(kernel(refusing), CASE).status, judge(kernel(refusing), CASE).reasons) == (
        "declined",
        ("only on Sundays",),
    )


@pytest.mark.parametrize(
    ("limits", "statuses", "judged"),
    [
        (lambda p: [], ["passed"], ("q", "k", "v", "bias")),
        (lambda p: ["no"] if p.bias_grad else [], ["declined", "passed"], ("q", "k", "v")),
        (lambda p: ["no"] if p.training or p.bias_grad else [], ["declined", "declined", "passed"], ()),
        (lambda p: ["no"], ["declined", "declined", "declined"], ()),
    ],
)
def test_the_most_of_a_case_that_a_backend_takes_is_judged(limits, statuses: list[str], judged) -> None:
    verdicts = judge_parts(kernel(right, limits=limits), CASE)
    assert [verdict.status for verdict in verdicts] == statuses
    assert verdicts[-1].case.grad == judged


# Cases


def test_a_case_is_a_line_of_text() -> None:
    for case in cases():
        assert Case.parse(str(case)) == case
    rng = random.Random(0)
    for _ in range(300):
        case = random_case(rng)
        assert Case.parse(str(case)) == case


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind=msa_row batch=2 H=1 Q=2 K=2", "a case needs c as well"),
        ("kind=msa_rows batch=2 H=1 Q=2 K=2 c=4", "did you mean 'msa_row'"),
        ("kind=msa_row batch=2 heads=1 Q=2 K=2 c=4", "unknown field of a case 'heads'"),
        ("kind=msa_row batch=2 H=1 Q=2 K=2 c=4 quirks=poisson", "did you mean 'poison'"),
        ("kind=msa_row batch=2 H=1 Q=2 K=2 c=4 grad=bias", "unknown input 'bias'"),
        ("kind=msa_row batch=2 H=1 Q=2 K=2 c=four", "invalid literal"),
    ],
)
def test_a_wrong_line_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Case.parse(text)


def test_cases_cover_what_they_say() -> None:
    assert len(set(cases())) == len(cases())
    assert {case.kind for case in cases()} == set(KINDS)
    assert {name for case in cases() for name in case.quirks} == set(QUIRKS)
    assert {case.dtype for case in cases()} == set(DTYPES)
    assert all(describe(name).endswith(".") for name in QUIRKS)
    assert max(case.K for case in cases()) > 4096


@pytest.mark.parametrize("problem", SHAPES.values(), ids=SHAPES)
def test_axes_differ_so_that_exchanging_two_shows(problem: impls.Problem) -> None:
    core = problem.core()
    leading = core.batch[:2] if problem.operation == "template_pointwise" else core.batch
    lengths = [*leading, core.H, core.c] + ([] if core.Q in leading else [core.Q])
    assert len(set(lengths)) == len(lengths)


def test_inputs_are_the_same_each_time_and_differ_by_seed() -> None:
    assert torch.equal(CASE.inputs().q, CASE.inputs().q)
    assert not torch.equal(CASE.inputs().q, CASE.with_(seed=1).inputs().q)


def test_a_kernel_that_ends_the_program_is_a_failure() -> None:
    def leaving(q, k, v, bias, mask):
        raise SystemExit(0)

    for repeats in (1, 3):
        assert judge(kernel(leaving), CASE.with_(repeats=repeats)).reasons == ("raised SystemExit: 0",)
