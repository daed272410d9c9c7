"""Whole modules against the algorithms of the supplement: ours over every backend, others' ways, and wrong ones."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from kill_matrix import Trial, killed_twice, modules, recorded
from module_mutants import MODULE_MUTANTS
from right_modules import RIGHT, Plain, of_kind

import impls
from impls.conformance.modules import quirks
from impls.conformance.modules.budget import module_budget, specification
from impls.conformance.modules.cases import (
    ATTENDED,
    DTYPES_TRIED,
    GROUPS,
    SHAPES,
    ModuleCase,
    module_cases,
    random_module_case,
)
from impls.conformance.modules.judge import Subject, built, computed, judge_module, judge_module_parts, over, subject
from impls.evoformer import MSAColumnAttention, MSAColumnGlobalAttention, TriangleAttention
from impls.masks import MASKED_ROWS
from impls.problem import MASK_KINDS, OPERATIONS

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore:var_mean")]
FAST = [name for name in impls.names() if not impls.get(name).traits.compiles]


def shown(case: ModuleCase, reasons: tuple[str, ...]) -> str:
    return f"{case}\n" + "\n".join(reasons)


# Ours


@pytest.mark.parametrize("operation", OPERATIONS)
def test_ours_equal_the_specification(operation: str) -> None:
    """Over plain attention; of cases with gradients every 19th, of others every seventh."""
    ours = over(impls.get("eager"))
    for n, case in enumerate(module_cases((operation,))):
        if n % (19 if case.grad else 7) == 0:
            verdict = judge_module(ours, case)
            assert verdict.status == "passed", shown(case, verdict.reasons)


@pytest.mark.parametrize("name", FAST)
def test_ours_equal_the_specification_over_every_backend(name: str, summary) -> None:
    for case in module_cases()[::97]:
        verdict = judge_module_parts(over(impls.get(name)), case)[-1]
        if verdict.status == "declined":
            summary.note("declined", name, "problems of whole modules, for the reasons told of its core calls")
        else:
            assert verdict.status == "passed", shown(case, verdict.reasons)


@pytest.mark.parametrize("policy", MASKED_ROWS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_rows_with_no_valid_key_are_as_specified(operation: str, policy: str) -> None:
    other = next(name for name in MASKED_ROWS if name != policy)
    shape = SHAPES[operation].with_(mask="full_row", grad=SHAPES[operation].wanted, dtype="float64")
    ours = over(impls.get("reference"))
    assert judge_module(ours, shape.with_(masked_rows=policy)).status == "passed"

    def form(case: ModuleCase, parameters):
        return ours.form(case.with_(masked_rows=other), parameters)

    assert judge_module(Subject("other", form), shape.with_(masked_rows=policy)).status == "failed"


def test_the_global_module_writes_over_nothing_but_its_own() -> None:
    """Without gradients it works on its normalised input part by part, of which there are two here."""
    case = next(case for case in module_cases(("msa_global_column",)) if case.group == "blocks")
    verdict = judge_module(over(impls.get("sdpa")), case)
    assert verdict.status == "passed", verdict.reasons
    inputs = case.inputs()
    form, parameters = over(impls.get("sdpa")).form(case, inputs.parameters)
    with torch.no_grad():
        whole = form(parameters, **inputs.arguments)
    assert torch.equal(inputs.arguments["x"], case.inputs().arguments["x"])
    with torch.enable_grad():
        torch.testing.assert_close(form(parameters, **inputs.arguments).detach(), whole)


def test_no_sequence_at_all_has_zero_gradients() -> None:
    module = MSAColumnGlobalAttention(11, c=4, N_head=3)
    module(torch.zeros(2, 0, 5, 11)).sum().backward()
    assert not any(x.grad.any() for x in module.parameters())


# Right modules written otherwise


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_right_modules_pass_every_kind_of_case(name: str, operation: str) -> None:
    for case in module_cases((operation,))[::29]:
        verdict = judge_module(RIGHT[name], case)
        assert verdict.status == "passed", shown(case, verdict.reasons)


@pytest.mark.parametrize("dtype", DTYPES_TRIED)
def test_right_modules_are_never_rejected(dtype: str) -> None:
    rng = random.Random(dtype)
    forms = [*RIGHT.values(), over(impls.get("eager")), over(impls.get("chunked"))]
    for _ in range(12):
        case = random_module_case(rng, dtype=dtype, masked_rows="zero")
        for form in forms:
            verdict = judge_module(form, case)
            ungated = "takes no option gated" in "".join(verdict.reasons)
            assert verdict.status == "passed" or ungated, f"{form.name}: {shown(case, verdict.reasons)}"


# Wrong modules


def trials() -> list:
    """Every wrong module in every operation, in its dtypes by turns; in all where it is wrong in one operation only.

    All are in the record, which ``tests/kill_matrix.py`` writes.
    """
    found = []
    for n, trial in enumerate(modules()):
        alone = len(MODULE_MUTANTS[trial.name["mutant"]].operations) == 1
        for dtype in trial.dtypes if alone else trial.dtypes[n % len(trial.dtypes) :][:1]:
            found.append(pytest.param(trial, dtype, id=f"{trial}-{dtype}"))
    return found


@pytest.mark.parametrize(("trial", "dtype"), trials())
def test_every_wrong_module_is_killed_by_two_kinds_of_case(trial: Trial, dtype: str) -> None:
    assert killed_twice(trial, dtype, recorded("module_kill_matrix.jsonl"))


# The budget


@pytest.mark.parametrize("case", module_cases()[::61], ids=str)
def test_the_yardstick_itself_is_close_to_the_exact_answer(case: ModuleCase) -> None:
    """Else a fault of the plain module would excuse the same fault in others."""
    expected = module_budget(case.at_heart())
    for name, error in expected.eager.items():
        floor = expected.floor[name].nan_to_num()
        assert error <= 2 * floor.max() if floor.numel() else error == 0


def test_an_answer_twice_the_budget_off_is_rejected_and_half_is_not() -> None:
    case = SHAPES["msa_row"].with_(mask="random")
    allowed = module_budget(case).of("out")
    for share, status in ((0.4, "passed"), (2, "failed")):

        class Off(Plain):
            def output(self, m, raw, o, share=share):
                return super().output(m, raw, o) + share * allowed.to(m.dtype)

        assert judge_module(of_kind(Off), case).status == status


@pytest.mark.parametrize("eps", [0.0, 1e-10, 1e-8])
def test_the_eps_of_the_masked_mean_is_a_matter_of_taste(eps: float) -> None:
    case = SHAPES["msa_global_column"].with_(mask="full_row", dtype="float64", grad=("x", "parameters"))
    form = Subject("spec", lambda case, parameters: (specification(case, eps=eps), parameters))
    assert judge_module(form, case).status == "passed"
    wide = Subject("spec", lambda case, parameters: (specification(case, eps=1e-3), parameters))
    assert judge_module(wide, case).status == "failed"


def test_nothing_is_allowed_where_nothing_contributes() -> None:
    """The pair representation of a residue that is masked in every sequence, as a key."""
    case = SHAPES["msa_row"].with_(mask="full_row", batch=(), S=1, grad=("z",))
    assert not module_budget(case).of("dz").any()


# Verdicts


CASE = SHAPES["triangle_ending"].with_(mask="random", grad=("x", "parameters"))


def test_what_a_module_lacks_is_named() -> None:
    class Renamed(TriangleAttention):
        def __init__(self, *sizes, **options) -> None:
            super().__init__(*sizes, **options)
            self.to_q, self.linear_q = self.linear_q, None

    verdict = judge_module(built("renamed", Renamed), CASE)
    assert verdict.status == "failed"
    assert "cannot be made: RuntimeError" in verdict.reasons[0]
    assert 'Missing key(s) in state_dict: "to_q.weight"' in verdict.reasons[0]


def test_a_parameter_without_a_gradient_is_named() -> None:
    class Cut(TriangleAttention):
        def pair_bias(self, z):
            return super().pair_bias(z).detach()

    assert judge_module(built("cut", Cut), CASE).reasons == ("out carries no gradient to linear_z.weight",)


def test_a_modified_input_or_parameter_is_named() -> None:
    class Careless(TriangleAttention):
        def forward(self, x, mask=None):
            out = super().forward(x, mask)
            x.data.add_(1)
            self.linear_o.bias.data.add_(1)
            return out

    assert {"x was modified", "linear_o.bias was modified"} <= {
        *judge_module(built("careless", Careless), CASE).reasons
    }


def test_declining_is_no_failure() -> None:
    class Forward(TriangleAttention):
        def forward(self, x, mask=None):
            if torch.is_grad_enabled():
                raise NotImplementedError("has no backward")
            return super().forward(x, mask)

    verdicts = judge_module_parts(built("forward", Forward), CASE)
    assert [(v.status, v.reasons) for v in verdicts] == [("declined", ("has no backward",)), ("passed", ())]


def test_a_builder_without_the_option_is_not_asked_to_be_ungated() -> None:
    def build(c_z: int, node: str, c: int, N_head: int) -> TriangleAttention:
        return TriangleAttention(c_z, node, c, N_head)

    verdict = judge_module(built("always gated", build), CASE.with_(gated=False))
    assert (verdict.status, "takes no option gated" in verdict.reasons[0]) == ("declined", True)


def test_a_function_of_parameters_is_told_from_what_makes_a_module() -> None:
    def column(parameters, x, mask=None, *, N_head):
        return specification(SHAPES["msa_column"].with_(N_head=N_head))(parameters, x, mask)

    case = SHAPES["msa_column"].with_(mask="random", grad=("x", "parameters"))
    assert judge_module(subject(column, "column", "here:column"), case).status == "passed"
    assert judge_module(computed("column", column), case).status == "passed"
    assert judge_module(subject(MSAColumnAttention, "theirs", "here:theirs"), case).status == "passed"
    with pytest.raises(TypeError, match="here:module is a MSAColumnAttention; expected what makes a module"):
        subject(MSAColumnAttention(11), "module", "here:module")


# Cases


def test_a_case_is_a_line_of_text() -> None:
    rng = random.Random(0)
    for case in (*module_cases(), *(random_module_case(rng) for _ in range(200))):
        assert ModuleCase.parse(str(case)) == case


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("operation=msa_row batch=2 N_head=1 c=4", "a case needs c_in as well"),
        ("operation=msa_rows batch=2 N_head=1 c=4 c_in=8", "did you mean 'msa_row'"),
        ("operation=msa_row batch=2 N_head=1 c=4 c_in=8 gated=no", "unknown gated 'no'"),
        ("operation=msa_row batch=2 N_head=0 c=4 c_in=8", "N_head=0: a width is at least 1"),
        ("operation=msa_row batch=2 N_head=1 c=4 c_in=8 R=-1", "R=-1: a length cannot be negative"),
        ("operation=msa_column batch=2 N_head=1 c=4 c_in=8 grad=z", "unknown input 'z'"),
        ("operation=msa_column batch=2 N_head=1 c=4 c_in=8 quirks=fant", "did you mean 'faint'"),
    ],
)
def test_a_wrong_line_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModuleCase.parse(text)


def test_cases_cover_what_they_say() -> None:
    cases = module_cases()
    assert len(set(cases)) == len(cases)
    assert {case.group for case in cases} == set(GROUPS)
    assert {name for case in cases for name in case.quirks} == set(quirks.QUIRKS)
    assert {(case.operation, case.dtype, case.mask, case.direction) for case in cases} == {
        *itertools.product(OPERATIONS, DTYPES_TRIED, MASK_KINDS, ("forward", "training"))
    }
    assert all(quirks.describe(name).endswith(".") for name in quirks.QUIRKS)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_axes_and_widths_differ_so_that_exchanging_two_shows(shape: ModuleCase) -> None:
    sizes = [*shape.batch, shape.N_head, shape.c, shape.c_in, shape.S, shape.R, shape.T, shape.c_z, shape.c_t]
    sizes = [n for n in sizes if n != 1]
    assert len(set(sizes)) == len(sizes)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_full_row_lies_along_the_attended_axis(operation: str) -> None:
    mask = SHAPES[operation].with_(mask="full_row").inputs().arguments["mask"]
    axis = -1 if ATTENDED[operation] == "T" or operation in ("msa_row", "triangle_starting") else -2
    assert (~mask.any(axis)).any()
    assert mask.any()
