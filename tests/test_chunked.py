"""Tiles of every size give the same output and the same gradients, and nothing larger than a tile is ever made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import impls
from impls.backends.chunked import LOGITS_AT_ONCE, Tile, chunked_attention, sum_batch_, tile_for

N, H, Q, K, C = 3, 2, 11, 13, 4
LARGEST = LOGITS_AT_ONCE["cpu"]
SIZES = {"batch": (1, 2, N), "query": (1, 3, 7, Q - 1, Q, Q + 1), "key": (1, 3, 7, K - 1, K, K + 1)}
BIASES = [(1, H, Q, K), (N, 1, Q, K), (N, H, 1, K), (N, H, Q, 1), (1, 1, 1, K), (1, 1, 1, 1), (N, H, Q, K)]


def inputs(bias_shape: tuple[int, ...] = (1, H, Q, K), dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(N, H, Q, C), (N, H, K, C), (N, H, K, C), bias_shape]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def mask_with_empty_row() -> Tensor:
    mask = torch.rand(N, K, generator=torch.Generator().manual_seed(1)) < 0.7
    mask[1] = False
    return mask


def results(attend: Any, xs: list[Tensor], *rest: Any) -> list[Tensor]:
    """Output and gradients of all inputs, for one random cotangent."""
    xs = [x.detach().requires_grad_() for x in xs]
    o = attend(*xs, *rest)
    cotangent = torch.randn(o.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(o.dtype)
    return [o.detach(), *torch.autograd.grad(o, xs, cotangent)]


def same(got: list[Tensor], expected: list[Tensor], tolerance: float = 1e-12) -> None:
    for name, x, y in zip(("o", "dq", "dk", "dv", "dbias"), got, expected, strict=True):
        assert x.shape == y.shape, name
        torch.testing.assert_close(
            x.double(), y.double(), rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("tile", [Tile(*sizes) for sizes in product(*SIZES.values())], ids=str)
def test_output_and_gradients_do_not_depend_on_the_tile(tile: Tile) -> None:
    expected = results(impls.reference.attention, inputs(), mask_with_empty_row())
    same(results(chunked_attention, inputs(), mask_with_empty_row(), tile), expected)


@pytest.mark.parametrize("shape", BIASES, ids=str)
def test_gradient_of_a_broadcast_bias_has_the_bias_shape(shape: tuple[int, ...]) -> None:
    expected = results(impls.reference.attention, inputs(shape), mask_with_empty_row())
    same(results(chunked_attention, inputs(shape), mask_with_empty_row(), Tile(2, 4, 5)), expected)


def test_float32_bias_beside_bfloat16_is_differentiated_in_float32() -> None:
    q, k, v, bias = inputs()
    halves = [x.bfloat16() for x in (q, k, v)]
    got = results(chunked_attention, [*halves, bias.float()], None, Tile(1, 4, 5))
    assert [x.dtype for x in got] == [torch.bfloat16] * 4 + [torch.float32]
    expected = results(impls.reference.attention, [x.double() for x in halves] + [bias.float().double()], None)
    same(got, expected, tolerance=2e-2)


@pytest.mark.parametrize("constant", [-1e9, torch.finfo(torch.float32).min, 1e6])
def test_row_whose_bias_is_one_large_number_is_uniform_and_so_is_its_gradient(constant: float) -> None:
    q, k, v, bias = inputs(dtype=torch.float32)
    bias[..., 2, :] = constant
    got = results(chunked_attention, [q * 1e-3, k, v, bias], None, Tile(1, 4, 5))
    uniform = v.mean(-2)
    torch.testing.assert_close(got[0][:, :, 2], uniform, rtol=1e-2, atol=1e-2)
    # dv of a row of uniform weights is its cotangent over K, whatever else m + log(l) would have made of it
    _, _, _, dv, _ = results(chunked_attention, [q[:, :, 2:3] * 1e-3, k, v, bias[:, :, 2:3]], None, Tile(1, 1, 5))
    torch.testing.assert_close(dv, dv.mean(-2, keepdim=True).expand_as(dv), rtol=1e-2, atol=1e-2)
    assert dv.abs().sum() > 0


def test_bias_alone_can_require_a_gradient() -> None:
    q, k, v, bias = inputs()
    o = chunked_attention(q, k, v, bias.requires_grad_(), None, Tile(1, 4, 5))
    (dbias,) = torch.autograd.grad(o, bias, torch.ones_like(o))
    expected = impls.reference.attention(q, k, v, bias)
    torch.testing.assert_close(dbias, torch.autograd.grad(expected, bias, torch.ones_like(o))[0])


def test_unwritten_memory_reaches_nothing() -> None:
    expected = results(impls.reference.attention, inputs(), mask_with_empty_row())
    torch.use_deterministic_algorithms(True)  # so that torch.empty is filled with NaN
    try:
        for tile in (Tile(1, 4, 5), Tile(N, Q, K)):
            same(results(chunked_attention, inputs(), mask_with_empty_row(), tile), expected)
            halves = results(chunked_attention, inputs(dtype=torch.bfloat16), None, tile)
            assert all(x.isfinite().all() for x in halves)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8])
def test_sum_by_halves(length: int) -> None:
    x = torch.randn(length, 2, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(sum_batch_(x.clone()), x.sum(0, keepdim=True))


def test_second_derivatives_are_refused() -> None:
    xs = [x.requires_grad_() for x in inputs()]
    (dq,) = torch.autograd.grad(chunked_attention(*xs).square().sum(), xs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.sum().backward()


class Largest(TorchDispatchMode):
    """Counts operations and keeps the size of the largest storage that any of them returns."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.operations += 1
        sizes = [x.untyped_storage().nbytes() for x in tree_leaves(out) if isinstance(x, Tensor)]
        self.bytes = max([self.bytes, *sizes])
        return out


@pytest.mark.parametrize("length", [512, 1536])
def test_nothing_is_larger_than_a_tile_or_an_input(length: int) -> None:
    q, k, v = (torch.randn(2, 4, length, 8, requires_grad=True) for _ in range(3))
    mask = torch.ones(2, length, dtype=torch.bool)
    with Largest() as seen:
        chunked_attention(q, k, v, None, mask).sum().backward()
    assert seen.bytes <= max(LARGEST, q.numel()) * 4 < q.shape[0] * q.shape[1] * length**2 * 4


def problems() -> Iterator[tuple[int, int, int, int, int]]:
    return product((1, 128, 65_536), (1, 8, 16), (1, 8, 256, 5120), (1, 4, 256, 5120), (8, 32))


def test_tiles_fit_in_cache_and_are_not_needlessly_small() -> None:
    for n, h, q_length, k_length, c in problems():
        with FakeTensorMode():
            tile = tile_for(torch.empty(n, h, q_length, c), torch.empty(n, h, k_length, c))
        logits = h * math.prod(tile)
        everything = n * h * q_length * k_length
        assert logits <= LARGEST
        assert min(everything, LARGEST) <= 4 * logits


def test_column_attention_over_5120_sequences_is_predicted_without_computing_it() -> None:
    shape = (300, 8, 5120, 32)
    with FakeTensorMode(), Largest() as seen:
        q, k, v = (torch.empty(shape, requires_grad=True) for _ in range(3))
        chunked_attention(q, k, v).sum().backward()
        assert q.grad is not None
        assert q.grad.shape == shape
    assert seen.operations < 3000
    assert seen.bytes == math.prod(shape) * 4
