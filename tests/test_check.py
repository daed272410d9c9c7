"""``python -m impls check``: right and wrong kernels, found, judged, shrunk and reported."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from mutants import MUTANTS

import impls
from impls.__main__ import main
from impls.conformance.cases import ROW, Case, cases
from impls.conformance.check import chosen, chosen_of_module, load
from impls.conformance.judge import judge
from impls.conformance.modules.cases import ModuleCase, module_cases
from impls.conformance.report import overall
from impls.conformance.shrink import shrink, simpler, symptom
from impls.interface import Backend
from impls.problem import DTYPES

ROOT = Path(impls.__file__).parent.parent
KERNELS = """
import impls
right = impls.get("eager").attend

def good(q, k, v, bias=None, mask=None):
    "Right, without a bias."
    if bias is not None:
        raise NotImplementedError("takes no bias")
    return right(q, k, v, bias, mask)

def forward(q, k, v, bias=None, mask=None):
    if any(x is not None and x.requires_grad for x in (q, k, v, bias)):
        raise NotImplementedError("has no backward")
    return right(q, k, v, bias, mask)

def tail_dropped(q, k, v, bias=None, mask=None):
    n = k.shape[-2] // 4 * 4 or k.shape[-2]
    bias = None if bias is None else bias.expand(*bias.shape[:-1], k.shape[-2])[..., :n]
    return right(q, k[..., :n, :], v[..., :n, :], bias, None if mask is None else mask[..., :n])

def two_faults(q, k, v, bias=None, mask=None):
    "Without a bias the mask is ignored; with one, dv is twice what it should be."
    return right(q, k, v, bias, None) if bias is None else right(q, k, 2 * v - v.detach(), bias, mask)

def constant_bias(q, k, v, bias=None, mask=None):
    return right(q, k, v, None if bias is None else bias.detach(), mask)

def never(q, k, v, bias=None, mask=None):
    raise NotImplementedError("only on Sundays")

backend = impls.Backend("half", "half precision only", right, limits=lambda p: ["half precision only"] * (
    p.dtype not in ("bfloat16", "float16")))
