"""Leading axes become one without a copy of the bias; bias and mask become one tensor as late and small as can be."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from impls.layout import bias_or_mask, over_one_batch_axis, readable, recording, with_open_rows

H, Q, K, C = 2, 3, 4, 8
SHAPES = [  # leading axes, bias, mask, what each call of the kernel is given
    ((), (H, Q, K), (K,), [(1, (1, H, Q, K), (1, K))]),
    ((5,), (1, H, Q, K), (5, K), [(5, (1, H, Q, K), (5, K))]),
    ((1, 5), (1, 1, H, Q, K), (1, 5, K), [(5, (1, H, Q, K), (5, K))]),
    ((2, 5), (2, 1, H, Q, K), (2, 5, K), [(5, (1, H, Q, K), (5, K))] * 2),
    ((2, 5), (5, 1, Q, K), (2, 1, K), [(5, (5, 1, Q, K), (1, K))] * 2),
    ((2, 5), (2, 5, H, Q, 1), (1, 1, K), [(10, (10, H, Q, 1), (1, K))]),
    ((2, 5), (Q, K), (5, K), [(10, (1, 1, Q, K), (10, K))]),
    ((2, 3, 5), (2, 1, 5, H, Q, K), None, [(5, (5, H, Q, K), None)] * 6),
]


@pytest.mark.parametrize(("batch", "bias", "mask", "calls"), SHAPES, ids=lambda x: str(x).replace(" ", ""))
def test_kernel_sees_one_batch_axis_and_an_unexpanded_bias(batch, bias, mask, calls) -> None:
    seen = []

    def kernel(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        seen.append((q.shape[0], *(None if x is None else tuple(x.shape) for x in (bias, mask))))
        logits = q @ k.mT + bias
        return torch.softmax(logits if mask is None else logits.masked_fill(~mask[:, None, None], -1e9), -1) @ v

    q, k, v = (torch.randn(*batch, H, n, C) for n in (Q, K, K))
    b, m = torch.randn(bias), None if mask is None else torch.rand(mask) < 0.5
    o = over_one_batch_axis(kernel, q, k, v, b, m)
    assert seen == calls
    logits = q @ k.mT + b
    expected = torch.softmax(logits if m is None else logits.masked_fill(~m[..., None, None, :], -1e9), -1) @ v
    torch.testing.assert_close(o, expected)


def test_one_of_bias_and_mask_stays_as_small_as_it_came() -> None:
    bias, mask = torch.randn(1, H, Q, K), torch.ones(5, K, dtype=torch.bool)
    assert bias_or_mask(bias, None) is bias
    assert bias_or_mask(None, mask).shape == (5, 1, 1, K)
    assert bias_or_mask(bias, mask[:1]).shape == bias.shape
    assert bias_or_mask(bias, mask).shape == (5, H, Q, K)


def test_rows_that_allow_nothing_are_opened_and_named() -> None:
    mask = torch.tensor([[[[True, False]]], [[[False, False]]]])
    opened, empty = with_open_rows(mask)
    assert opened.squeeze().tolist() == [[True, False], [True, True]]
    assert empty.flatten().tolist() == [False, True]
    bias = torch.tensor([[1.0, -torch.inf], [-torch.inf, -torch.inf]])[None, None].requires_grad_()
    opened, empty = with_open_rows(bias)
    assert opened[0, 0].tolist() == [[1.0, -torch.inf], [0.0, 0.0]]
    assert empty.flatten().tolist() == [False, True]
    opened.sum().backward()
    assert bias.grad[0, 0].tolist() == [[1, 1], [0, 0]]


def test_readable_copies_only_what_a_kernel_cannot_read() -> None:
    x = torch.randn(4, 8)
    assert readable(x) is x
    assert readable(x[1:]).data_ptr() == x[1:].data_ptr()
    for unreadable in (x.T, x[:, 1:], x.expand(2, 4, 8).transpose(-1, -2)):
        copy = readable(unreadable)
        assert copy.stride(-1) == 1
        assert copy.storage_offset() == 0
        assert torch.equal(copy, unreadable)


def test_recording_marks_queries_beside_a_bias_that_requires_a_gradient() -> None:
    q, bias = torch.randn(2, 3), torch.randn(2, 3, requires_grad=True)
    assert recording(q, bias).requires_grad
    assert not q.requires_grad
    assert recording(q, bias.detach()) is q
    assert recording(q, None) is q
