"""The specification of the modules: algorithms 7, 8, 13, 14, 17 and 19 of the AlphaFold 2 supplement, line by line.

Each takes the parameters by the names that ``impls.evoformer`` gives them, in ``torch.nn.Linear``'s layout, and inputs
with any leading axes. Indices are the supplement's: s and t sequences (t also templates), i, j and k residues, h heads,
c channels. Everything is computed in the dtype of the inputs: in float64 this is the exact answer, in another dtype the
plain one. In half precision LayerNorm is PyTorch's own, and softmax keeps float32 inside as PyTorch's own does.

Without ``linear_g`` the module is ungated. ``masked_rows`` is the answer of a row with no valid key (``impls.masks``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, einsum

Parameters = Mapping[str, Tensor]


def msa_row(
    p: Parameters,
    x: Float[Tensor, "*B S R c_m"],
    z: Float[Tensor, "*B R R c_z"],
    mask: Bool[Tensor, "*B S R"] | None = None,
    *,
    N_head: int,
    masked_rows: str = "zero",
) -> Float[Tensor, "*B S R c_m"]:
    """Algorithm 7: sequence s attends from residue i over its residues j."""
    m = layer_norm(p, "layer_norm", x)  # line 1
    q, k, v = (heads(linear(p, name, m), N_head) for name in ("linear_q", "linear_k", "linear_v"))  # 2
    b = linear(p, "linear_z", layer_norm(p, "layer_norm_z", z))  # 3
    logits = scaled(einsum("...sihc,...sjhc->...hsij", q, k), q) + einsum("...ijh->...hij", b).unsqueeze(-3)  # 5
    allowed, v, flat = keys(mask, -1, v, masked_rows)
    a = softmax(logits, placed(allowed, "...sj->...1s1j"), placed(flat, "...sj->...1s1j"))
    return gated_output(p, m, weighted_mean("...hsij,...sjhc->...sihc", a, v))  # 4, 6, 7


def msa_column(
    p: Parameters,
    x: Float[Tensor, "*B S R c_m"],
    mask: Bool[Tensor, "*B S R"] | None = None,
    *,
    N_head: int,
    masked_rows: str = "zero",
) -> Float[Tensor, "*B S R c_m"]:
    """Algorithm 8: residue i attends from sequence s over the sequences t."""
    m = layer_norm(p, "layer_norm", x)  # line 1
    q, k, v = (heads(linear(p, name, m), N_head) for name in ("linear_q", "linear_k", "linear_v"))  # 2
    logits = scaled(einsum("...sihc,...tihc->...hist", q, k), q)  # 4
    allowed, v, flat = keys(mask, -2, v, masked_rows)
    a = softmax(logits, placed(allowed, "...ti->...1i1t"), placed(flat, "...ti->...1i1t"))
    return gated_output(p, m, weighted_mean("...hist,...tihc->...sihc", a, v))  # 3, 5, 6


def msa_global_column(
    p: Parameters,
    x: Float[Tensor, "*B S R c_m"],
    mask: Bool[Tensor, "*B S R"] | None = None,
    *,
    N_head: int,
    masked_rows: str = "zero",
    eps: float = 0.0,
) -> Float[Tensor, "*B S R c_m"]:
    """Algorithm 19: the mean query of residue i over its valid sequences attends over the sequences t.

    ``eps`` is added to the number of valid sequences, as codebases do (1e-10 to 1e-8) so as not to divide by zero.
    Ungated, the result has S = 1.
    """
    m = layer_norm(p, "layer_norm", x)  # line 1
    wide = torch.promote_types(m.dtype, torch.float32)
    valid = torch.ones_like(m[..., 0], dtype=torch.bool) if mask is None else mask
    count = valid.sum(-2, dtype=wide)[..., None] + (0.0 if mask is None else eps)
    mean = torch.where(valid[..., None], m, 0).sum(-3, dtype=wide) / torch.where(count == 0, 1, count)
    q = heads(linear(p, "linear_q", mean.to(m.dtype)), N_head)  # 2
    k, v = linear(p, "linear_k", m), linear(p, "linear_v", m)  # 3
    logits = scaled(einsum("...ihc,...tic->...hit", q, k), q)  # 5
    allowed, v, flat = keys(mask, -2, v, masked_rows)
    a = softmax(logits, placed(allowed, "...ti->...1it"), placed(flat, "...ti->...1it"))
    return gated_output(p, m, weighted_mean("...hit,...tic->...ihc", a, v).unsqueeze(-4))  # 4, 6, 7


def triangle_starting(
    p: Parameters,
    x: Float[Tensor, "*B R R c_z"],
    mask: Bool[Tensor, "*B R R"] | None = None,
    *,
    N_head: int,
    masked_rows: str = "zero",
) -> Float[Tensor, "*B R R c_z"]:
    """Algorithm 13: edge ij attends over the edges ik of its starting node, biased by the third edge jk."""
    z = layer_norm(p, "layer_norm", x)  # line 1
    q, k, v = (heads(linear(p, name, z), N_head) for name in ("linear_q", "linear_k", "linear_v"))  # 2
    b = linear(p, "linear_z", z)  # 3
    logits = scaled(einsum("...ijhc,...ikhc->...hijk", q, k), q) + einsum("...jkh->...hjk", b).unsqueeze(-3)  # 5
    allowed, v, flat = keys(mask, -1, v, masked_rows)
    a = softmax(logits, placed(allowed, "...ik->...1i1k"), placed(flat, "...ik->...1i1k"))
    return gated_output(p, z, weighted_mean("...hijk,...ikhc->...ijhc", a, v))  # 4, 6, 7


def triangle_ending(
    p: Parameters,
    x: Float[Tensor, "*B R R c_z"],
    mask: Bool[Tensor, "*B R R"] | None = None,
    *,
    N_head: int,
    masked_rows: str = "zero",
) -> Float[Tensor, "*B R R c_z"]:
    """Algorithm 14: edge ij attends over the edges kj of its ending node, biased by the third edge ki."""
    z = layer_norm(p, "layer_norm", x)  # line 1
    q, k, v = (heads(linear(p, name, z), N_head) for name in ("linear_q", "linear_k", "linear_v"))  # 2
    b = linear(p, "linear_z", z)  # 3
    logits = scaled(einsum("...ijhc,...kjhc->...hjik", q, k), q) + einsum("...kih->...hik", b).unsqueeze(-3)  # 5
    allowed, v, flat = keys(mask, -2, v, masked_rows)
    a = softmax(logits, placed(allowed, "...kj->...1j1k"), placed(flat, "...kj->...1j1k"))
    return gated_output(p, z, weighted_mean("...hjik,...kjhc->...ijhc", a, v))  # 4, 6, 7


def template_pointwise(
    p: Parameters,
    t: Float[Tensor, "*B T R R c_t"],
    x: Float[Tensor, "*B R R c_z"],
    mask: Bool[Tensor, "*B T"] | None = None,
    *,
    N_head: int,
    masked_rows: str = "zero",
) -> Float[Tensor, "*B R R c_z"]:
    """Algorithm 17: pair ij attends over its templates t. No LayerNorm."""
    q = heads(linear(p, "linear_q", x), N_head)  # line 1
    k, v = (heads(linear(p, name, t), N_head) for name in ("linear_k", "linear_v"))  # 2
    logits = scaled(einsum("...ijhc,...tijhc->...hijt", q, k), q)  # 3
    pairs = None if mask is None else mask[..., None, None].expand(t.shape[:-1])
    allowed, v, flat = keys(pairs, -3, v, masked_rows)
    a = softmax(logits, placed(allowed, "...tij->...1ijt"), placed(flat, "...tij->...1ijt"))
    return gated_output(p, x, weighted_mean("...hijt,...tijhc->...ijhc", a, v))  # 4, 5


SPECIFICATIONS: dict[str, Callable[..., Tensor]] = {
    f.__name__: f
    for f in (msa_row, msa_column, msa_global_column, triangle_starting, triangle_ending, template_pointwise)
}
"""By operation: ``f(parameters, **inputs, N_head=..., masked_rows=...)``."""


def layer_norm(p: Parameters, name: str, x: Float[Tensor, "*B c_in"]) -> Float[Tensor, "*B c_in"]:
    """Zero mean and unit variance along the channels (biased, plus 1e-5), then weight and bias."""
    weight, bias = p[f"{name}.weight"], p[f"{name}.bias"]
    if torch.finfo(x.dtype).bits < 32:
        return F.layer_norm(x, x.shape[-1:], weight, bias)
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias


def linear(p: Parameters, name: str, x: Float[Tensor, "*B c_in"]) -> Float[Tensor, "*B c_out"]:
    """``x W^T``, plus the bias where the parameters have one."""
    y = F.linear(x.flatten(0, -2), p[f"{name}.weight"], p.get(f"{name}.bias"))
    return y.unflatten(0, x.shape[:-1])


def heads(x: Float[Tensor, "*B H*c"], N_head: int) -> Float[Tensor, "*B H c"]:
    """Channels as heads, heads being the slow axis."""
    return x.reshape(*x.shape[:-1], N_head, x.shape[-1] // N_head)


def scaled(logits: Tensor, q: Float[Tensor, "*B c"]) -> Tensor:
    """Logits over the square root of a head's width."""
    return logits / math.sqrt(q.shape[-1])


