"""DeepSpeed's evoformer attention: everything around its kernel, with a stand-in that goes through keys as it does."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from edited import edit
from torch import Tensor
from torch.profiler import profile

import impls
from impls.backends import deepspeed_evo
from impls.conformance.cases import LEAVES, Case
from impls.conformance.judge import judge
from impls.cuda import assuming
from impls.problem import CoreProblem

pytestmark = pytest.mark.usefixtures("one_thread")
LOG2E = 1 / math.log(2)
BLOCK = 64


def aligned(*tensors: Tensor) -> None:
    if any(x.data_ptr() % 16 for x in tensors):
        raise RuntimeError("not correctly aligned")


class EvoformerFusedAttention(torch.autograd.Function):
    """Forward with an online softmax over blocks of keys, exponentials to base 2; backward from its log-sum-exp."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias1: Tensor | None, bias2: Tensor | None) -> Tensor:
        if q.shape[-3] <= 16:
            raise AssertionError("seq_len must be greater than 16")
        if q.dtype not in (torch.float16, torch.bfloat16) or any(
            x is not None and x.dtype != q.dtype for x in (k, v, bias1, bias2)
        ):
            raise RuntimeError("expected scalar type of q")
        q, k, v = (x.contiguous() for x in (q, k, v))
        aligned(q, k, v)
        logits = attention_logits(q, k, bias1, bias2)
        m = torch.full_like(logits[..., :1], -torch.inf)
        total, o = torch.zeros_like(m), torch.zeros_like(m)
        values = v.float().transpose(-2, -3)
        for x, y in zip(logits.split(BLOCK, -1), values.split(BLOCK, -2), strict=True):
            new = torch.maximum(m, x.amax(-1, keepdim=True))
            shrink = torch.exp2(LOG2E * (m - new))
            weights = torch.exp2(LOG2E * x - LOG2E * new)
            total, o, m = shrink * total + weights.sum(-1, keepdim=True), shrink * o + weights @ y, new
        o = (o / total).transpose(-2, -3).to(q.dtype).contiguous()
        o[..., 64:] = torch.nan
        ctx.save_for_backward(q, k, v, o, m + total.log(), bias1, bias2)
        return o

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, o, lse, bias1, bias2 = ctx.saved_tensors
        if q.shape[-1] > 64:
            raise AssertionError("Hidden size is too large. Need to change kMax to a larger value")
        if grad.view(-1, *grad.shape[-3:]).stride(-1) != 1:
            raise AssertionError("would read past the gradient")
        aligned(grad)
        do = grad.float().transpose(-2, -3)
        P = torch.exp(attention_logits(q, k, bias1, bias2) - lse)
        delta = (do * o.float().transpose(-2, -3)).sum(-1, keepdim=True)
        dS = P * (do @ v.float().transpose(-2, -3).mT - delta)
        scale = q.shape[-1] ** -0.5
        dq = scale * dS @ k.float().transpose(-2, -3)
        dk = scale * dS.mT @ q.float().transpose(-2, -3)
        dv = P.mT @ do
        found = [x.transpose(-2, -3).to(q.dtype) for x in (dq, dk, dv)]
        pair = dS.sum(1, keepdim=True).to(grad.dtype) if ctx.needs_input_grad[4] else None
        return *found, None, pair


def attention_logits(q: Tensor, k: Tensor, bias1: Tensor | None, bias2: Tensor | None) -> Tensor:
    logits = q.float().transpose(-2, -3) @ k.float().transpose(-2, -3).mT / q.shape[-1] ** 0.5
    for bias in (bias1, bias2):
        logits = logits if bias is None else logits + bias.float()
    return logits


def ds4sci_evoformer_attention(Q: Tensor, K: Tensor, V: Tensor, biases: list[Tensor | None]) -> Tensor:
    """``DS4Sci_EvoformerAttention``: at most two biases, of exact shapes. A list with fewer is filled up in place."""
    assert len(biases) <= 2
    while len(biases) < 2:
        biases.append(None)
    B, N, L, H, _ = Q.shape
    for bias, shape in zip(biases, ((B, N, 1, 1, L), (B, 1, H, L, L)), strict=True):
        assert bias is None or bias.shape == shape, "bias shape is incorrect"
    return EvoformerFusedAttention.apply(Q, K, V, *biases)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> impls.Backend:
    """Our adapter over the stand-in, with the limits of its shapes alone."""
    stand_in = SimpleNamespace(DS4Sci_EvoformerAttention=ds4sci_evoformer_attention)
    monkeypatch.setitem(sys.modules, "deepspeed", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "deepspeed.ops", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "deepspeed.ops.deepspeed4science", stand_in)
    return replace(deepspeed_evo.BACKENDS[0], limits=deepspeed_evo.shape_limits)