number = 3
"""


@pytest.fixture(autouse=True)
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "kernels.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("kernels", None)


def check(*arguments: str) -> int:
    return main(["check", *arguments])


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    code = check(*arguments, "--json")
    result = json.loads(capsys.readouterr().out)
    assert code == (0 if result["passed"] else 1)
    return result


def test_a_right_kernel_passes_and_what_it_declines_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("kernels:good", "--quick", "--dtypes", "float32,bfloat16") == 0
    out = capsys.readouterr().out
    assert "kernels:good: right (" in out
    assert "): takes no bias" in out
    assert "FAILED" not in out


def test_a_wrong_kernel_fails_at_its_smallest_and_can_be_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = report(capsys, "kernels:tail_dropped", "--quick", "--dtypes", "float32")
    assert not result["passed"]
    smallest = [Case.parse(verdict["case"]) for verdict in result["smallest"]]
    assert {(case.batch, case.H, case.Q, case.K) for case in smallest} == {((), 1, 1, 5)}
    python, dash_m, module, *arguments = shlex.split(result["smallest"][0]["command"])
    assert (python, dash_m, module) == ("python", "-m", "impls")
    assert main(arguments) == 1
    assert "kernels:tail_dropped: WRONG (1 failed)" in capsys.readouterr().out


def test_operations_dtypes_and_direction_narrow_what_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    result = report(
        capsys, "kernels:good", "--ops", "msa_column,template_pointwise", "--dtypes", "float32", "--forward-only"
    )
    assert {v["kind"] for v in result["verdicts"]} & set(impls.problem.OPERATIONS) == {
        "msa_column",
        "template_pointwise",
    }
    assert {v["dtype"] for v in result["verdicts"]} == {"float32"}
    assert {v["direction"] for v in result["verdicts"]} == {"forward"}
    assert set(result["counts"]) == {"passed"}, "operations without a bias bring no case that has one"


def test_a_kernel_without_backward_is_judged_forward(capsys: pytest.CaptureFixture[str]) -> None:
    result = report(capsys, "kernels:forward", "--quick")
    directions = {(v["status"], v["direction"]) for v in result["verdicts"] if v["kind"] == "lengths"}
    assert directions == {("declined", "training"), ("passed", "forward")}


def test_a_backend_claims_what_its_limits_let_through(capsys: pytest.CaptureFixture[str]) -> None:
    result = report(capsys, "kernels:backend", "--quick")
    assert {v["dtype"] for v in result["verdicts"] if v["status"] == "passed"} == {"bfloat16", "float16"}


def test_nothing_run_is_a_failure_and_empty_problems_are_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("kernels:never", "--quick") == 1
    assert "NOT JUDGED: nothing but empty problems ran (" in capsys.readouterr().out
    assert check("kernels:never", "--case", str(ROW)) == 1
    assert "NOT JUDGED: nothing could be run (3 declined)" in capsys.readouterr().out


def test_one_fault_is_shown_once_in_the_simplest_dtype(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("kernels:tail_dropped", "--quick", "--ops", "msa_column") == 1
    out = capsys.readouterr().out
    assert out.count("FAILED, at its smallest:") == 1
    assert "--case 'kind=msa_column batch= H=1 Q=1 K=5 c=1'" in out, "float32, which is the default"
    failed, more = (int(re.search(rf"(\d+) {what}", out)[1]) for what in ("failed", "more like this"))
    assert more == failed - 1 > 10


def test_faults_that_differ_are_shown_each(capsys: pytest.CaptureFixture[str]) -> None:
    shown = report(capsys, "kernels:two_faults", "--quick", "--dtypes", "float32")["smallest"]
    tensors = {verdict["reasons"][0].partition("[")[0]: Case.parse(verdict["case"]) for verdict in shown}
    assert len(shown) == 2
    assert tensors["o"].mask != "none"
    assert tensors["dv"].bias_shape is not None


def test_a_row_says_how_much_was_declined() -> None:
    assert overall(Counter(passed=10, declined=12)) == "passed 10 of 22, 12 declined"
    assert overall(Counter(passed=2)) == "passed"
    assert overall(Counter(declined=2)) == "declined"
    assert overall(Counter(not_judged=1, declined=2)) == "not judged and declined"
    assert overall(Counter(failed=1, passed=2, declined=1)) == "FAILED 1 of 4"


def test_a_gradient_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    result = report(capsys, "kernels:constant_bias", "--quick", "--ops", "msa_row", "--dtypes", "float32")
    assert {reason for verdict in result["smallest"] for reason in verdict["reasons"]} == {
        "o carries no gradient to bias"
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kernels:godo"], "has no attribute 'godo'"),
        (["no_such_module:kernel"], "No module named 'no_such_module'"),
        (["kernels:number"], "expected an impls.Backend or a callable"),
        (["eagre"], "did you mean 'eager'"),
        (["mine2"], "code of your own is named module:callable, such as mine2:attend"),
        (["eager", "--case", "kind=msa_row batch=2"], "a case needs H, Q, K, c as well"),
    ],
)
def test_what_cannot_be_found_is_said(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(*arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("--ops", "msa_rows"), ("--dtypes", "float23")])
def test_wrong_options_suggest_the_nearest(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        check("eager", option, value)
    assert f"did you mean '{value[:4]}" in capsys.readouterr().err


def test_the_page_stands_alone_and_escapes(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    check("kernels:tail_dropped", "--quick", "--ops", "msa_column", "--dtypes", "float32", "--html", str(page))
    text = page.read_text()
    assert "kernels:tail_dropped: WRONG" in text
    assert "python -m impls check kernels:tail_dropped --case &#x27;kind=" in text
    assert "http" not in text


def test_a_compiling_backend_is_given_few_shapes() -> None:
    slow = Backend("slow", "", impls.get("eager").attend, traits=impls.Traits(compiles=True))
    assert len({case.core() for case in chosen(slow)}) < 10
    assert len(chosen(impls.get("eager"))) == len(cases())


def test_more_mixtures_are_other_ones() -> None:
    usual, more = chosen(impls.get("eager")), chosen(impls.get("eager"), more=40)
    assert more[: len(usual)] == usual
    assert Counter(case.dtype for case in more[len(usual) :]) == dict.fromkeys(DTYPES, 10)
    assert len(set(more)) == len(usual) + 40


# Modules

MODULES = """
import torch
from impls.evoformer import TriangleAttention

class Untransposed(TriangleAttention):
    "The bias of the ending node as that of the starting node."
    def pair_bias(self, z):
        bias = super().pair_bias(z)
        return bias.mT if self.node == "ending" else bias

def column(parameters, x, mask=None, *, N_head):
    "Right; the keys' and values' weights fused."
    m = torch.nn.functional.layer_norm(x, x.shape[-1:], parameters["layer_norm.weight"], parameters["layer_norm.bias"])
    k, v = (m @ torch.cat([parameters["linear_k.weight"], parameters["linear_v.weight"]]).T).chunk(2, -1)
    q, k, v = (y.unflatten(-1, (N_head, -1)).movedim(-4, -2) for y in (m @ parameters["linear_q.weight"].T, k, v))
    allowed = None if mask is None else mask.bool().mT[..., None, None, :]
    if mask is not None:
        k, v = (y.masked_fill(~allowed.mT, 0) for y in (k, v))
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, allowed).movedim(-2, -4).flatten(-2)
    if "linear_g.weight" in parameters:
        o = o * torch.sigmoid(m @ parameters["linear_g.weight"].T + parameters["linear_g.bias"])
    return o @ parameters["linear_o.weight"].T + parameters["linear_o.bias"]
