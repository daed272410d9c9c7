"""Leading axes split into entries with a bias of their own, and the rows that share it."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import impls
from impls.rows import over_rows, rows_without_keys

eager = impls.get("eager")
BATCHES = [(), (3,), (2, 3), (2, 1, 3)]


def biases(batch: tuple[int, ...]) -> list[tuple[int, ...] | None]:
    """Every way in which a bias varies along ``batch``, heads and queries; and no bias."""
    axes = (*batch, 2, 4)
    full = [(*(n if kept else 1 for n, kept in zip(axes, keep, strict=True)), 5) for keep in kinds(len(axes))]
    return [None, (5,), (4, 5), *full]


def kinds(n: int) -> list[tuple[bool, ...]]:
    return list(itertools.product((False, True), repeat=n))


@pytest.mark.parametrize(
    ("batch", "bias_shape"), [(batch, shape) for batch in BATCHES for shape in biases(batch)], ids=str
)
@pytest.mark.parametrize("masked", [None, "every row", "one for all"])
def test_every_split_gives_the_same_attention(
    batch: tuple[int, ...], bias_shape: tuple[int, ...] | None, masked: str | None
) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(*batch, 2, n, 3, generator=generator) for n in (4, 5, 5))
    bias = None if bias_shape is None else torch.randn(bias_shape, generator=generator)
    mask = None if masked is None else torch.rand(*(batch if masked == "every row" else ()), 5) < 0.7
    calls = []

    def kernel(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        B, N, H, Q, _ = q.shape
        calls.append((B, N))
        assert bias is None or (bias.shape[:2] == (B, 1) and torch.broadcast_shapes(bias.shape[2:], (H, Q, 5)))
        assert mask is None or mask.shape == (B, N, 5)
        return eager(q, k, v, bias, mask)

    torch.testing.assert_close(over_rows(kernel, q, k, v, bias, mask), eager(q, k, v, bias, mask))
    assert sum(B * N for B, N in calls) == q.shape[:-3].numel()


@pytest.mark.parametrize(
    ("batch", "bias_shape", "called"),
    [
        ((2, 3), (2, 1, 4, 5), [(2, 3)]),  # for every entry of B one bias, for all rows: one call
        ((2, 3), (1, 1, 4, 5), [(1, 6)]),
        ((2, 3), (2, 3, 4, 5), [(6, 1)]),
        ((2, 3), (1, 3, 4, 5), [(3, 1), (3, 1)]),  # would have to be copied: a call for each entry
    ],
)
def test_a_shared_bias_is_not_copied(
    batch: tuple[int, ...], bias_shape: tuple[int, ...], called: list[tuple[int, int]]
) -> None:
    calls = []

    def kernel(q: Tensor, *rest: Tensor | None) -> Tensor:
        calls.append(tuple(q.shape[:2]))
        return q

    bias = torch.zeros(*bias_shape[:-2], 1, *bias_shape[-2:])
    q, k = torch.zeros(*batch, 2, 4, 3), torch.zeros(*batch, 2, 5, 3)
    over_rows(kernel, q, k, k, bias, None)
    assert calls == called


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("spans", [kind for kind in kinds(3) if kind[-1]] + [None], ids=str)
def test_rows_without_keys_are_those_whose_every_logit_is_hidden(spans: tuple[bool, ...] | None, masked: bool) -> None:
    B, N, H, Q, K = 2, 3, 2, 4, 5
    generator = torch.Generator().manual_seed(0)
    bias = mask = None
    if spans is not None:
        shape = (B, 1, *(n if span else 1 for n, span in zip((H, Q, K), spans, strict=True)))
        hidden = torch.rand(shape, generator=generator) < 0.5
        hidden[0], hidden[1, 0, 0, 0] = False, True
        bias = torch.zeros(shape).masked_fill(hidden, -torch.inf)
    if masked or spans is None:
        mask = torch.rand(B, N, K, generator=generator) < 0.5
        mask[0], mask[1, 0] = True, False
    logits = torch.zeros(B, N, H, Q, K)
    logits = logits if bias is None else logits + bias
    logits = logits if mask is None else logits.masked_fill(~mask[:, :, None, None], -torch.inf)
    expected = logits.isinf().all(-1, keepdim=True)
    assert 0 < expected.sum() < expected.numel()
    assert torch.equal(rows_without_keys(bias, mask).expand_as(expected), expected)