ROW = Case("msa_row", (2, 3), 3, 17, 17, 8, (2, 1, 3, 17, 17), dtype="float16", grad=LEAVES)
COLUMN = Case("msa_column", (2, 3), 3, 17, 17, 8, dtype="float16", grad=LEAVES[:3])
LONG = Case("triangle_starting", (1, 2), 1, 130, 130, 8, (1, 1, 1, 130, 130), "full_row", grad=LEAVES, dtype="float16")


def cases() -> Iterator[Case]:
    """Masks, numbers that are not finite, layouts, batches, broadcasts, widths and lengths."""
    for dtype in ("bfloat16", "float16"):
        for mask in ("none", "padding", "random", "full_row"):
            yield ROW.with_(mask=mask, dtype=dtype)
            yield COLUMN.with_(mask=mask, dtype=dtype)
        for quirks in (("empty_row", "poison"), ("mask_in_bias",)):
            yield ROW.with_(mask="full_row", dtype=dtype, quirks=quirks)
            yield LONG.with_(dtype=dtype, quirks=quirks)
        for quirk in ("heads_last", "packed", "strided", "margins", "expanded", "offset", "deep", "high", "lowest_row"):
            yield ROW.with_(mask="random", quirks=(quirk,), dtype=dtype)
        yield ROW.with_(dtype=dtype, bias_dtype="float32", mask="full_row", quirks=("mask_in_bias",))
        yield ROW.with_(dtype=dtype, bias_dtype="float32", mask="random")
    yield ROW.with_(quirks=("low_rank",), bias_shape=(1, 1, 3, 17, 1))
    for batch, shape in (
        ((), (3, 17, 17)), ((4,), (4, 3, 17, 17)), ((4,), (4, 1, 1, 17)), ((2, 3), (1, 3, 3, 17, 17)),
        ((2, 3), (17, 17)), ((2, 1, 3), (2, 1, 1, 1, 17, 17)), ((2, 3), (2, 3, 3, 1, 17)),
    ):  # fmt: skip
        yield ROW.with_(batch=batch, bias_shape=shape, mask="full_row")
    for grad in (("bias",), ("q",), ("k",), ("v",), ()):
        yield ROW.with_(grad=grad, mask="random")
    for c in (16, 40, 64):
        yield ROW.with_(c=c, dtype="bfloat16")
    for n in (32, 33, 65):
        yield Case("triangle_ending", (1, n), 1, n, n, 8, (1, 1, 1, n, n), "random", "float16", LEAVES)


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_around_the_kernel(backend: impls.Backend, case: Case) -> None:
    verdict = judge(backend, case)
    assert verdict.status == "passed", verdict.reasons
    assert [check.tensor for check in verdict.checks] == ["o", *(f"d{name}" for name in case.grad)]


