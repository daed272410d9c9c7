"""The modules: hand-worked examples, identities that need no other codebase, masks, and bad input."""

from __future__ import annotations

import pytest
import torch
from torch import tensor

import impls
from impls import evoformer
from impls.af2_global import masked_mean
from impls.evoformer import (
    MSAColumnAttention,
    MSAColumnGlobalAttention,
    MSARowAttentionWithPairBias,
    MultiHeadAttention,
    TemplatePointwiseAttention,
    TriangleAttention,
)
from impls.masks import as_bool

B, S, R, T = 2, 5, 7, 3
SIZES = {"c": 6, "N_head": 3, "backend": "reference"}


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def row(**options) -> MSARowAttentionWithPairBias:
    return MSARowAttentionWithPairBias(18, 10, **(SIZES | options)).double()


def test_attention_worked_by_hand() -> None:
    """q=[1,0] over k=[1,0],[0,1] and v=[2,0],[0,2]: weights 0.67 and 0.33."""
    q, k, v = tensor([[[1.0, 0.0]]]), tensor([[[1.0, 0.0], [0.0, 1.0]]]), tensor([[[2.0, 0.0], [0.0, 2.0]]])
    o = impls.get("reference")(q, k, v)
    torch.testing.assert_close(o, tensor([[[1.34, 0.66]]]), atol=5e-3, rtol=0)


def test_global_attention_worked_by_hand() -> None:
    """q = k = x, rows [1,0], [0,1], [1,1], values 2, 4, 6: the mean query gives 4.334 scaled, 4.480 unscaled."""
    module = MultiHeadAttention(2, 2, 1, -2, is_global=True).double()
    with torch.no_grad():
        for linear in (module.linear_q, module.linear_k, module.linear_o):
            linear.weight.copy_(torch.eye(2))
        module.linear_v.weight.copy_(tensor([[2.0, 4.0], [0.0, 0.0]]))
        module.linear_o.bias.zero_()
    out = module(tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64))
    assert out.shape == (1, 2)
    assert out[0, 0].item() == pytest.approx(4.334, abs=5e-4)


def test_gate_worked_by_hand() -> None:
    """Gate logits -8, 0, 3 on o = [1.2, -0.5, 2.0] leave [0.0004, -0.25, 1.9051]."""
    module = MultiHeadAttention(3, 3, 1, -2, gated=True).double()
    x = tensor([[1.2, -0.5, 2.0]], dtype=torch.float64)
    with torch.no_grad():
        for linear in (module.linear_v, module.linear_o):
            linear.weight.copy_(torch.eye(3))
        module.linear_o.bias.zero_()
        module.linear_g.weight.zero_()
        module.linear_g.bias.copy_(tensor([-8.0, 0.0, 3.0]))
    torch.testing.assert_close(module(x), tensor([[0.0004, -0.25, 1.9051]]).double(), atol=1e-4, rtol=0)


def test_ending_node_is_the_starting_node_of_the_transpose() -> None:
    z, mask = normal(B, R, R, 10), torch.rand(B, R, R) < 0.7
    start = TriangleAttention(10, "starting", **SIZES).double()
    end = TriangleAttention(10, "ending", **SIZES).double()
    end.load_state_dict(start.state_dict())
    transposed = z.transpose(-2, -3)
    torch.testing.assert_close(end(z, mask), start(transposed, mask.mT).transpose(-2, -3))
    assert (end(z, mask) - start(z, mask)).abs().max() > 0.1


