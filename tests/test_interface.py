"""Bad input to the core, problems that check themselves, backends of other packages, and the rules of the house."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import impls
from impls.interface import Backend, UnsupportedProblem, as_backend
from impls.problem import CoreProblem, Problem

ROOT = Path(impls.__file__).parent


def tensors(**changes: Tensor | None) -> dict[str, Tensor | None]:
    """A good call: B=2, H=3, Q=5, K=7, c=4, with a bias and a mask."""
    good = {
        "q": torch.randn(2, 3, 5, 4),
        "k": torch.randn(2, 3, 7, 4),
        "v": torch.randn(2, 3, 7, 4),
        "bias": torch.randn(3, 5, 7),
        "mask": torch.ones(2, 7, dtype=torch.bool),
    }
    return good | changes


WRONG = {
    "q without heads": ({"q": torch.randn(5, 4)}, ValueError, r"q has shape \(5, 4\); expected \(\*, heads"),
    "lengths of k and v": ({"v": torch.randn(2, 3, 6, 4)}, ValueError, r"\(2, 3, 7, 4\), v \(2, 3, 6, 4\)"),
    "widths of q and k": ({"q": torch.randn(2, 3, 5, 8)}, ValueError, "must agree in"),
    "leading axes": ({"q": torch.randn(9, 3, 5, 4)}, ValueError, "must agree in"),
    "heads": ({"k": torch.randn(2, 2, 7, 4), "v": torch.randn(2, 2, 7, 4)}, ValueError, "keys have 2 heads, queries 3"),
    "dtypes": ({"k": torch.randn(2, 3, 7, 4).half()}, TypeError, "k is torch.float16, q is torch.float32"),
    "integers": (
        {name: torch.ones(2, 3, 7, 4, dtype=torch.int64) for name in "qkv"},
        TypeError, r"q is torch.int64.*q.float\(\)",
    ),
    "an array": ({"k": np.ones((2, 3, 7, 4))}, TypeError, r"k is a numpy.ndarray.*torch.as_tensor\(k\)"),
    "an array as mask": ({"mask": np.ones((2, 7), bool)}, TypeError, "mask is a numpy.ndarray"),
    "a list": ({"bias": [[0.0]]}, TypeError, "bias is a list; expected a torch.Tensor"),
    "bias dtype": ({"bias": torch.randn(3, 5, 7).half()}, TypeError, "bias is torch.float16.*or float32"),
    "bias shape": ({"bias": torch.randn(3, 5, 6)}, ValueError, r"bias of shape \(3, 5, 6\) does not broadcast"),
    "bias with more axes": ({"bias": torch.randn(1, 2, 3, 5, 7)}, ValueError, "does not broadcast"),
    "bias that would widen q": ({"bias": torch.randn(4, 2, 3, 5, 7)}, ValueError, "does not broadcast"),
    "float mask": ({"mask": torch.ones(2, 7)}, TypeError, r"mask is torch.float32; the core takes bool.*mask.bool\(\)"),
    "mask shape": ({"mask": torch.ones(2, 5, dtype=torch.bool)}, ValueError, r"mask of shape \(2, 5\)"),
    "mask like logits": ({"mask": torch.ones(2, 3, 5, 7, dtype=torch.bool)}, ValueError, "does not broadcast"),
    "device of k": ({"k": torch.empty(2, 3, 7, 4, device="meta")}, ValueError, "k is on meta, q on cpu"),
    "device of bias": ({"bias": torch.empty(3, 5, 7, device="meta")}, ValueError, "bias is on meta, q on cpu"),
    "device of mask": (
        {"mask": torch.empty(2, 7, dtype=torch.bool, device="meta")}, ValueError, "mask is on meta, q on cpu",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", impls.names())
@pytest.mark.parametrize(("changes", "error", "message"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_refused_in_words(name: str, changes: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        impls.get(name)(**tensors(**changes))


def test_good_input_is_taken() -> None:
    assert impls.get("eager")(**tensors()).shape == (2, 3, 5, 4)


def test_a_float32_bias_beside_half_precision_is_right() -> None:
    half = {name: x.bfloat16() for name, x in tensors().items() if name in "qkv"}
    assert impls.get("eager")(**tensors(**half)).dtype == torch.bfloat16


@pytest.mark.parametrize("empty", ["Q", "K", "H", "batch"])
def test_an_empty_axis_gives_zeros_and_zero_gradients(empty: str) -> None:
    sizes = {"batch": 2, "H": 3, "Q": 5, "K": 7} | {empty: 0}
    q = torch.randn(sizes["batch"], sizes["H"], sizes["Q"], 4, requires_grad=True)
    k, v = (torch.randn(sizes["batch"], sizes["H"], sizes["K"], 4, requires_grad=True) for _ in range(2))
    bias = torch.randn(sizes["H"], sizes["Q"], sizes["K"], requires_grad=True)
    o = impls.get("eager")(q, k, v, bias)
    assert o.shape == q.shape
    assert not o.any()
    for x, gradient in zip((q, k, v, bias), torch.autograd.grad(o.sum(), (q, k, v, bias)), strict=True):
        assert gradient.shape == x.shape
        assert not gradient.any()


def test_a_backend_refuses_with_its_reason() -> None:
    backend = Backend("short", "at most four keys", lambda q, k, v, bias, mask: q, limits=lambda p: ["K > 4: split it"])
    assert backend.why_not(CoreProblem((2,), 3, 5, 7, 4)) == ["K > 4: split it"]
    with pytest.raises(UnsupportedProblem, match="backend 'short': K > 4: split it"):
        backend(**tensors())


def test_a_backend_is_asked_about_the_problem_that_was_posed() -> None:
    asked = []

    def limits(problem: CoreProblem) -> list[str]:
        asked.append(problem)
        return []

    half = {name: x.bfloat16().requires_grad_() for name, x in tensors().items() if name in "qkv"}
    Backend("curious", "", impls.get("eager").attend, limits=limits)(**tensors(**half))
    assert asked == [
        CoreProblem((2,), 3, 5, 7, 4, (3, 5, 7), True, "bfloat16", bias_dtype="float32", training=True, bias_grad=False)
    ]
    with torch.no_grad():
        Backend("curious", "", impls.get("eager").attend, limits=limits)(**tensors(**half))
    assert not asked[-1].training


def test_problems_check_themselves() -> None:
    with pytest.raises(ValueError, match="unknown operation 'msa_rows'; did you mean 'msa_row'"):
        Problem(operation="msa_rows")
    with pytest.raises(ValueError, match="unknown dtype 'float23'; did you mean 'float32'"):
        Problem(operation="msa_row", dtype="float23")
    with pytest.raises(ValueError, match="unknown mask kind 'pading'; did you mean 'padding'"):
        Problem(operation="msa_row", mask="pading")
    with pytest.raises(ValueError, match="unknown direction 'backward'"):
        Problem(operation="msa_row", direction="backward")
    with pytest.raises(ValueError, match="S=0: every axis"):
        Problem(operation="msa_row", S=0)
    with pytest.raises(ValueError, match="c=0: a length cannot be negative, and c must be at least 1"):
        CoreProblem((2,), 3, 5, 7, 0)
    with pytest.raises(ValueError, match=r"batch\[1\]=-1"):
        CoreProblem((2, -1), 3, 5, 7, 4)
    with pytest.raises(ValueError, match="does not broadcast"):
        CoreProblem((2,), 3, 5, 7, 4, bias_shape=(2, 5, 7))
    with pytest.raises(ValueError, match="keys have 2 heads, queries 3"):
        CoreProblem((2,), 3, 5, 7, 4, H_kv=2)


def test_equal_problems_are_equal_however_they_are_written() -> None:
    assert CoreProblem(2, 3, 5, 7, 4, dtype=str(torch.bfloat16), device="cuda:1") == CoreProblem(
        (2,), 3, 5, 7, 4, dtype="bfloat16", device="cuda", H_kv=3, bias_dtype="bfloat16"
    )


def test_an_unknown_backend_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown backend 'eagre'; did you mean 'eager'\? \(known: .*reference"):
        impls.get("eagre")


def test_names_are_unique_and_lead_to_their_backend() -> None:
    assert len(set(impls.names())) == len(impls.names())
    for name in impls.names():
        assert impls.get(name).name == name
        assert impls.get(name).summary


# Backends of other packages


@pytest.mark.usefixtures("plugin")
def test_other_packages_register_backends() -> None:
    assert impls.names()[-4:] == ["mean_of_v", "sundays", "broken", "number"]
    backend = impls.get("mean_of_v")
    assert (backend.name, backend.summary) == ("mean_of_v", "Values, unattended.")
    assert backend(**tensors()).shape == (2, 3, 5, 4)
    assert impls.get("sundays").why_not(CoreProblem((), 1, 1, 1, 1)) == ["only on Sundays"]


@pytest.mark.usefixtures("plugin")
def test_a_plugin_cannot_replace_a_backend_of_ours() -> None:
    assert impls.get("eager").attend.__module__ == "impls.backends.eager"
    assert impls.names().count("eager") == 1


@pytest.mark.usefixtures("plugin")
def test_a_broken_plugin_is_named_and_harms_no_other() -> None:
    with pytest.raises(ImportError, match=r"'broken' \(no_such_module:attend\) cannot be loaded: No module named"):
        impls.get("broken")
    with pytest.raises(TypeError, match=r"sunday:number is a int; expected an impls\.Backend"):
        impls.get("number")
    assert impls.get("mean_of_v")


# Rules of the house


def test_importing_impls_loads_no_torch() -> None:
    code = "import sys, impls; impls.Problem(operation='msa_row').core(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_impls_imports_no_other_room(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.split(".")[0])
    assert not imported & {"benchmarks", "dashboard", "tests", "results"}


def test_a_bare_callable_declines_by_raising() -> None:
    def no_bias(q, k, v, bias, mask):
        raise NotImplementedError("no bias here")

    backend = as_backend(no_bias, "no_bias", "somewhere:no_bias")
    with pytest.raises(impls.UnsupportedProblem, match="no bias here"):
        backend(*(torch.zeros(1, 2, 3) for _ in range(3)))