def first_keys_hidden(dtype: torch.dtype, highest: float) -> tuple[Tensor, ...]:
    """q, k, v, bias and mask of 130 tokens, the first block of keys and more hidden, the bias high there."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, 130, 8, generator=generator).to(dtype) for _ in range(3))
    mask = torch.arange(130) > 70
    bias = torch.randn(1, 130, 130, generator=generator).masked_fill(~mask, highest).to(dtype)
    return q, k, v, bias, mask


@pytest.mark.parametrize(("dtype", "highest"), [(torch.float16, 3e4), (torch.bfloat16, 1e28)])
def test_a_hidden_block_of_keys_leaves_nothing_behind(
    backend: impls.Backend, dtype: torch.dtype, highest: float
) -> None:
    q, k, v, bias, mask = first_keys_hidden(dtype, highest)
    expected = impls.get("reference")(q.double(), k.double(), v.double(), bias.double(), mask)
    torch.testing.assert_close(backend(q, k, v, bias, mask).double(), expected, rtol=0.02, atol=0.02)


def test_a_gradient_that_is_not_dense_is_made_so(backend: impls.Backend) -> None:
    """What a sum hands back is one number for all, its strides 0; the kernel would read past it."""
    inputs = COLUMN.inputs()
    outputs = backend(*inputs[:5])
    (dv,) = torch.autograd.grad(outputs.sum(), inputs.v)
    ones = torch.ones_like(outputs)
    torch.testing.assert_close(dv, torch.autograd.grad(backend(*inputs[:5]), inputs.v, ones)[0], rtol=0, atol=0)


def test_the_kernel_shows_in_a_profile(backend: impls.Backend) -> None:
    with profile() as profiled:
        backend(*ROW.inputs()[:5])
    assert {event.name for event in profiled.events() or ()} & set(backend.traits.kernels)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (".clamp(min=LOWEST)", ""),
        (".to(q.dtype)", ""),
        (".expand(B, 1, H, L, L)", ""),
        ("hide(v, mask)", "v"),
        ("o if bias is None and mask is None else o.masked_fill(rows_without_keys(bias, mask), 0)", "o"),
        ("x.transpose(-2, -3)", "x"),
        ("hiding(mask, q.dtype)", "hiding(~mask, q.dtype)"),
        ("hidden, pair", "pair, hidden"),
    ],
)
def test_each_step_of_the_adapter_is_needed(
    backend: impls.Backend, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(monkeypatch, deepspeed_evo, "call", right, wrong)
    assert any(judge(backend, case).status == "failed" for case in cases())


@pytest.mark.parametrize("lowest", [-math.inf, torch.finfo(torch.float32).min])
def test_what_hides_a_key_must_be_finite_and_not_the_lowest(
    backend: impls.Backend, lowest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deepspeed_evo, "HIDDEN", lowest)
    monkeypatch.setattr(deepspeed_evo.torch, "finfo", lambda dtype: SimpleNamespace(min=lowest))
    q, k, v, bias, mask = first_keys_hidden(torch.bfloat16, 0.0)
    assert backend(q, k, v, bias, mask).isnan().any()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "float32"}, "takes float16 and bfloat16 only"),
        ({"K": 18, "bias_shape": None}, "17 queries and 18 keys"),
        ({"Q": 16, "K": 16, "bias_shape": None}, "16 queries: takes at least 17"),
        ({"c": 12}, "c=12: a head's width is a multiple of 8 up to 64"),
        ({"c": 72}, "c=72"),
        ({"H_kv": 1}, "as many as queries have"),
        ({"batch": (256, 256), "bias_shape": None}, "65,536: at most 65,535"),
        ({"H": 2**16, "bias_shape": None}, "65,536 heads"),
        ({"Q": 30_000, "K": 30_000, "bias_shape": (1, 1, 3, 30_000, 30_000)}, "2,700,000,000 elements"),
        ({"batch": (60_000,), "Q": 20_000, "K": 20_000, "bias_shape": None}, "3,600,000,000 elements"),
    ],
)
def test_limits_of_its_shapes(changes: dict, words: str) -> None:
    base = {"batch": (2, 5), "H": 3, "Q": 17, "K": 17, "c": 16, "bias_shape": (2, 1, 3, 17, 17), "dtype": "float16"}
    base |= {"device": "cuda"}
    assert list(deepspeed_evo.shape_limits(CoreProblem(**base, mask=True, training=True, bias_grad=True))) == []
    assert words in "; ".join(impls.get("deepspeed_evo").why_not(CoreProblem(**{**base, **changes})))


def test_a_cpu_and_old_gpus_are_refused_in_words() -> None:
    assert "needs CUDA" in "; ".join(deepspeed_evo.limits(ROW.core()))
    on_gpu = ROW.with_(device="cuda", dtype="bfloat16").core()
    for capability, words in (((6, 1), "7.0 or newer; this one has 6.1"), ((7, 5), "bfloat16 needs a GPU")):
        with assuming(capability):
            assert words in "; ".join(deepspeed_evo.limits(on_gpu))


@pytest.fixture
def deepspeed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """The parts of DeepSpeed that say whether its kernel is built; torch's folder of extensions is ``tmp_path``."""
    loads: list[str] = []
    builder = SimpleNamespace(load=lambda: loads.append("evoformer_attn"))
    info = SimpleNamespace(installed_ops={"evoformer_attn": False})
    for name, module in {
        "deepspeed": SimpleNamespace(), "deepspeed.git_version_info": info, "deepspeed.ops": SimpleNamespace(),
        "deepspeed.ops.op_builder": SimpleNamespace(EvoformerAttnBuilder=lambda: builder),
    }.items():  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(deepspeed_evo, "version", lambda name: "0.19.8")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    deepspeed_evo.installed.cache_clear()
    deepspeed_evo.trouble_loading.cache_clear()
    yield SimpleNamespace(info=info, builder=builder, loads=loads)
    deepspeed_evo.installed.cache_clear()
    deepspeed_evo.trouble_loading.cache_clear()


def reasons() -> str:
    deepspeed_evo.trouble_loading.cache_clear()
    with assuming((8, 0)):
        return "; ".join(deepspeed_evo.limits(ROW.with_(device="cuda").core()))


def test_the_kernel_is_loaded_but_never_built_while_measuring(deepspeed: SimpleNamespace, tmp_path: Path) -> None:
    assert "builds its kernel on first use, for minutes: once, run python -c" in reasons()
    assert deepspeed.loads == []
    folder = tmp_path / "evoformer_attn"
    folder.mkdir()
    (folder / "evoformer_attn.so").touch()
    assert (reasons(), deepspeed.loads) == ("", ["evoformer_attn"])


def test_a_kernel_that_came_with_deepspeed_is_taken_and_one_that_fails_to_load_says_why(
    deepspeed: SimpleNamespace,
) -> None:
    deepspeed.info.installed_ops["evoformer_attn"] = True
    assert (reasons(), deepspeed.loads) == ("", ["evoformer_attn"])

    def failing() -> None:
        raise RuntimeError("CUDA mismatch")

    deepspeed.builder.load = failing
    assert "deepspeed 0.19.8 cannot load its kernel: CUDA mismatch" in reasons()


def test_importing_impls_imports_no_deepspeed() -> None:
    code = "import sys, impls; impls.get('deepspeed_evo'); sys.exit('deepspeed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
