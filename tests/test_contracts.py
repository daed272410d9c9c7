"""Contracts: what the probe says of backends that keep their word and of those that do not; and the page made of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import impls
from impls.__main__ import main
from impls.abilities import ability
from impls.conformance import contracts
from impls.conformance.contracts import BASE, Finding, Probe, contract
from impls.conformance.contracts_page import overview_row, section, table_row
from impls.conformance.contracts_record import lines
from impls.cuda import assuming, on_cuda
from impls.interface import Backend, Traits
from impls.problem import CoreProblem

ROOT = Path(__file__).resolve().parents[1]
PAGE, RECORD = ROOT / "docs" / "backends.md", ROOT / "results" / "conformance" / "contracts.jsonl"
eager = impls.get("eager").attend

pytestmark = pytest.mark.usefixtures("one_thread")


def sections() -> dict[str, str]:
    """The page's sections by their titles."""
    parts = re.split(r"^## (\S+)\n", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", impls.names())
def test_the_page_and_the_record_are_not_stale(name: str) -> None:
    """If it is: ``make contracts``, and look at what changed."""
    text = PAGE.read_text()
    if (version := re.search(r"PyTorch (\S+)", text)[1]) != torch.__version__.partition("+")[0]:
        pytest.skip(f"the page was made with PyTorch {version}, this is {torch.__version__}")
    found = contract(impls.get(name))
    if found.unavailable and not found.needs_cuda:
        pytest.skip("; ".join(found.unavailable))
    assert f"## {name}\n{sections()[name]}".strip() == section(found).strip()
    assert table_row(overview_row(found)) in text
    assert [line for line in recorded() if line["backend"] == name] == list(lines(found))


def test_the_page_has_a_section_for_every_backend_and_no_contradiction() -> None:
    assert list(sections()) == impls.names()
    assert "Contradiction" not in PAGE.read_text()


def test_the_record_has_every_backend_and_no_contradiction() -> None:
    assert list(dict.fromkeys(line["backend"] for line in recorded())) == impls.names()
    assert not [line for line in recorded() if line["ok"] is False]


def test_a_line_of_the_record_says_what_was_not_tried() -> None:
    asked = (Finding("a", "x", "not tried, since code would be built for each"), Finding("b", "x", "x"))
    wrong = Finding("c", "x", "y", "y, not x")
    found = contracts.Contract(impls.get("eager"), "cpu", (*asked, wrong))
    assert [(line["question"], line["ok"]) for line in lines(found)] == [("a", None), ("b", True), ("c", False)]
    (line,) = lines(contracts.Contract(impls.get("eager"), "cpu", unavailable=("too old",)))
    assert (line["question"], line["found"], line["ok"]) == (None, "not run: too old", None)


def recorded() -> list[dict]:
    """The lines of the record."""
    return [json.loads(line) for line in RECORD.read_text().splitlines()]


# What the probe says


def asked(question, attend=eager, **options: object) -> Finding:
    """The answer to one question about a kernel."""
    return question(Probe(Backend("mine", "a kernel", attend, **options), BASE))


def filling(value):
    """Eager, with another answer for rows that have no valid key."""

    def attend(q, k, v, bias, mask):
        empty = ~mask.any(-1)[..., None, None, None]
        return torch.where(empty, value(v), eager(q, k, v, bias, mask))

    return attend


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (lambda v: v.nan_to_num(0).mean(-2, keepdim=True), "the mean of all values"),
        (lambda v: v.new_full((), torch.nan), "numbers that are not finite"),
        (lambda v: v.new_ones(()), "other numbers"),
        (lambda v: (v - v.detach()).sum(-2, keepdim=True), "zeros, but wrong gradients"),
    ],
)
def test_what_a_masked_row_gives_instead_of_zeros(value, found: str) -> None:
    finding = asked(contracts.rows_without_keys, filling(value))
    assert finding.found == found
    assert found in finding.contradiction
    assert not asked(contracts.rows_without_keys).contradiction


def test_an_answer_is_wrong_for_what_it_is_wrong_for() -> None:
    finding = asked(contracts.dtypes, lambda q, *rest: eager(q, *rest) * (2 if q.dtype == torch.float16 else 1))
    assert finding.found.startswith("right: float64, float32, bfloat16; wrong: float16 (o[")
    assert finding.contradiction.startswith("wrong: float16 (o[")


def test_what_is_declined_stands_with_its_reason_once() -> None:
    def limits(p: CoreProblem) -> list[str]:
        return [f"K={p.K}: at most 8 keys"] if p.K > 8 else []

    finding = asked(contracts.lengths, limits=limits)
    right = "right: one key, fewer keys, no key, a square of 1, a square of 2"
    declined = "declined: one query, fewer queries, no query, 130, a square of 17, a square of 33 (K=9: at most 8 keys)"
    assert finding.found == f"{right}; {declined}"
    assert not finding.contradiction