def keys(
    mask: Bool[Tensor, "*B"] | None, axis: int, v: Float[Tensor, "*B ..."], masked_rows: str
) -> tuple[Bool[Tensor, "*B"] | None, Tensor, Bool[Tensor, "*B"] | None]:
    """What may be attended to along ``axis``, the values with zeros elsewhere, and where all keys count the same.

    A row with no valid key has no key at all ("zero"), all of them at equal weight ("uniform"), or all ("unmasked").
    """
    if mask is None:
        return None, v, None
    empty = (~mask.any(axis, keepdim=True)).expand(mask.shape)
    allowed = mask if masked_rows == "zero" else mask | empty
    kept = allowed.reshape(*allowed.shape, *(1,) * (v.dim() - allowed.dim()))
    return allowed, torch.where(kept, v, 0), empty if masked_rows == "uniform" else None


def placed(mask: Bool[Tensor, "*B"] | None, axes: str) -> Bool[Tensor, "*B"] | None:
    """A mask with its axes in the order of ``axes``, such as "...ti->...1i1t", and length 1 where a 1 stands."""
    if mask is None:
        return None
    before, after = axes.replace("...", "").split("->")
    order = [before.index(name) - len(before) for name in after if name != "1"]
    leading = range(mask.dim() - len(before))
    moved = mask.permute(*leading, *(mask.dim() + axis for axis in order))
    for place, name in enumerate(after):
        if name == "1":
            moved = moved.unsqueeze(len(leading) + place)
    return moved


