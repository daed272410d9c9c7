"""cuEquivariance: everything around its kernel, with a stand-in that keeps to what is documented of it, and no more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from edited import edit
from torch import Tensor

import impls
from impls.backends import cuequivariance
from impls.conformance.cases import LEAVES, Case
from impls.conformance.judge import judge
from impls.cuda import assuming
from impls.problem import CoreProblem

pytestmark = pytest.mark.usefixtures("one_thread")
WIDEST = {torch.float32: (4, 32), torch.float16: (8, 128), torch.bfloat16: (8, 128)}


def triangle_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mask: Tensor | None = None, scale: float | None = None,
    return_aux: bool = False, *, kv_lengths: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``cuequivariance_torch.triangle_attention``: shapes as documented, an error for what has no documented answer."""
    B, N, H, Q, c = q.shape
    K = k.shape[-2]
    for name, x, shape in (
        ("k", k, (B, N, H, K, c)), ("v", v, (B, N, H, K, c)), ("bias", bias, (B, 1, H, Q, K)),
        ("mask", mask, (B, N, 1, 1, K)),
    ):  # fmt: skip
        if x is not None and x.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(x.shape)}")
    multiple, widest = WIDEST[q.dtype]
    fits = c % multiple == 0 and c <= widest
    if return_aux and not fits:
        raise ValueError(f"return_aux requires hidden_dim % {multiple} == 0 and <= {widest}, got {c}")
    assert return_aux or (fits and (200 if c < 32 else 100) < Q), "would silently run plain PyTorch"
    assert bias.dtype == torch.float32
    assert bias.isfinite().all(), "no answer is documented for a bias of -inf"
    assert mask is None or mask.dtype == torch.bool
    assert mask is None or mask.any(-1).all(), "rows without a key are garbage (NVIDIA/cuEquivariance#204)"
    assert not any(x.contiguous().data_ptr() % 16 for x in (q, k, v)), "misaligned"
    logits = (q.float() @ k.float().mT) * (c**-0.5 if scale is None else scale) + bias
    if mask is not None:
        logits = torch.where(mask, logits, -1e9)
    o = (logits.softmax(-1) @ v.float()).to(q.dtype)
    return (o, logits.logsumexp(-1), logits.amax(-1)) if return_aux else o


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> impls.Backend:
    """Our adapter over the stand-in, with the limits of its shapes alone."""
    stand_in = SimpleNamespace(triangle_attention=triangle_attention)
    monkeypatch.setitem(sys.modules, "cuequivariance_torch", stand_in)
    return replace(cuequivariance.BACKENDS[0], limits=cuequivariance.shape_limits)


ROW = Case("msa_row", (2, 3), 3, 5, 7, 8, (2, 1, 3, 5, 7), grad=LEAVES)


