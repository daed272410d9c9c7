"""flash-attn: packing of valid keys against a stand-in, and generation 2's own kernels in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import impls
from impls.backends import flash_attn

HOPPER = (9, 0)


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention with heads behind lengths, as flash-attn has them."""
    q, k, v = (x.transpose(-2, -3) for x in (q, k, v))
    return (torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v).transpose(-2, -3)


def packed(q: Tensor, k: Tensor, v: Tensor, *, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, **longest: int) -> Tensor:
    """The variable-length call, sequence by sequence. No sequence may be empty."""
    rows = [
        torch.tensor_split(x, at[1:-1].long()) for x, at in ((q, cu_seqlens_q), (k, cu_seqlens_k), (v, cu_seqlens_k))
    ]
    assert cu_seqlens_q.dtype == cu_seqlens_k.dtype == torch.int32
    assert cu_seqlens_q.diff().max() <= longest["max_seqlen_q"]
    assert 0 < cu_seqlens_k.diff().min() <= cu_seqlens_k.diff().max() <= longest["max_seqlen_k"]
    return torch.cat([plain(*row) for row in zip(*rows, strict=True)])


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("masked", ["not", "some", "all"])
def test_masked_keys_are_left_out_of_packed_sequences(
    batch: tuple[int, ...], masked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = SimpleNamespace(flash_attn_func=plain, flash_attn_varlen_func=packed)
    monkeypatch.setattr(flash_attn, "loaded", lambda package: kernels)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(*batch, 2, n, 8, generator=generator).double() for n in (4, 7, 7))
    mask = None
    if masked != "not":
        mask = torch.rand(*batch, 7, generator=generator) < (0.6 if masked == "some" else 0)
        mask.view(-1, 7)[-1] = False
        k, v = (x.masked_fill(~mask[..., None, :, None], torch.nan) for x in (k, v))
    got, expected = (
        gradients(attend, q, k, v, mask)
        for attend in (lambda *x: flash_attn.attend(flash_attn.FLASH_ATTN_2, *x), impls.reference.attention)
    )
    for x, y in zip(got, expected, strict=True):
        torch.testing.assert_close(x, y)


def gradients(attend: object, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> list[Tensor]:
    xs = [x.detach().requires_grad_() for x in (q, k, v)]
    o = attend(*xs, None, mask)
    return [o, *torch.autograd.grad(o.square().sum() + o.sum(), xs)]


INTERPRETED = """
import itertools, json, torch, impls
from impls.masks import make_mask

SHAPES = [((), 1, 5, 7, 16), ((3,), 2, 20, 23, 8), ((2, 2), 2, 1, 4, 16), ((2, 3), 1, 17, 33, 12)]
generator = torch.Generator().manual_seed(0)

def draw(*shape):
    return torch.randn(shape, generator=generator).half()

def results(name, q, k, v, mask, cotangent):
    xs = [x.detach().requires_grad_() for x in (q, k, v)]
    o = impls.get(name)(*xs, None, mask)
    return [o.detach(), *torch.autograd.grad(o, xs, cotangent.to(o.dtype))]

for (batch, H, Q, K, c), kind in itertools.product(SHAPES, ["none", "padding", "full_row"]):
    q, k, v, cotangent = (draw(*batch, H, n, c) for n in (Q, K, K, Q))
    mask = make_mask(kind, (*batch, K))
    if mask is not None:
        k, v = (x.masked_fill(~mask[..., None, :, None], torch.nan) for x in (k, v))
    exact = results("reference", q.double(), k.double(), v.double(), mask, cotangent)
    errors = {
        name: [float((x - y).abs().max()) for x, y in zip(results(name, q, k, v, mask, cotangent), exact)]
        for name in ("flash_attn", "eager")
    }
    print(json.dumps([[batch, H, Q, K, c, kind], errors["flash_attn"], errors["eager"]]))
"""


def test_kernels_of_generation_2_in_the_interpreter() -> None:
    for package in (flash_attn.FLASH_ATTN_2.distribution, "triton"):
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            pytest.skip(f"{package} is not installed")
    environment = os.environ | flash_attn.INTERPRETED
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    cases = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(cases) == 12
    for case, errors, yardstick in cases:
        for name, error, eager in zip(("o", "dq", "dk", "dv"), errors, yardstick, strict=True):
            assert error <= 2 * eager + 2e-3, (case, name, error, eager)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bias_shape": (1,)}, "takes no bias"),
        ({"dtype": "float32"}, "float16 and bfloat16 only"),
        ({"device": "cpu"}, "needs CUDA"),
    ],
)
@pytest.mark.parametrize("name", ["flash_attn", "flash_attn_3", "flash_attn_4"])
def test_limits_of_every_generation(name: str, changes: dict, words: str) -> None:
    base = {"batch": (2,), "H": 2, "Q": 4, "K": 5, "c": 32, "dtype": "float16", "device": "cuda"}
    assert words in "; ".join(impls.get(name).limits(impls.CoreProblem(**{**base, **changes})))


def test_interpreter_is_offered_on_a_cpu_and_refuses_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = impls.CoreProblem((2,), 2, 4, 5, 32, dtype="bfloat16")
    for name in flash_attn.INTERPRETED:
        monkeypatch.delenv(name, raising=False)
    assert "TRITON_INTERPRET=1" in "; ".join(flash_attn.interpreter_or_cuda(problem))
    for name, value in flash_attn.INTERPRETED.items():
        monkeypatch.setenv(name, value)
    assert "use float16" in "; ".join(flash_attn.interpreter_or_cuda(problem))


@pytest.mark.parametrize(
    ("rules", "capability", "changes", "words"),
    [
        (flash_attn.rules_2, (8, 0), {"c": 264}, "at most 256 wide"),
        (flash_attn.rules_2, (8, 0), {"batch": (256, 256)}, "65,536: at most 65,535"),
        (flash_attn.rules_2, (8, 0), {"batch": (65_535,), "H": 16, "training": True}, "at most 2^31"),
        (flash_attn.rules_3, (10, 0), {}, "Hopper GPUs"),
        (flash_attn.rules_3, HOPPER, {"c": 36}, "multiple of 8"),
        (flash_attn.rules_4, (8, 0), {"training": True}, "9.0 or newer"),
        (flash_attn.rules_4, (10, 0), {"c": 136}, "up to 128"),
        (flash_attn.rules_4, HOPPER, {"c": 36}, "multiple of 8"),
    ],
)
def test_rules_for_gpus(rules: object, capability: tuple[int, int], changes: dict, words: str) -> None:
    base = {"batch": (128,), "H": 8, "Q": 128, "K": 128, "c": 32, "dtype": "bfloat16", "device": "cuda"}
    assert list(rules(impls.CoreProblem(**base, training=True), HOPPER)) == []
    assert words in "; ".join(rules(impls.CoreProblem(**{**base, **changes}), capability))