def test_global_attention_is_a_single_query_a_head() -> None:
    """Algorithm 19 written out: H heads of one query against one shared K/V head."""
    module = MSAColumnGlobalAttention(18, **SIZES).double()
    x, mask = normal(B, S, R, 18), torch.rand(B, S, R) < 0.7
    mask[:, 0] = True
    m = module.layer_norm(x)
    weights = mask[..., None].double()
    q = module.linear_q((m * weights).sum(1) / weights.sum(1)).unflatten(-1, (3, 6))
    k, v = module.linear_k(m), module.linear_v(m)
    logits = torch.einsum("brhc,bsrc->brhs", q, k) / 6**0.5
    logits = logits.masked_fill(~mask.transpose(1, 2)[:, :, None], -torch.inf)
    o = torch.einsum("brhs,bsrc->brhc", logits.softmax(-1), v).flatten(-2)
    expected = module.linear_o(torch.sigmoid(module.linear_g(m)) * o[:, None])
    torch.testing.assert_close(module(x, mask), expected)


def test_ungated_global_attention_keeps_the_attended_axis_with_length_1() -> None:
    module = MSAColumnGlobalAttention(18, gated=False, **SIZES).double()
    assert module(normal(B, S, R, 18)).shape == (B, 1, R, 18)


def test_single_head_is_one_head_of_any_width() -> None:
    x = normal(S, R, 12)
    module = MultiHeadAttention(12, 5, 1, -2).double()
    q, k, v = (linear(x)[:, None] for linear in (module.linear_q, module.linear_k, module.linear_v))
    torch.testing.assert_close(module(x), module.linear_o(impls.reference.attention(q, k, v)[:, 0]))


@pytest.mark.parametrize("attn_dim", [-2, 2, -3, 1, -4])
def test_any_axis_can_be_attended(attn_dim: int) -> None:
    x, mask = normal(B, S, R, 12), torch.rand(B, S, R) < 0.7
    options = {"gated": True, "masked_rows": "zero", "backend": "reference"}
    module, last = (MultiHeadAttention(12, 4, 3, axis, **options).double() for axis in (attn_dim, -2))
    last.load_state_dict(module.state_dict())
    moved = x.movedim(attn_dim, -2), None, mask.movedim(attn_dim if attn_dim > 0 else attn_dim + 1, -1)
    torch.testing.assert_close(module(x, None, mask), last(*moved).movedim(-2, attn_dim))


def test_bias_of_the_general_form_goes_before_the_heads() -> None:
    """With B = S a bias (B, H, R, R) could be taken for one a sequence; it is one a batch entry."""
    x, bias = normal(4, 4, R, 12), normal(4, 3, R, R)
    module = MultiHeadAttention(12, 4, 3, -2, backend="reference").double()
    each = [module(x[b], bias[b]) for b in range(4)]
    torch.testing.assert_close(module(x, bias), torch.stack(each))


