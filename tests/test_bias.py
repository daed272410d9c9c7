"""Priors: each as its publication defines it, written out again or worked by hand, and through every backend."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import partial
from itertools import accumulate

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import impls
from impls.backends import flex
from impls.bias import (
    Prior,
    RelPos,
    T5RelativeBias,
    alibi,
    alibi_slopes,
    bucket_starts,
    causal,
    padding,
    relative_positions,
)

H, L, C = 3, 20, 16
INF = math.inf


def test_relative_positions_are_key_minus_query() -> None:
    assert relative_positions(torch.tensor([0, 1, 5])).tolist() == [[0, 1, 5], [-1, 0, 4], [-5, -4, 0]]
    assert relative_positions(torch.tensor([2]), torch.tensor([0, 1, 2, 3])).tolist() == [[-2, -1, 0, 1]]


# ALiBi ---------------------------------------------------------------------------------------------------------------
def test_alibi_of_two_heads_by_hand() -> None:
    relative = relative_positions(torch.arange(3))
    first = [[0, -1 / 16, -2 / 16], [-1 / 16, 0, -1 / 16], [-2 / 16, -1 / 16, 0]]
    second = [[0, -1 / 256, -2 / 256], [-1 / 256, 0, -1 / 256], [-2 / 256, -1 / 256, 0]]
    assert alibi(relative, N_head=2).tolist() == [first, second]
    published = [[0, -INF, -INF], [-1 / 16, 0, -INF], [-2 / 16, -1 / 16, 0]]
    assert (alibi(relative, N_head=2) + causal(relative))[0].tolist() == published


def test_alibi_slopes_as_published() -> None:
    """Section 3: 8 heads have 1/2, 1/4, ..., 1/256; 16 heads also the geometric means between them."""
    assert alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert alibi_slopes(16) == pytest.approx([2 ** (-k / 2) for k in range(1, 17)])
    assert alibi_slopes(12) == pytest.approx([*alibi_slopes(8), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
    assert alibi_slopes(1) == [1 / 256]


@pytest.mark.parametrize("n", range(1, 40))
def test_other_numbers_of_heads_borrow_every_other_slope_of_twice_as_many(n: int) -> None:
    def slopes(n: int) -> list[float]:
        """A geometric series that begins with its ratio, 2^(-8/n); of other numbers, by recursion."""
        if n & (n - 1) == 0:
            return list(accumulate([2 ** (-8 / n)] * n, lambda x, y: x * y))
        p = max(2**k for k in range(n) if 2**k < n)
        return slopes(p) + slopes(2 * p)[0::2][: n - p]

    assert len(alibi_slopes(n)) == n
    assert alibi_slopes(n) == pytest.approx(slopes(n))


def test_no_heads() -> None:
    with pytest.raises(ValueError, match="N_head=0"):
        alibi_slopes(0)


# T5 ------------------------------------------------------------------------------------------------------------------
def test_t5_buckets_by_hand() -> None:
    """32 buckets up to 128, in both directions: the starts are 8 x 2^(k/2), those of decoders 16 x 8^(k/16)."""
    assert bucket_starts(16, 128) == (*range(1, 9), 12, 16, 23, 32, 46, 64, 91)
    beyond = (19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113)
    assert bucket_starts(32, 128) == (*range(1, 17), *beyond)
    both, before = T5RelativeBias(H), T5RelativeBias(H, bidirectional=False)
    relative = torch.tensor([-1000, -91, -90, -8, -7, -1, 0, 1, 7, 8, 11, 12, 90, 91, 1000])
    assert both.bucket(relative).tolist() == [15, 15, 14, 8, 7, 1, 0, 17, 23, 24, 24, 25, 30, 31, 31]
    assert before.bucket(relative).tolist() == [31, 29, 29, 8, 7, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]


def published_bucket(relative: int, bidirectional: bool, buckets: int, max_distance: int) -> int:
    """Section 2.1 in words and the authors' code in logarithms, here of fifty digits: equals are equal."""
    later, distance = 0, max(-relative, 0)
    if bidirectional:
        buckets //= 2
        later, distance = buckets * (relative > 0), abs(relative)
    exact = buckets // 2
    if distance < exact:
        return later + distance
    with localcontext() as context:
        context.prec = 50
        share = (Decimal(distance) / exact).ln() / (Decimal(max_distance) / exact).ln()
        return later + min(exact + int(round(share * (buckets - exact), 40)), buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (32, 256), (64, 128), (12, 50), (16, 20)])
