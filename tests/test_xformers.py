"""xFormers: alignment of the bias, and everything around the kernel with PyTorch's attention standing in for it."""

from __future__ import annotations

import sys
from itertools import product
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import impls
from impls.backends import xformers

N, H, Q = 2, 3, 4


def strides_fit(bias: Tensor) -> bool:
    """xFormers' own rule: all strides but the last are multiples of 8, and keys are dense."""
    return bias.stride(-1) <= 1 and not any(stride % 8 for stride in bias.stride()[:-1])


@pytest.mark.parametrize("K", [1, 7, 8, 43, 77])
@pytest.mark.parametrize("kept", list(product([True, False], repeat=4)), ids=str)
def test_every_broadcast_bias_is_aligned(K: int, kept: tuple[bool, ...]) -> None:
    scores = (N, H, Q, K)
    shape = [n if keep else 1 for n, keep in zip(scores, kept, strict=True)]
    values = torch.randn(shape)
    for bias in (
        values,
        torch.randn(shape[::-1]).permute(3, 2, 1, 0),
        torch.randn(*shape[:-1], shape[-1] + 1)[..., 1:],
    ):
        aligned = xformers.aligned(bias, scores)
        assert aligned.shape == scores
        assert strides_fit(aligned)
        assert torch.equal(aligned, bias.expand(scores))
        assert (
            aligned.untyped_storage().nbytes() <= bias.numel() / bias.shape[-1] * (K + 7) * 4 + 4 * values.numel() + 32
        )


def test_aligned_bias_is_not_copied_and_broadcast_axes_are_not_expanded() -> None:
    bias = torch.randn(1, H, Q, 16)
    aligned = xformers.aligned(bias, (N, H, Q, 16))
    assert aligned.untyped_storage().data_ptr() == bias.untyped_storage().data_ptr()
    assert aligned.stride(0) == 0


def stand_in(q: Tensor, k: Tensor, v: Tensor, attn_bias: Tensor | None = None) -> Tensor:
    """``memory_efficient_attention`` as xFormers documents it, refusing what its kernel would."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if attn_bias is not None:
        assert attn_bias.shape == (*q.shape[:-1], k.shape[-2])
        assert attn_bias.dtype == q.dtype
        assert strides_fit(attn_bias)
        assert not (attn_bias == -torch.inf).all(-1).any(), "a row without any key: the kernel's answer is not known"
        assert q.requires_grad or not attn_bias.requires_grad, "the bias's gradient would be lost"
    return F.scaled_dot_product_attention(q, k, v, attn_bias).transpose(1, 2)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(
    ("biased", "wanted"),
    [((H, Q, 7), "all"), ((H, Q, 7), "bias"), ((Q, 1), "all"), ((Q, 1), "bias"), (None, "all")],
    ids=str,
)
def test_around_the_kernel(
    batch: tuple[int, ...], masked: bool, biased: tuple[int, ...] | None, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xformers.ops", SimpleNamespace(memory_efficient_attention=stand_in))
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(*batch, H, n, 8, generator=generator) for n in (Q, 7, 7))
    bias = None if biased is None else torch.randn(biased, generator=generator)
    mask = torch.rand(*batch, 7, generator=generator) < 0.7 if masked else None
    if mask is not None:
        mask.view(-1, 7)[-1] = False
        k = k.masked_fill(~mask[..., None, :, None], torch.nan)
    if bias is not None:
        bias[..., 2, :] = -torch.inf
    leaves = [x for x in ([q, k, v, bias] if wanted == "all" else [bias]) if x is not None]
    for leaf in leaves:
        leaf.requires_grad_()
    got, expected = xformers.attend(q, k, v, bias, mask), impls.reference.attention(q, k, v, bias, mask).float()
    torch.testing.assert_close(got, expected)
    cotangent = torch.randn(got.shape, generator=generator)
    for x, y in zip(*(torch.autograd.grad(o, leaves, cotangent) for o in (got, expected)), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "capability", "words"),
    [
        ({"dtype": "float64"}, (9, 0), "takes float32"),
        ({"dtype": "bfloat16"}, (7, 5), "8.0 or newer"),
        ({"c": 12, "dtype": "float16"}, (8, 0), "multiple of 8"),
        ({"c": 6}, (8, 0), "multiple of 4"),
        ({"batch": (256, 256)}, (8, 0), "65,536: at most 65,535"),
        ({"mask": True, "dtype": "bfloat16"}, (10, 0), "newer than Hopper"),
        ({}, (10, 0), "newer than Hopper"),
    ],
)
def test_rules_for_gpus(changes: dict, capability: tuple[int, int], words: str) -> None:
    base = {"batch": (128,), "H": 8, "Q": 77, "K": 77, "c": 32, "device": "cuda", "training": True}
    full = {**base, "bias_shape": (8, 77, 77), "bias_grad": True, "mask": True}
    assert list(xformers.rules(impls.CoreProblem(**full), (9, 0))) == []
    assert words in "; ".join(xformers.rules(impls.CoreProblem(**{**base, **changes}), capability))


def test_a_cpu_is_refused_in_words() -> None:
    assert "needs CUDA" in "; ".join(impls.get("xformers").why_not(impls.CoreProblem((2,), 2, 4, 5, 8)))
