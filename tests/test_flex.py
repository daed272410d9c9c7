"""FlexAttention reads bias and mask by index, along whichever axes they are broadcast."""

from __future__ import annotations

from itertools import accumulate, product

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import impls
from impls.backends import flex
from impls.conformance.cases import Case
from impls.conformance.quirks import window

SHAPE = (2, 3, 2, 4, 5)  # two leading axes, heads, queries, keys


@pytest.mark.parametrize("kept", list(product([True, False], repeat=len(SHAPE))), ids=str)
def test_entry_is_that_of_the_expanded_tensor(kept: tuple[bool, ...]) -> None:
    x = torch.randn([n if keep else 1 for n, keep in zip(SHAPE, kept, strict=True)])
    n, head, query, key = torch.meshgrid(*(torch.arange(size) for size in (6, *SHAPE[2:])), indexing="ij")
    read = flex.entry(x, *flex.along_axes(n, SHAPE[:2]), head, query, key)
    assert torch.equal(read, x.expand(SHAPE).flatten(0, 1))


def test_compiled_with_a_bias_that_no_flattening_could_keep_small() -> None:
    backend = impls.get("flex")
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 2, n, 16, generator=generator) for n in (20, 23, 23))
    bias = torch.randn(2, 1, 2, 20, 23, generator=generator, requires_grad=True)
    mask = torch.rand(2, 3, 23, generator=generator) < 0.7
    mask[1, 2] = False
    k = k.masked_fill(~mask[:, :, None, :, None], torch.nan)
    if reasons := backend.why_not(impls.CoreProblem((2, 3), 2, 20, 23, 16, bias_shape=(2, 1, 2, 20, 23), mask=True)):
        pytest.skip("; ".join(reasons))
    with torch.no_grad():
        bias[:, :, :, 3] = -torch.inf
        o = backend(q, k, v, bias, mask)
    torch.testing.assert_close(o, impls.reference.attention(q, k, v, bias.detach(), mask).float())
    assert not o[1, 2].any()
    assert not o[:, :, :, 3].any()


@pytest.mark.parametrize("which", ["bias", "mask"])
def test_no_axis_of_bias_or_mask_need_follow_memory(which: str) -> None:
    """Found by ``make fuzz``: every second element of a larger tensor cannot be compiled as it stands."""
    inputs = Case("values", (2,), 2, 3, 5, 16, (2, 2, 3, 5), "random").inputs()
    spread = window(getattr(inputs, which), slice(None, None, 2), lambda n: 2 * n)
    if reasons := impls.get("flex").why_not(impls.CoreProblem((2,), 2, 3, 5, 16, bias_shape=(2, 2, 3, 5), mask=True)):
        pytest.skip("; ".join(reasons))
    o = impls.get("flex")(*inputs._replace(**{which: spread})[:5])
    torch.testing.assert_close(o, impls.get("eager")(*inputs[:5]))


@pytest.mark.parametrize("masked", [True, False])
def test_memory_is_the_closed_form_but_for_what_threads_keep(masked: bool) -> None:
    problem = impls.CoreProblem((512,), 2, 20, 23, 16, mask=masked)
    if reasons := impls.get("flex").why_not(problem):
        pytest.skip("; ".join(reasons))
    q, k, v = (torch.randn(512, 2, n, 16) for n in (20, 23, 23))
    mask = torch.rand(512, 23) < 0.7 if masked else None
    impls.get("flex")(q, k, v, None, mask)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        impls.get("flex")(q, k, v, None, mask)
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    peak = max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))
    expected = flex.bytes_beyond_inputs(problem)
    assert expected == q.nbytes + (1 + masked) * (k.nbytes + v.nbytes)
    assert expected <= peak < 1.1 * expected


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"training": True}, "no backward pass on CPUs"),
        ({"bias_shape": (1,), "bias_grad": True}, "no backward pass on CPUs"),
        ({"dtype": "float64"}, "no float64"),
    ],
)
def test_limits_on_a_cpu(changes: dict, words: str) -> None:
    assert words in "; ".join(flex.limits(impls.CoreProblem((2,), 2, 4, 5, 8, **changes)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "float64"}, "no float64"),
        ({"c": 8}, "at least 16 wide"),
        ({"batch": (256, 256)}, "65,536: at most 65,535"),
        ({"batch": (16_384,), "H": 4, "Q": 1}, "fewer than 128 queries at most 65,535"),
    ],
)
def test_rules_for_gpus(changes: dict, words: str) -> None:
    base = {"batch": (128,), "H": 8, "Q": 256, "K": 256, "c": 32, "device": "cuda", "training": True}
    assert list(flex.cuda_rules(impls.CoreProblem(**base), (9, 0))) == []
    assert words in "; ".join(flex.cuda_rules(impls.CoreProblem(**{**base, **changes}), (9, 0)))
