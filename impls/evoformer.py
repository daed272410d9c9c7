"""AlphaFold 2's attention modules over any backend: algorithms 7, 8, 13, 14, 17, 19, and the general multi-head form.

Parameters: ``layer_norm`` (of x), ``layer_norm_z`` and ``linear_z`` (pair bias), ``linear_q``, ``linear_k``,
``linear_v``, ``linear_g`` (gate) and ``linear_o``, in ``torch.nn.Linear``'s layout, heads being the slow axis of
N_head * c. They start as torch.nn.Linear starts them, not as AlphaFold does (whose zero output weights would hide every
error).

Masks are bool, or exactly 0 and 1 (ValueError otherwise). ``masked_rows`` says what a row with no valid key yields
(``impls.masks``). ``backend`` is a name or an ``impls.Backend``.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from impls.af2_global import global_attention, masked_mean, project_together
from impls.interface import Backend, get
from impls.masks import as_bool, with_masked_rows
from impls.problem import broadcasts, one_of

NODES = ("starting", "ending")
QUERY_MEANS = ("valid", "all")
CACHED = 2**19  # numbers of a part that stays in a CPU's cache through several steps (2 MB of float32)


class _Attention(nn.Module):
    """What all six share: project, attend through a backend, gate, project back."""

    def __init__(
        self,
        c_q: int,
        c_kv: int,
        c: int,
        N_head: int,
        *,
        gated: bool = True,
        shared_kv: bool = False,
        projection_bias: bool = False,
        backend: str | Backend = "eager",
        masked_rows: str = "zero",
    ) -> None:
        super().__init__()
        for name, size in {"c": c, "N_head": N_head}.items():
            if size < 1:
                raise ValueError(f"{name}={size}: an attention has at least one head of at least width 1")
        self.N_head = N_head
        self.backend = get(backend) if isinstance(backend, str) else backend
        self.core = with_masked_rows(self.backend, masked_rows)
        width, kv_width = N_head * c, c if shared_kv else N_head * c
        self.linear_q = nn.Linear(c_q, width, bias=projection_bias)
        self.linear_k = nn.Linear(c_kv, kv_width, bias=projection_bias)
        self.linear_v = nn.Linear(c_kv, kv_width, bias=projection_bias)
        self.linear_g = nn.Linear(c_q, width) if gated else None
        self.linear_o = nn.Linear(width, c_q)

    def attend(
        self,
        x: Float[Tensor, "*B Q c_q"],
        y: Float[Tensor, "*B K c_kv"],
        bias: Float[Tensor, "*#B H Q K"] | None,
        mask: Bool[Tensor, "*#B K"] | None,
        axis: int = -2,
    ) -> Float[Tensor, "*B Q c_q"]:
        """Attention of queries from x over keys and values from y, gated from x (lines 2 to 7 of algorithm 7).

        The attended ``axis`` (counted as in x, channels being -1) may be any: projections are made in x's own layout,
        and only their results are seen with that axis last, so that nothing is copied to move it.
        """
        q, k, v = (self._heads(p, axis) for p in (self.linear_q(x), self.linear_k(y), self.linear_v(y)))
        o = self.core(q, k, v, bias, _keys_last(mask, axis))
        return self.out(x, o.movedim(-2, axis - 1).flatten(-2))

    def attend_globally(
        self, x: Float[Tensor, "*B L c_q"], mask: Bool[Tensor, "*#B L"] | None, axis: int, query_mean: str = "valid"
    ) -> Float[Tensor, "*B 1 H*c"]:
        """One result for all members of ``axis`` (algorithm 19 up to line 5), the gate still to come.

        ``query_mean`` is "valid" (DeepMind, OpenFold), or "all" (alphafold-decoded: padding takes part in the mean, not
        in the keys).
        """
        mask = _keys_last(mask, axis)
        q = self.linear_q(masked_mean(x.movedim(axis, -2), mask if query_mean == "valid" else None))
        k, v = (p.movedim(axis, -2) for p in project_together(x, self.linear_k, self.linear_v))
        return global_attention(q, k, v, mask, N_head=self.N_head, core=self.core).movedim(-2, axis)

    def out(self, x: Float[Tensor, "*B L c_q"], o: Float[Tensor, "*B #L H*c"]) -> Float[Tensor, "*B #L c_q"]:
        """Gate by x and project back (lines 5 and 7 of algorithm 7)."""
        if self.linear_g is None:
            return self.linear_o(o)
        gate = self.linear_g(x)
        if gate.requires_grad:
            return self.linear_o(torch.sigmoid(gate) * o)
        return self.linear_o(gate.sigmoid_().mul_(o))

    def _heads(self, x: Float[Tensor, "*B L H*c"], axis: int) -> Float[Tensor, "*B H L c"]:
        return x.unflatten(-1, (self.N_head, -1)).movedim(axis - 1, -2)


class _PairBias(_Attention):
    """Attention with a bias from the pair representation, one number a head and pair."""

    def __init__(self, c_x: int, c_z: int, c: int, N_head: int, **options: Any) -> None:
        super().__init__(c_x, c_x, c, N_head, **options)
        self.linear_z = nn.Linear(c_z, N_head, bias=False)

    def pair_bias(self, z: Float[Tensor, "*B R R c_z"]) -> Float[Tensor, "*B 1 H R R"]:
        """``b_ij = Linear(z_ij)``, the same for every row of the batch (line 3 of algorithm 7)."""
        return self.linear_z(z).movedim(-1, -3).unsqueeze(-4)


class MSARowAttentionWithPairBias(_PairBias):
    """Algorithm 7: each sequence attends along its residues, biased by the pair representation.

    Raises ValueError where the mask is fractional or a shape does not fit.
    """

    def __init__(self, c_m: int, c_z: int, c: int = 32, N_head: int = 8, **options: Any) -> None:
        super().__init__(c_m, c_z, c, N_head, **options)
        self.layer_norm = nn.LayerNorm(c_m)
        self.layer_norm_z = nn.LayerNorm(c_z)

    def forward(
        self, x: Float[Tensor, "*B S R c_m"], z: Float[Tensor, "*B R R c_z"], mask: Bool[Tensor, "*B S R"] | None = None
    ) -> Float[Tensor, "*B S R c_m"]:
        _expect("x", x, "(*, S, R, c_m)", self.linear_q.in_features)
        R = x.shape[-2]
        _expect("z", z, "(*, R, R, c_z)", self.linear_z.in_features, leading=(*x.shape[:-3], R, R))
        x = self.layer_norm(x)
        return self.attend(x, x, self.pair_bias(self.layer_norm_z(z)), _key_mask(mask, x.shape[:-1]))


class MSAColumnAttention(_Attention):
    """Algorithm 8: each residue attends along the sequences of the MSA. Raises as algorithm 7's module."""

    def __init__(self, c_m: int, c: int = 32, N_head: int = 8, **options: Any) -> None:
        super().__init__(c_m, c_m, c, N_head, **options)
        self.layer_norm = nn.LayerNorm(c_m)

    def forward(
        self, x: Float[Tensor, "*B S R c_m"], mask: Bool[Tensor, "*B S R"] | None = None
    ) -> Float[Tensor, "*B S R c_m"]:
        _expect("x", x, "(*, S, R, c_m)", self.linear_q.in_features)
        mask = _key_mask(mask, x.shape[:-1])
        x = self.layer_norm(x)
        return self.attend(x, x, None, mask, axis=-3)