def softmax(
    logits: Float[Tensor, "*B K"], allowed: Tensor | None, flat: Tensor | None
) -> tuple[Float[Tensor, "*B K"], Float[Tensor, "*B K"]]:
    """Weights over the allowed keys, zero in a row that has none, equal ones where ``flat``, as ``weighted_mean`` takes
    them: numerators, and the terms of their denominator.

    The two are the same numbers. Yet they are computed apart, as by those who recompute weights from the logarithm of
    their denominator: so its rounding is seen where the budget of modules perturbs.
    """
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if not wide.shape[-1]:
        return wide, wide
    if flat is not None:
        wide = torch.where(flat, 0, wide)
    if allowed is not None:
        wide = torch.where(allowed, wide, -torch.inf)
    largest = wide.detach().amax(-1, keepdim=True)
    largest = torch.where(largest == -torch.inf, 0, largest)
    return (wide - largest).exp(), (wide - largest * 1.0).exp()


def weighted_mean(pattern: str, a: tuple[Tensor, Tensor], v: Float[Tensor, "*B c"]) -> Float[Tensor, "*B c"]:
    """The mean of v, weighted by ``softmax``. The denominator comes last, so that its gradient is the product of the
    result and its cotangent, summed over the channels, and not over the keys.
    """
    numerators, terms = a
    total = einsum(pattern, terms, torch.ones_like(v[..., :1], dtype=terms.dtype))
    o = einsum(pattern, numerators.to(v.dtype), v)
    return (o / torch.where(total == 0, 1, total)).to(v.dtype)


def gated_output(p: Parameters, x: Float[Tensor, "*B c_in"], o: Float[Tensor, "*B H c"]) -> Float[Tensor, "*B c_in"]:
    """Heads side by side, gated by ``g = sigmoid(Linear(x))``, projected back."""
    o = o.flatten(-2)
    if "linear_g.weight" in p:
        o = torch.sigmoid(linear(p, "linear_g", x)) * o
    return linear(p, "linear_o", o)