def cases() -> Iterator[Case]:
    """Masks, numbers that are not finite, layouts, batches, broadcasts, widths and lengths."""
    for dtype in ("float32", "bfloat16", "float16"):
        for mask in ("none", "padding", "random", "full_row"):
            yield ROW.with_(mask=mask, dtype=dtype)
        yield ROW.with_(mask="full_row", dtype=dtype, quirks=("empty_row", "poison"))
        yield ROW.with_(mask="full_row", dtype=dtype, quirks=("mask_in_bias",))
    for quirk in ("heads_last", "packed", "strided", "margins", "expanded", "offset", "deep", "high", "lowest_row"):
        yield ROW.with_(mask="random", quirks=(quirk,))
        yield ROW.with_(mask="random", quirks=(quirk,), dtype="bfloat16")
    yield ROW.with_(quirks=("low_rank",), bias_shape=(1, 1, 3, 5, 1))
    yield ROW.with_(dtype="bfloat16", bias_dtype="float32", mask="random")
    yield ROW.with_(dtype="float16", bias_dtype="float32", mask="full_row", quirks=("mask_in_bias",))
    for batch, shape in (
        ((), (3, 5, 7)), ((4,), (4, 3, 5, 7)), ((4,), (4, 1, 1, 7)), ((2, 3), (1, 3, 3, 5, 7)), ((2, 3), (5, 7)),
        ((2, 1, 3), (2, 1, 1, 1, 5, 7)), ((2, 3), (2, 3, 3, 1, 7)),
    ):  # fmt: skip
        yield ROW.with_(batch=batch, bias_shape=shape, mask="full_row")
    for grad in (("bias",), ("q",), ("k",), ("v",)):
        yield ROW.with_(grad=grad, mask="random")
    yield ROW.with_(grad=(), mask="full_row")
    yield ROW.with_(H_kv=1, mask="random")
    for c in (4, 12, 28, 32):
        yield ROW.with_(c=c)
    for c in (16, 40, 128):
        yield ROW.with_(c=c, dtype="bfloat16")
    for n in (1, 16, 17, 33, 101):
        yield Case("triangle_starting", (1, n), 2, n, n, 16, (1, 1, 2, n, n), "random", grad=LEAVES)


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_around_the_kernel(backend: impls.Backend, case: Case) -> None:
    verdict = judge(backend, case)
    assert verdict.status == "passed", verdict.reasons
    assert [check.tensor for check in verdict.checks] == ["o", *(f"d{name}" for name in case.grad)]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("return_aux=True", "return_aux=False"),
        ("bias.float()", "bias"),
        (".clamp(min=LOWEST)", ""),
        ("mask | ~mask.any(-1, keepdim=True)", "mask"),
        (".masked_fill(empty, 0)", ""),
        ("hide(v, mask)", "v"),
        (".expand(scores[0], 1, *scores[2:])", ""),
        ("on_keys(mask |", "on_keys(~mask |"),
    ],
)
def test_each_step_of_the_adapter_is_needed(
    backend: impls.Backend, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(monkeypatch, cuequivariance, "call", right, wrong)
    assert any(judge(backend, case).status == "failed" for case in cases())


def test_misaligned_inputs_are_copied(backend: impls.Backend) -> None:
    q, k, v = (torch.randn(2 * 3 * n * 8 + 1)[1:].view(2, 3, n, 8) for n in (5, 7, 7))
    bias = torch.randn(3, 5, 7)
    torch.testing.assert_close(backend(q, k, v, bias), impls.get("eager")(q, k, v, bias))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bias_shape": None}, "takes a pair bias alone"),
        ({"dtype": "float64"}, "takes float32"),
        ({"c": 30}, "c=30: a head's width is a multiple of 4 up to 32 in float32"),
        ({"c": 64}, "c=64"),
        ({"c": 12, "dtype": "float16"}, "multiple of 8 up to 128"),
        ({"c": 136, "dtype": "bfloat16"}, "c=136"),
    ],
)
def test_limits_of_its_shapes(changes: dict, words: str) -> None:
    base = {"batch": (2, 5), "H": 3, "Q": 5, "K": 6, "c": 16, "bias_shape": (2, 1, 3, 5, 6), "device": "cuda"}
    assert list(cuequivariance.shape_limits(CoreProblem(**base, mask=True, training=True, bias_grad=True))) == []
    assert words in "; ".join(impls.get("cuequivariance").why_not(CoreProblem(**{**base, **changes})))


def test_a_missing_package_and_a_cpu_and_an_old_gpu_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuequivariance, "find_spec", lambda name: None if "ops" in name else object())
    assert "cuequivariance_ops_torch not installed (pip install cuequivariance-torch" in "; ".join(
        cuequivariance.limits(ROW.core())
    )
    assert "needs CUDA" in "; ".join(cuequivariance.limits(ROW.core()))
    with assuming((7, 5)):
        assert "8.0 or newer; this one has 7.5" in "; ".join(cuequivariance.limits(ROW.with_(device="cuda").core()))


def test_a_package_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuequivariance, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "cuequivariance_torch", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cuequivariance_ops_torch", None)
    cuequivariance.trouble_loading.cache_clear()
    with assuming((9, 0)):
        assert "cannot be loaded: import of cuequiv" in "; ".join(
            cuequivariance.limits(ROW.with_(device="cuda").core())
        )
        monkeypatch.setitem(sys.modules, "cuequivariance_ops_torch", SimpleNamespace())
        cuequivariance.trouble_loading.cache_clear()
        assert list(cuequivariance.limits(ROW.with_(device="cuda").core())) == []
    cuequivariance.trouble_loading.cache_clear()


def test_importing_impls_imports_no_cuequivariance() -> None:
    code = "import sys, impls; impls.get('cuequivariance'); sys.exit('cuequivariance_torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
