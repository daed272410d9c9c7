"""Each name runs the kernel it says, and what a CUDA kernel cannot do is said beforehand, with the way out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

import impls
from impls import CoreProblem
from impls.backends import sdpa
from impls.cuda import on_cuda

BASE = {"batch": (128,), "H": 8, "Q": 256, "K": 256, "c": 32, "dtype": "bfloat16", "device": "cuda"}
BIAS = {"bias_shape": (1, 8, 256, 256)}
AMPERE, ADA, HOPPER, TURING = (8, 0), (8, 9), (9, 0), (7, 5)


def problem(**changes: object) -> CoreProblem:
    return CoreProblem(**{**BASE, **changes})


def kernels_run(name: str, **inputs: torch.Tensor | None) -> set[str]:
    q, k, v = (torch.randn(2, 3, 2, 5, 8) for _ in range(3))
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        impls.get(name)(q, k, v, **inputs)
    return {event.key.removeprefix("aten::_scaled_dot_product_") for event in seen.key_averages()}


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("sdpa_math", "attention_math"), ("sdpa_flash", "flash_attention_for_cpu"), ("sdpa", "flash_attention_for_cpu")],
)
@pytest.mark.parametrize("bias", [None, (2, 5, 5), (2, 1, 2, 5, 5)], ids=str)
def test_a_name_runs_its_kernel(name: str, kernel: str, bias: tuple[int, ...] | None) -> None:
    run = kernels_run(name, bias=None if bias is None else torch.randn(bias), mask=torch.rand(3, 5) < 0.8)
    assert run & {"attention_math", "flash_attention_for_cpu"} == {kernel}


def test_flash_on_a_cpu_refuses_the_gradient_of_a_bias() -> None:
    q = torch.randn(2, 3, 4, 8)
    with pytest.raises(impls.UnsupportedProblem, match=r"no gradient of the bias: use sdpa_math or chunked"):
        impls.get("sdpa_flash")(q, q, q, torch.randn(3, 4, 4, requires_grad=True))


def test_flash_on_a_cpu_takes_a_trainable_bias_where_no_gradient_is_recorded() -> None:
    q, bias = torch.randn(2, 3, 4, 8), torch.randn(3, 4, 4, requires_grad=True)
    with torch.no_grad():
        o = impls.get("sdpa_flash")(q, q, q, bias)
        torch.testing.assert_close(o, impls.get("eager")(q, q, q, bias))


def test_masks_reach_the_kernel_small(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    kernel = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F,
        "scaled_dot_product_attention",
        lambda *a, attn_mask=None: seen.append(attn_mask) or kernel(*a, attn_mask=attn_mask),
    )
    q = torch.randn(7, 5, 2, 3, 8)
    bias, mask = torch.randn(1, 1, 2, 3, 3), torch.ones(7, 5, 3, dtype=torch.bool)
    impls.get("sdpa")(q, q, q, bias)
    impls.get("sdpa")(q, q, q, None, mask)
    impls.get("sdpa")(q, q, q, bias, mask[:1, :1])
    assert [tuple(x.shape) for x in seen] == [(1, 2, 3, 3), (35, 1, 1, 3), (1, 2, 3, 3)]
    assert seen[0].untyped_storage().data_ptr() == bias.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", ["sdpa_efficient", "sdpa_cudnn"])
def test_cuda_kernels_refuse_other_devices(name: str) -> None:
    (reason,) = impls.get(name).why_not(problem(device="cpu"))
    assert reason.startswith("needs CUDA")
    if not torch.cuda.is_available():
        assert impls.get(name).why_not(problem()) == ["needs CUDA, which PyTorch does not find on this machine"]


def test_older_gpus_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: TURING)
    (reason,) = on_cuda(sdpa.flash_rules, oldest=AMPERE)(problem())
    assert "8.0 or newer; this one has 7.5" in reason
    assert list(on_cuda(sdpa.efficient_rules, oldest=(5, 0))(problem(dtype="float16"))) == []


FINE: list[tuple[Callable, dict, tuple[int, int]]] = [
    (sdpa.flash_rules, {"training": True}, AMPERE),
    (sdpa.flash_rules, {"c": 224}, ADA),
    (sdpa.efficient_rules, {**BIAS, "mask": True, "training": True, "bias_grad": True, "dtype": "float16"}, TURING),
    (sdpa.efficient_rules, {"batch": (256, 256), "Q": 1, "K": 4, "c": 16, "dtype": "float32"}, HOPPER),
    (sdpa.efficient_rules, {"Q": 65_536, "K": 65_536, "bias_shape": (1, 65_536, 65_536)}, HOPPER),
    (sdpa.efficient_rules, {"Q": 65_537, "K": 65_536, "bias_shape": (8, 1, 65_536), "mask": True}, HOPPER),
    (sdpa.cudnn_rules, {**BIAS, "mask": True, "training": True}, HOPPER),
    (sdpa.cudnn_rules, {"K": 64, "Q": 64, "training": True}, HOPPER),
]
REFUSED: list[tuple[Callable, dict, tuple[int, int], str]] = [
    (sdpa.flash_rules, {"dtype": "float32"}, AMPERE, "float16 and bfloat16 only"),
    (sdpa.flash_rules, {"mask": True}, AMPERE, "neither bias nor mask"),
    (sdpa.flash_rules, BIAS, AMPERE, "neither bias nor mask"),
    (sdpa.flash_rules, {"c": 264}, AMPERE, "at most 256 wide"),
    (sdpa.flash_rules, {"c": 224, "training": True}, ADA, "193 to 224"),
    (sdpa.flash_rules, {"batch": (256, 256)}, AMPERE, "65,536: at most 65,535"),
    (sdpa.flash_rules, {"batch": (65_535,), "H": 16, "Q": 1, "training": True}, AMPERE, "at most 2^31"),
    (sdpa.efficient_rules, {"dtype": "float64"}, AMPERE, "use sdpa_math"),
    (sdpa.efficient_rules, {"c": 12}, AMPERE, "multiple of 8"),
    (sdpa.efficient_rules, {"c": 6, "dtype": "float32"}, AMPERE, "multiple of 4"),
    (sdpa.efficient_rules, {"H": 65_536}, AMPERE, "65,536 heads"),
    (sdpa.efficient_rules, {"Q": 65_537, "K": 65_536, "bias_shape": (1, 65_537, 65_536)}, HOPPER, "pytorch#187227"),
    (sdpa.efficient_rules, {}, TURING, "8.0 or newer"),
    (sdpa.cudnn_rules, {"dtype": "float32"}, HOPPER, "float16 and bfloat16 only"),
    (sdpa.cudnn_rules, {"c": 136}, HOPPER, "up to 128"),
    (sdpa.cudnn_rules, {"K": 1}, HOPPER, "one key"),
    (sdpa.cudnn_rules, {"batch": (256, 256)}, HOPPER, "65,536: at most 65,535"),
    (sdpa.cudnn_rules, {**BIAS, "bias_grad": True}, HOPPER, "no gradient of the bias"),
    (sdpa.cudnn_rules, {"K": 192, "Q": 192, "training": True, "mask": True}, HOPPER, "pytorch#196678"),
]


@pytest.mark.parametrize(("rules", "changes", "gpu"), FINE)
def test_rules_for_gpus_allow(rules: Callable, changes: dict, gpu: tuple[int, int]) -> None:
    assert list(rules(problem(**changes), gpu)) == []


@pytest.mark.parametrize(("rules", "changes", "gpu", "words"), REFUSED)
def test_rules_for_gpus_refuse(rules: Callable, changes: dict, gpu: tuple[int, int], words: str) -> None:
    assert words in "; ".join(rules(problem(**changes), gpu))


def test_cudnn_refuses_where_results_must_repeat() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert "not deterministic" in "; ".join(sdpa.cudnn_rules(problem(), HOPPER))
    finally:
        torch.use_deterministic_algorithms(False)


def test_batch_of_65536_is_right_on_a_cpu() -> None:
    q, k, v = torch.randn(1, 256, 256, 4, 1, 16), *torch.randn(2, 1, 256, 256, 4, 4, 16)
    expected = impls.get("eager")(q, k, v)
    for name in ("sdpa", "sdpa_flash", "chunked"):
        torch.testing.assert_close(impls.get(name)(q, k, v), expected)


@pytest.mark.parametrize("name", ["sdpa", "sdpa_math", "sdpa_flash"])
def test_a_float32_bias_beside_float64(name: str) -> None:
    q, k, v = torch.randn(3, 2, 3, 17, 16).double()
    bias = torch.randn(2, 3, 17, 17)
    torch.testing.assert_close(impls.get(name)(q, k, v, bias), impls.get("reference")(q, k, v, bias))