def test_t5_buckets_are_those_of_the_published_formula(bidirectional: bool, buckets: int, max_distance: int) -> None:
    relative = torch.arange(-300, 301)
    prior = T5RelativeBias(1, bidirectional=bidirectional, buckets=buckets, max_distance=max_distance)
    expected = [published_bucket(r, bidirectional, buckets, max_distance) for r in relative.tolist()]
    assert prior.bucket(relative).tolist() == expected
    assert max(expected) == buckets - 1


def test_t5_reads_its_table() -> None:
    prior = T5RelativeBias(H)
    table = prior.state_dict()["relative_attention_bias.weight"]
    assert table.shape == (32, H)
    bias = prior(relative_positions(torch.arange(L)))
    for h, i, j in ((0, 0, 0), (1, 3, 19), (2, 19, 0), (1, 7, 6)):
        assert bias[h, i, j] == table[published_bucket(j - i, True, 32, 128), h]


@pytest.mark.parametrize("wrong", [{"buckets": 2}, {"max_distance": 8}, {"buckets": 1, "bidirectional": False}])
def test_t5_refuses_what_leaves_no_room(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"buckets=.*, max_distance=.*: expected"):
        T5RelativeBias(H, **wrong)


# AlphaFold 2's relative positions ------------------------------------------------------------------------------------
def test_relpos_is_algorithm_4() -> None:
    """Residues 0, 1, 2 and, beyond a gap, 50: a column of the layer for every clipped i - j, and its bias."""
    residue_index = [0, 1, 2, 50]
    prior = RelPos(c_z=5, N_head=H)
    weight, offset, heads = prior.linear_relpos.weight, prior.linear_relpos.bias, prior.linear_z.weight
    assert weight.shape == (5, 65)
    relative = relative_positions(torch.tensor(residue_index))
    pair, bias = prior.pair(relative), prior(relative)
    assert (pair.shape, bias.shape) == ((4, 4, 5), (H, 4, 4))
    for i, at_i in enumerate(residue_index):
        for j, at_j in enumerate(residue_index):
            p = weight[:, min(max(at_i - at_j, -32), 32) + 32] + offset
            torch.testing.assert_close(pair[i, j], p)
            torch.testing.assert_close(bias[:, i, j], heads @ p)
    assert torch.equal(pair[0, 3], pair[1, 3])  # -50 and -49 are both in the last bin
    assert not torch.equal(pair[0, 1], pair[1, 0])


# Padding -------------------------------------------------------------------------------------------------------------
def test_padding_as_a_bias_is_the_mask() -> None:
    q, k, v = (torch.randn(2, 3, H, L, C, dtype=torch.float64) for _ in range(3))
    mask = torch.arange(L) < torch.tensor([[20, 7, 1], [0, 13, 19]])[..., None]
    assert padding(mask).shape == (2, 3, 1, 1, L)
    for backend in (impls.get("reference"), impls.get("eager")):
        torch.testing.assert_close(backend(q, k, v, padding(mask)), backend(q, k, v, None, mask))
        assert not backend(q, k, v, padding(mask))[1, 0].any()


# Through every backend -----------------------------------------------------------------------------------------------
def seeded(prior: torch.nn.Module) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(1)
    for parameter in prior.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    return prior


PRIORS: dict[str, Callable[[Tensor], Tensor]] = {
    "alibi": partial(alibi, N_head=H),
    "alibi, causal": lambda relative: alibi(relative, H) + causal(relative),
    "t5": seeded(T5RelativeBias(H)),
    "t5, causal": lambda relative: seeded(T5RelativeBias(H, bidirectional=False))(relative) + causal(relative),
    "relpos": seeded(RelPos(8, H)),
    "padding": lambda relative: alibi(relative, H) + padding(torch.arange(L) < L - 5)[0],
}
INPUTS = [torch.randn(2, H, L, C, generator=torch.Generator().manual_seed(2)) for _ in range(4)]


def unless_refused(backend: impls.Backend, **changes: bool) -> None:
    problem = impls.CoreProblem((2,), H, L, L, C, bias_shape=(H, L, L), **changes)
    if reasons := backend.why_not(problem):
        pytest.skip(f"{backend.name}: {'; '.join(reasons)}")