@pytest.mark.parametrize("backend", [name for name in impls.names() if name not in ("compiled", "flex")])
@pytest.mark.parametrize("policy", ["zero", "uniform", "unmasked"])
def test_rows_with_no_valid_key_follow_the_policy_over_any_backend(backend: str, policy: str) -> None:
    x, z = normal(B, S, R, 18).float(), normal(B, R, R, 10).float()
    mask = torch.rand(B, S, R) < 0.7
    mask[..., 0] = True
    mask[1, 2] = False
    modules = {name: row(backend=backend, masked_rows=name, gated=False).float() for name in ("zero", policy)}
    modules[policy].load_state_dict(modules["zero"].state_dict())
    try:
        with torch.no_grad():
            out, zero, unmasked = modules[policy](x, z, mask), modules["zero"](x, z, mask), modules["zero"](x, z)
    except impls.UnsupportedProblem as reason:
        pytest.skip(str(reason))
    module = modules[policy]
    v = module.linear_v(module.layer_norm(x))[1, 2]
    expected = {
        "zero": module.linear_o.bias.expand(R, 18),
        "uniform": module.linear_o(v.mean(0, keepdim=True)).expand(R, 18),
        "unmasked": unmasked[1, 2],
    }
    torch.testing.assert_close(out[1, 2], expected[policy], atol=1e-5, rtol=1e-5)
    others = torch.ones(B, S, dtype=torch.bool)
    others[1, 2] = False
    torch.testing.assert_close(out[others], zero[others], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("operation", ["row", "column", "global", "triangle", "template"])
def test_what_stands_in_padding_reaches_nothing(operation: str) -> None:
    """NaN in padded positions leaves the other rows and every parameter's gradient finite and unchanged."""
    msa_mask = torch.ones(B, S, R, dtype=torch.bool)
    msa_mask[:, -2:], msa_mask[..., -3:] = False, False
    pair_mask = torch.ones(B, R, R, dtype=torch.bool)
    pair_mask[:, -3:], pair_mask[..., -3:] = False, False
    x, z, t = normal(B, S, R, 18), normal(B, R, R, 10), normal(B, T, R, R, 8)
    build = {
        "row": lambda: (row(), {"x": x, "z": z, "mask": msa_mask}, msa_mask),
        "column": lambda: (MSAColumnAttention(18, **SIZES), {"x": x, "mask": msa_mask}, msa_mask),
        "global": lambda: (MSAColumnGlobalAttention(18, **SIZES), {"x": x, "mask": msa_mask}, msa_mask),
        "triangle": lambda: (TriangleAttention(10, "ending", **SIZES), {"x": z, "mask": pair_mask}, pair_mask),
        "template": lambda: (
            TemplatePointwiseAttention(8, 10, **SIZES),
            {"t": t, "x": z, "mask": tensor([[True, False, True]] * B)},
            torch.ones(B, R, R, dtype=torch.bool),
        ),
    }[operation]
    module, inputs, valid = build()
    module = module.double()
    clean = module(**inputs)[valid]
    poisoned = dict(inputs)
    if operation == "template":
        poisoned["t"] = t.clone()
        poisoned["t"][:, 1] = torch.nan
    else:
        poisoned["x"] = torch.where(valid[..., None], inputs["x"], torch.nan)
    torch.testing.assert_close(module(**poisoned)[valid], clean)


def test_masks_of_exact_zeros_and_ones_are_bool() -> None:
    x, z, mask = normal(B, S, R, 18), normal(B, R, R, 10), torch.rand(B, S, R) < 0.7
    module = row()
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16):
        torch.testing.assert_close(module(x, z, mask.to(dtype)), module(x, z, mask))


@pytest.mark.parametrize("value", [0.5, -1.0, 2.0, float("nan"), float("inf")])
def test_fractional_masks_are_refused(value: float) -> None:
    mask = torch.ones(3, 4)
    mask[1, 2] = value
    with pytest.raises(ValueError, match=f"holds {value}.*0 and 1"):
        as_bool(mask)


def test_masked_mean_of_nothing_is_zero_in_every_dtype() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        x = torch.full((2, 4, 3), torch.nan, dtype=dtype)
        assert torch.equal(masked_mean(x, torch.zeros(2, 4, dtype=torch.bool)), torch.zeros(2, 3, dtype=dtype))


def test_query_mean_all_averages_padding_too() -> None:
    x, mask = normal(B, S, 12), torch.ones(B, S, dtype=torch.bool)
    mask[:, -2:] = False
    valid, every = (MultiHeadAttention(12, 4, 3, -2, is_global=True, query_mean=m).double() for m in ("valid", "all"))
    every.load_state_dict(valid.state_dict())
    torch.testing.assert_close(valid(x), every(x))
    assert (valid(x, None, mask) - every(x, None, mask)).abs().max() > 1e-3