"""


@pytest.fixture
def modules(tmp_path: Path):
    (tmp_path / "modules.py").write_text(MODULES)
    yield
    sys.modules.pop("modules", None)


@pytest.mark.usefixtures("modules")
def test_a_wrong_module_fails_at_its_smallest_and_can_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    start = "operation=triangle_ending batch=2 N_head=2 c=3 c_in=5 R=4 mask=random"
    result = report(capsys, "--module", "modules:Untransposed", "--case", start)
    (smallest,) = result["smallest"]
    case = ModuleCase.parse(smallest["case"])
    assert (case.batch, case.N_head, case.c, case.R, case.gated, case.mask) == ((), 1, 1, 2, False, "none")
    assert main(shlex.split(smallest["command"])[3:]) == 1
    assert "--module modules:Untransposed: WRONG (1 failed)" in capsys.readouterr().out


@pytest.mark.usefixtures("modules")
def test_right_modules_pass(capsys: pytest.CaptureFixture[str]) -> None:
    for target in ("modules:column", "eager"):
        result = report(capsys, "--module", target, "--op", "msa_column", "--quick", "--dtypes", "float32")
        assert result["passed"]
        assert {v["direction"] for v in result["verdicts"]} == {"forward", "training"}


def test_modules_are_judged_by_the_policy_they_are_said_to_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert {case.masked_rows for case in chosen_of_module(["msa_row"], masked_rows="uniform")} == {"uniform"}
    case = "operation=msa_row batch= N_head=1 c=2 c_in=4 S=2 R=3 c_z=4 mask=full_row masked_rows=uniform"
    assert report(capsys, "--module", "eager", "--case", case)["passed"]


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["modules:column"], "say which operation the module is of, such as --op msa_row"),
        (["kernels:number", "--op", "msa_row"], "expected what makes a module"),
        (["mine2", "--op", "msa_row"], "such as mine2:attend"),
        (["modules:column", "--op", "msa_column", "--dtypes", "float16"], "modules are judged in float64, float32"),
        (["modules:column", "--case", "operation=msa_row"], "a case needs batch, N_head, c, c_in as well"),
    ],
)
def test_what_a_module_lacks_is_said(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--module", *arguments) == 2
    assert message in capsys.readouterr().err


# Shrinking


def mutant(name: str) -> Backend:
    return Backend(name, "", MUTANTS[name].attend)


@pytest.mark.parametrize(
    ("name", "smallest"),
    [
        ("zeros", "kind=msa_row batch= H=1 Q=1 K=1 c=1"),
        ("mask_inverted", "kind=msa_row batch= H=1 Q=1 K=1 c=1 mask=random"),
        ("dk_zero", "kind=msa_row batch= H=1 Q=1 K=2 c=1 grad=k"),
        ("last_key_dropped_at_odd_lengths", "kind=msa_row batch= H=1 Q=1 K=3 c=1"),
        ("dbias_zero", "kind=msa_row batch= H=1 Q=1 K=2 c=1 bias_shape=1x1x2 grad=bias"),
    ],
)
def test_failures_shrink_to_what_shows_the_fault(name: str, smallest: str) -> None:
    start = judge(mutant(name), ROW.with_(mask="full_row", quirks=("heads_last",)))
    assert start.status == "failed"
    found = shrink(mutant(name), start)
    assert (found.status, str(found.case)) == ("failed", smallest)


def test_a_failure_of_another_kind_is_no_smaller_failure() -> None:
    def raises_at_one_head(q, k, v, bias, mask):
        if q.shape[-3] == 1:
            raise RuntimeError("one head")
        return torch.zeros_like(q)

    backend = Backend("two", "", raises_at_one_head)
    found = shrink(backend, judge(backend, ROW.with_(grad=())))
    assert found.case.H == 2
    assert symptom(found) == "wrong numbers"


def test_simpler_modules_are_valid_and_differ() -> None:
    for case in module_cases()[::23]:
        for other in simpler(case):
            assert other != case
            assert other.inputs().cotangent.shape[-1] == other.c_in


def test_simpler_cases_are_valid_and_differ() -> None:
    for case in cases()[::11]:
        for other in simpler(case):
            assert other != case
            assert other.inputs().q.shape[-1] == other.c


# Somebody else's package


def test_the_example_package_is_installed_found_and_judged(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(ROOT / "examples" / "my_kernel", source)
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--target", str(site), str(source)], check=True)
    paths = {"PYTHONPATH": f"{site}:{ROOT}"}

    def impls_command(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "impls", *arguments]
        return subprocess.run(command, env=paths, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "my_kernel" in impls_command().stdout
    for target in ("my_kernel", "my_kernel:attend"):
        result = impls_command("check", target, "--quick")
        assert (result.returncode, f"{target}: right (" in result.stdout) == (0, True), result.stdout + result.stderr


def test_a_name_or_a_path_is_loaded() -> None:
    assert load("eager") is impls.get("eager")
    assert load("kernels:good").summary == "Right, without a bias."
    assert load("kernels:backend").name == "half"