@pytest.mark.parametrize("name", impls.names())
@pytest.mark.parametrize("prior", PRIORS)
def test_every_backend_takes_every_prior(name: str, prior: str) -> None:
    backend = impls.get(name)
    unless_refused(backend)
    q, k, v, _ = INPUTS
    with torch.no_grad():
        bias = PRIORS[prior](relative_positions(torch.arange(L))).contiguous()  # one layout: code is built once
        assert bias.shape == (H, L, L)
        torch.testing.assert_close(backend(q, k, v, bias), impls.reference.attention(q, k, v, bias).float())


@pytest.mark.parametrize("name", impls.names())
@pytest.mark.parametrize("prior", ["t5", "relpos"])
def test_learned_tables_get_their_gradients_from_every_backend(name: str, prior: str) -> None:
    backend = impls.get(name)
    unless_refused(backend, bias_grad=True)
    q, k, v, cotangent = INPUTS
    learned = PRIORS[prior]
    assert isinstance(learned, torch.nn.Module)
    parameters = list(learned.parameters())

    def gradients(attend: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        o = attend(q, k, v, learned(relative_positions(torch.arange(L))))
        return torch.autograd.grad(o, parameters, cotangent.to(o.dtype))

    expected = gradients(impls.reference.attention)
    assert max(gradient.abs().max() for gradient in expected) > 0.1
    torch.testing.assert_close(gradients(backend), expected, rtol=1e-4, atol=1e-4)


# By index ------------------------------------------------------------------------------------------------------------
LONG = 1200
BY_INDEX: dict[str, Prior] = {
    "alibi": partial(alibi, N_head=2),
    "t5": seeded(T5RelativeBias(2)),
    "t5, causal": lambda relative: seeded(T5RelativeBias(2, bidirectional=False))(relative) + causal(relative),
}


@torch.no_grad()
@pytest.mark.parametrize("prior", BY_INDEX)
def test_by_index_it_is_the_same_and_nothing_as_large_as_the_logits_is_made(prior: str) -> None:
    backend = flex.with_prior(BY_INDEX[prior])
    shapes = {"q": LONG, "k": LONG - 7, "v": LONG - 7}
    if reasons := backend.why_not(impls.CoreProblem((), 2, LONG, LONG - 7, 16)):
        pytest.skip("; ".join(reasons))
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, n, 16, generator=generator) for n in shapes.values())

    def materialised() -> Tensor:
        bias = BY_INDEX[prior](relative_positions(torch.arange(LONG), torch.arange(LONG - 7)))
        return impls.get("eager")(q, k, v, bias)

    torch.testing.assert_close(backend(q, k, v), materialised())
    logits_of_a_head = LONG * (LONG - 7) * 4
    assert peak_bytes(lambda: backend(q, k, v)) < logits_of_a_head / 2
    assert peak_bytes(materialised) > 2 * logits_of_a_head


def peak_bytes(call: Callable[[], Tensor]) -> int:
    """Bytes allocated at once during one call, as PyTorch's allocator reports them."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    assert seen.profiler is not None
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))


@torch.no_grad()
def test_by_index_under_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uncompiled, which is slow and right: what is tested is where the prior goes."""
    monkeypatch.setattr(flex, "compiled_for", lambda function, shapes: function)
    prior = PRIORS["t5"]
    by_index = impls.evoformer.MultiHeadAttention(8, C, H, attn_dim=-2, backend=flex.with_prior(prior))
    plain = impls.evoformer.MultiHeadAttention(8, C, H, attn_dim=-2)
    plain.load_state_dict(by_index.state_dict())
    x, mask = torch.randn(2, 3, L, 8), torch.arange(L) < torch.tensor([20, 9, 1])[:, None].expand(2, 3, 1)
    unless_refused(by_index.backend)
    expected = plain(x, prior(relative_positions(torch.arange(L))), attention_mask=mask)
    torch.testing.assert_close(by_index(x, attention_mask=mask), expected, rtol=1e-4, atol=1e-5)


def test_by_index_refuses_what_it_cannot_do() -> None:
    q, k, v, _ = INPUTS
    shared = impls.CoreProblem((2,), H, L, L, C, H_kv=1)
    assert any("expand them" in reason for reason in flex.with_prior(PRIORS["alibi"]).why_not(shared))
    unless_refused(impls.get("flex"))
    with pytest.raises(ValueError, match="the prior has 5 heads, q has 3"):
        flex.with_prior(partial(alibi, N_head=5))(q, k, v)
    with pytest.raises(impls.UnsupportedProblem, match="no backward pass on CPUs"):
        flex.with_prior(PRIORS["t5"])(q, k, v)