def test_a_kernel_that_raises_although_it_claims_the_problem_is_found_out() -> None:
    def odd_only(q, k, v, bias, mask):
        if k.shape[-2] % 2 == 0:
            raise RuntimeError("K must be odd")
        return eager(q, k, v, bias, mask)

    def never(*inputs):
        raise RuntimeError("no")

    assert all(question(Probe(Backend("mine", "", never), BASE)).found for question in contracts.QUESTIONS)
    assert "wrong: 130, a square of 2 (raised RuntimeError: K must be odd)" in asked(contracts.lengths, odd_only).found


def test_modified_inputs_are_found_in_whatever_was_tried() -> None:
    def modifying(q, k, v, bias, mask):
        k.data.mul_(1)
        v.data.neg_()
        return eager(q, k, -v, bias, mask)

    probe = Probe(Backend("mine", "a kernel", modifying), BASE)
    contracts.hidden_numbers(probe)
    assert contracts.untouched(probe).contradiction == "v was modified"


def test_other_bits_are_a_contradiction_only_of_a_promise() -> None:
    def noisy(q, k, v, bias, mask):
        return eager(q, k, v, bias, mask) * (1 + 1e-3 * torch.rand(()))

    assert "differ" in asked(contracts.repeated, noisy).contradiction
    assert not asked(contracts.repeated, noisy, traits=Traits(deterministic=False)).contradiction
    assert asked(contracts.repeated).found == "o, dq, dk, dv, dbias the same three times"


def test_a_tensor_as_large_as_the_logits_is_seen() -> None:
    assert "not so: forward, forward with mask" in asked(contracts.score_sized).contradiction
    chunked = impls.get("chunked").attend
    assert not asked(contracts.score_sized, chunked).contradiction
    promised = asked(contracts.score_sized, chunked, traits=Traits(score_sized="always"))
    assert "not so: forward" in promised.contradiction


def test_a_silent_fall_back_is_seen() -> None:
    flash = impls.get("sdpa_flash").traits
    finding = asked(contracts.kernels, impls.get("sdpa").attend, traits=flash)
    math = "aten::_scaled_dot_product_attention_math ran instead: training with bias, training with bias and mask"
    assert finding.contradiction == math
    assert "ordinary operations ran instead: forward" in asked(contracts.kernels, traits=flash).contradiction


def test_a_backend_that_takes_nothing_is_not_run() -> None:
    found = contract(Backend("mine", "a kernel", eager, limits=lambda p: [f"not {p.dtype}", "only on Sundays"]))
    assert found.unavailable == ("only on Sundays",)
    assert "Not run: only on Sundays." in section(found)


def test_the_command_fails_where_something_is_contradicted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(contracts, "QUESTIONS", (contracts.dtypes,))
    assert main(["contracts", "eager"]) == 0
    assert "| Dtypes | right, or declined | right: float64," in capsys.readouterr().out
    monkeypatch.setattr(contracts, "QUESTIONS", (lambda probe: Finding("Colour", "blue", "red", "red is not blue"),))
    assert main(["contracts", "eager"]) == 1
    assert "red **Contradiction: red is not blue**" in capsys.readouterr().out
    assert main(["contracts", "eager", "--record", str(tmp_path / "record.jsonl")]) == 1
    assert json.loads((tmp_path / "record.jsonl").read_text())["ok"] is False


@pytest.mark.usefixtures("plugin")
def test_other_packages_are_asked_too_and_a_broken_one_harms_no_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contracts, "QUESTIONS", (contracts.kernels,))
    assert main(["contracts", "mean_of_v"]) == 0
    assert "ordinary operations, in every call" in capsys.readouterr().out
    assert main(["contracts", "broken"]) == 2
    assert "No module named 'no_such_module'" in capsys.readouterr().err


def test_limits_can_be_read_as_on_a_gpu_that_is_not_there() -> None:
    backend = Backend("mine", "a kernel", eager, limits=on_cuda(lambda p, capability: [], oldest=(8, 0)))
    problem = CoreProblem((2,), 2, 4, 5, 8, device="cuda")
    with assuming((7, 5)):
        assert "this one has 7.5" in "; ".join(backend.limits(problem))
    with assuming((8, 0)):
        assert list(backend.limits(problem)) == []
        assert ability(backend, "cuda").words == "yes"


def test_what_every_problem_lacks_is_left_out_elsewhere() -> None:
    backend = Backend("mine", "", eager, limits=lambda p: ["no package", *(["no bias"] if p.bias_shape else [])])
    assert ability(backend, "cpu").words == "no"
    found = ability(backend, "cpu", elsewhere=True)
    assert (found.words, found.reasons) == ("yes: problems without a bias", ("no bias",))