def cases_of_bad_input() -> dict:
    x, z = normal(B, S, R, 18), normal(B, R, R, 10)
    general = MultiHeadAttention(12, 4, 3, -2).double()
    h = normal(B, S, R, 12)
    return {
        "unknown node": (lambda: TriangleAttention(10, "endng"), "did you mean 'ending'"),
        "unknown backend": (lambda: row(backend="eagr"), "did you mean 'eager'"),
        "unknown policy": (lambda: row(masked_rows="uniformly"), "did you mean 'uniform'"),
        "unknown query mean": (
            lambda: MultiHeadAttention(12, 4, 3, -2, is_global=True, query_mean="vald").double()(h),
            "did you mean 'valid'",
        ),
        "no head": (lambda: MSAColumnAttention(18, N_head=0), "N_head=0"),
        "wrong channels": (lambda: row()(x[..., :5], z), r"x has shape \(2, 5, 7, 5\).*18 channels"),
        "z of another R": (lambda: row()(x, z[:, :3]), r"z has shape \(2, 3, 7, 10\).*\(2, 7, 7, 10\)"),
        "z without its batch axis": (lambda: row()(x, z[0]), r"z has shape \(7, 7, 10\)"),
        "MSA without sequences": (lambda: MSAColumnAttention(18).double()(x[0, 0]), r"x has shape \(7, 18\)"),
        "pair not square": (lambda: TriangleAttention(10, "ending").double()(z[:, :3]), r"x has shape \(2, 3, 7, 10\)"),
        "mask of the transposed layout": (
            lambda: row()(x, z, torch.ones(B, R, S)),
            r"mask has shape \(2, 7, 5\); expected \(2, 5, 7\)",
        ),
        "fractional mask": (lambda: row()(x, z, torch.full((B, S, R), 0.5)), "holds 0.5"),
        "templates of another R": (
            lambda: TemplatePointwiseAttention(8, 10).double()(normal(B, T, R, 3, 8), z),
            r"t has shape \(2, 3, 7, 3, 8\)",
        ),
        "no such axis": (lambda: MultiHeadAttention(12, 4, 3, -1).double()(h), "attn_dim=-1"),
        "an axis too far": (lambda: MultiHeadAttention(12, 4, 3, 7).double()(h), "attn_dim=7"),
        "bias of another length": (lambda: general(h, normal(B, 3, S, S)), r"\(2, 3, 5, 5\) does not broadcast"),
        "bias without heads": (lambda: general(h, normal(R, R)), "does not broadcast"),
        "global with a bias": (
            lambda: MultiHeadAttention(12, 4, 3, -2, is_global=True).double()(h, normal(B, 3, R, R)),
            "takes no pair bias",
        ),
    }


@pytest.mark.parametrize("name", cases_of_bad_input())
def test_bad_input_is_named(name: str) -> None:
    call, message = cases_of_bad_input()[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_every_module_runs_without_a_batch_axis_and_with_two() -> None:
    shapes = {
        "row": (row(), {"x": (S, R, 18), "z": (R, R, 10)}),
        "column": (MSAColumnAttention(18, **SIZES), {"x": (S, R, 18)}),
        "global": (MSAColumnGlobalAttention(18, **SIZES), {"x": (S, R, 18)}),
        "triangle": (TriangleAttention(10, "ending", **SIZES), {"x": (R, R, 10)}),
        "template": (evoformer.TemplatePointwiseAttention(8, 10, **SIZES), {"t": (T, R, R, 8), "x": (R, R, 10)}),
    }
    for module, inputs in shapes.values():
        module = module.double()
        two = {name: normal(2, 3, *shape) for name, shape in inputs.items()}
        out = module(**two)
        one = module(**{name: x[1, 2] for name, x in two.items()})
        torch.testing.assert_close(out[1, 2], one)


def test_global_attention_without_gradients_is_the_same_in_parts_and_leaves_its_input_alone(monkeypatch) -> None:
    module = MSAColumnGlobalAttention(6, c=4, N_head=3).double()
    x, mask = normal(B, S, R, 6), normal(B, S, R) > 0
    before = x.clone()
    expected = module(x, mask)
    for cached in (1, 2 * R * 6, 2**20):
        monkeypatch.setattr(evoformer, "CACHED", cached)
        with torch.no_grad():
            torch.testing.assert_close(module(x, mask), expected, rtol=0, atol=1e-14)
    assert torch.equal(x, before)