class MSAColumnGlobalAttention(_Attention):
    """Algorithm 19: column attention of the extra MSA, with one averaged query a head and one K/V head for all.

    Ungated, the result has S = 1. Raises as algorithm 7's module.
    """

    def __init__(self, c_m: int, c: int = 8, N_head: int = 8, **options: Any) -> None:
        super().__init__(c_m, c_m, c, N_head, shared_kv=True, **options)
        self.layer_norm = nn.LayerNorm(c_m)

    def forward(
        self, x: Float[Tensor, "*B S R c_m"], mask: Bool[Tensor, "*B S R"] | None = None
    ) -> Float[Tensor, "*B S R c_m"]:
        _expect("x", x, "(*, S, R, c_m)", self.linear_q.in_features)
        mask = _key_mask(mask, x.shape[:-1])
        x = self.layer_norm(x)
        o = self.attend_globally(x, mask, axis=-3)
        if self.linear_g is None or torch.is_grad_enabled():
            return self.out(x, o)
        for part in x.split(1 + CACHED // max(x.shape[-2] * x.shape[-1], 1), dim=-3):
            part.copy_(self.out(part, o))  # new memory of x's size would cost more time than what is computed into it
        return x


class TriangleAttention(_PairBias):
    """Algorithms 13 and 14: edges of the pair representation attend around their starting or ending node.

    The ending node is the starting node of the transposed pair representation, bias included (b_ki, as in AlphaFold 2
    and OpenFold). Raises ValueError for another node, a fractional mask, or a pair representation that is not square.
    """

    def __init__(self, c_z: int, node: str, c: int = 32, N_head: int = 4, **options: Any) -> None:
        super().__init__(c_z, c_z, c, N_head, **options)
        self.node = one_of("node", node, NODES)
        self.layer_norm = nn.LayerNorm(c_z)

    def forward(
        self, x: Float[Tensor, "*B R R c_z"], mask: Bool[Tensor, "*B R R"] | None = None
    ) -> Float[Tensor, "*B R R c_z"]:
        square = (*x.shape[:-3], *x.shape[-2:-1], *x.shape[-2:-1])
        _expect("x", x, "(*, R, R, c_z)", self.linear_q.in_features, leading=square)
        mask = _key_mask(mask, x.shape[:-1])
        x = self.layer_norm(x)
        bias = self.pair_bias(x)
        if self.node == "starting":
            return self.attend(x, x, bias, mask, axis=-2)
        return self.attend(x, x, bias.transpose(-1, -2), mask, axis=-3)


class TemplatePointwiseAttention(_Attention):
    """Algorithm 17: each pair of residues attends over the templates. No LayerNorm inside.

    Raises ValueError where the mask is fractional or a shape does not fit.
    """

    def __init__(
        self, c_t: int, c_z: int, c: int = 16, N_head: int = 4, *, gated: bool = False, **options: Any
    ) -> None:
        super().__init__(c_z, c_t, c, N_head, gated=gated, **options)

    def forward(
        self, t: Float[Tensor, "*B T R R c_t"], x: Float[Tensor, "*B R R c_z"], mask: Bool[Tensor, "*B T"] | None = None
    ) -> Float[Tensor, "*B R R c_z"]:
        _expect("x", x, "(*, R, R, c_z)", self.linear_q.in_features)
        stack = (*x.shape[:-3], *t.shape[-4:-3], *x.shape[-3:-1])
        _expect("t", t, "(*, T, R, R, c_t)", self.linear_k.in_features, leading=stack)
        mask = _key_mask(mask, t.shape[:-3])
        if mask is not None:
            mask = mask[..., None, None, :]
        return self.attend(x.unsqueeze(-2), t.movedim(-4, -2), None, mask).squeeze(-2)


class MultiHeadAttention(_Attention):
    """The general form that the others are special cases of: along any axis, gated or not, global or not.

    No LayerNorm, and the gate comes from the raw input. ``attn_dim`` is the attended axis of x. A bias
    ``(*, N_head, L, L)`` acts alike on all axes between ``*`` and the attended one. ``query_mean="all"`` averages the
    padded rows of x too.

    Raises ValueError for an axis that is not there, a mask or bias that does not fit, or a bias with ``is_global``.
    """

    def __init__(
        self,
        c_in: int,
        c: int,
        N_head: int,
        attn_dim: int,
        *,
        gated: bool = False,
        is_global: bool = False,
        use_bias_for_embeddings: bool = False,
        query_mean: str = "valid",
        **options: Any,
    ) -> None:
        super().__init__(
            c_in,
            c_in,
            c,
            N_head,
            gated=gated,
            shared_kv=is_global,
            projection_bias=use_bias_for_embeddings,
            **options,
        )
        self.attn_dim, self.is_global = attn_dim, is_global
        self.query_mean = one_of("query_mean", query_mean, QUERY_MEANS)

    def forward(
        self,
        x: Float[Tensor, "*B c_in"],
        bias: Float[Tensor, "*#B H L L"] | None = None,
        attention_mask: Bool[Tensor, "*B"] | None = None,
    ) -> Float[Tensor, "*B c_in"]:
        _expect("x", x, "(*, L, c_in)", self.linear_q.in_features)
        axis = self.attn_dim if self.attn_dim < 0 else self.attn_dim - x.dim()
        if not -x.dim() <= axis <= -2:
            raise ValueError(f"attn_dim={self.attn_dim} is no axis before the channels of x, shape {tuple(x.shape)}")
        mask = _key_mask(attention_mask, x.shape[:-1])
        if self.is_global:
            if bias is not None:
                raise ValueError("global attention has one query for all positions: it takes no pair bias")
            return self.out(x, self.attend_globally(x, mask, axis, self.query_mean))
        if bias is not None:
            bias = self._placed(bias, x.movedim(axis, -2).shape)
        return self.attend(x, x, bias, mask, axis)

    def _placed(self, bias: Tensor, shape: torch.Size) -> Tensor:
        """The bias with axes of length 1 before its heads, as many as the input ``(*, L, c_in)`` has more than it."""
        target = (*shape[:-2], self.N_head, shape[-2], shape[-2])
        missing = (1,) * (len(target) - bias.dim())
        placed = bias.reshape(*bias.shape[:-3], *missing, *bias.shape[-3:])
        if bias.dim() < 3 or not broadcasts(tuple(placed.shape), target):
            raise ValueError(f"bias of shape {tuple(bias.shape)} does not broadcast to {target} (*, N_head, L, L)")
        return placed


def _keys_last(mask: Tensor | None, axis: int) -> Tensor | None:
    """A mask in the layout of x with the attended axis (counted as in x, channels and all) last."""
    return None if mask is None else mask.movedim(axis + 1, -1)


def _key_mask(mask: Tensor | None, shape: torch.Size) -> Tensor | None:
    """The mask as bool, if it has exactly ``shape``; ValueError otherwise."""
    if mask is None:
        return None
    if mask.shape != shape:
        raise ValueError(
            f"the mask has shape {tuple(mask.shape)}; expected {tuple(shape)}, the input's without channels"
        )
    return as_bool(mask)


def _expect(
    name: str, x: Tensor, layout: str, channels: int, leading: tuple[int, ...] | torch.Size | None = None
) -> None:
    """ValueError unless x has the axes that ``layout`` names, so many channels, and these sizes before them."""
    if x.dim() < layout.count(",") or x.shape[-1] != channels or leading not in (None, x.shape[:-1]):
        sizes = "" if leading is None else f", {(*leading, channels)}"
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected {layout} with {channels} channels{sizes}")
