"""Priors through the bias port: what is known beforehand about query i and key j, as a ``bias`` for any backend.

A *prior* is a function of relative positions, key minus query, one number a head:

    prior(relative: Int[Tensor, "*B Q K"]) -> Float[Tensor, "*B H Q K"]

====================== ============ ==========================================================================
prior                  learned      published in
====================== ============ ==========================================================================
``alibi``              no           Press et al. 2022, "Train Short, Test Long"
``T5RelativeBias``     a table      Raffel et al. 2020, "Exploring the Limits of Transfer Learning", 2.1
``RelPos``             two layers   Jumper et al. 2021 (AlphaFold 2), supplement, algorithms 4 and 5
``causal``             no           Vaswani et al. 2017, 3.2.3
====================== ============ ==========================================================================

Priors may be added to each other. Any backend takes ``prior(relative_positions(torch.arange(L)))`` as its ``bias``;
``impls.backends.flex.with_prior(prior)`` reads it by index, so that nothing of size Q x K is made. ``padding`` is the
key mask in the same form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from impls.masks import on_keys

Prior = Callable[[Int[Tensor, "*B Q K"]], Float[Tensor, "*B H Q K"]]


def relative_positions(queries: Int[Tensor, "*B Q"], keys: Int[Tensor, "*B K"] | None = None) -> Int[Tensor, "*B Q K"]:
    """``position_j - position_i`` of keys j and queries i; the keys are the queries where none are given."""
    return (queries if keys is None else keys)[..., None, :] - queries[..., :, None]


def padding(mask: Bool[Tensor, "*B K"]) -> Float[Tensor, "*B 1 1 K"]:
    """A key mask (True = attend) as a bias: 0, and -inf for keys that are padded.

    The core gives the same for either form, zeros in rows without a valid key included. But what stands in a padded key
    is hidden by a mask alone: NaN there comes through a bias.
    """
    return on_keys(torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf))


def causal(relative: Int[Tensor, "*B Q K"]) -> Float[Tensor, "*B 1 Q K"]:
    """0, and -inf for keys after their query."""
    return torch.zeros(relative.shape, device=relative.device).masked_fill(relative > 0, -torch.inf).unsqueeze(-3)


def alibi(relative: Int[Tensor, "*B Q K"], N_head: int) -> Float[Tensor, "*B H Q K"]:
    """``-slope_h |j - i|``: attention with linear biases, in the form for encoders.

    Up to each query it is the published one; add ``causal`` for that. (Press et al. 2022, section 3. They define it
    for keys before the query; the symmetric form is theirs too: github.com/ofirpress/attention_with_linear_biases,
    issue 5.)
    """
    slopes = torch.tensor(alibi_slopes(N_head), device=relative.device)
    return -slopes[:, None, None] * relative.abs().unsqueeze(-3)


def alibi_slopes(N_head: int) -> list[float]:
    """The slope of every head, for any number of heads. Raises ValueError for less than one.

    ``2^(-8/n), 2^(-16/n), ..., 2^-8`` for n heads, a power of two. Other numbers take those of the next lower power n,
    and go on with every other slope of 2n heads, from the first. (Press et al. 2022, section 3; other numbers as in
    their code, ``get_slopes``.)
    """
    if N_head < 1:
        raise ValueError(f"N_head={N_head}: an attention has at least one head")
    n = 1 << N_head.bit_length() - 1
    return [2 ** (-8 * h / n) for h in range(1, n + 1)] + [2 ** (-4 * h / n) for h in range(1, 2 * (N_head - n), 2)]


class T5RelativeBias(nn.Module):
    """A learned number for every bucket of distances and every head, shared by all layers in T5.

    ``relative_attention_bias.weight (buckets, N_head)`` is named as in T5's checkpoints. Bidirectional (encoders), keys
    before and after the query have half of the buckets each; else (decoders) all keys after the query share bucket 0,
    and ``causal`` is to be added. (Raffel et al. 2020, section 2.1: 32 buckets, up to a distance of 128.)

    Raises ValueError for numbers that leave no bucket for the distances beyond the exact ones.
    """

    def __init__(self, N_head: int, *, bidirectional: bool = True, buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.side = buckets // 2 if bidirectional else buckets
        if self.side < 2 or max_distance <= self.side // 2:
            raise ValueError(
                f"buckets={buckets}, max_distance={max_distance}: expected at least {4 if bidirectional else 2} "
                f"buckets, and a distance beyond the {self.side // 2} that have one each"
            )
        self.max_distance = max_distance
        self.relative_attention_bias = nn.Embedding(buckets, N_head)

    def bucket(self, relative: Int[Tensor, "*B"]) -> Int[Tensor, "*B"]:
        """The bucket of every relative position."""
        later = self.side * (relative > 0) if self.bidirectional else 0
        distance = relative.abs() if self.bidirectional else (-relative).clamp(min=0)
        starts = torch.tensor(bucket_starts(self.side, self.max_distance), device=relative.device)
        return later + torch.bucketize(distance, starts, right=True)

    def forward(self, relative: Int[Tensor, "*B Q K"]) -> Float[Tensor, "*B H Q K"]:
        return self.relative_attention_bias(self.bucket(relative)).movedim(-1, -3)


@cache
def bucket_starts(buckets: int, max_distance: int) -> tuple[int, ...]:
    """The least distance of every bucket but the first, for distances of one sign.

    Half of the buckets, e, have one distance each. Bucket e + k of the others, m, begins where
    ``m log(distance / e) / log(max_distance / e)`` reaches k; here in whole numbers, which no rounding can move.
    """
    e = buckets // 2
    m = buckets - e
    starts = list(range(1, e + 1))
    for k in range(1, m):
        distance = starts[-1]
        while distance**m * e**k < max_distance**k * e**m:
            distance += 1
        starts.append(distance)
    return tuple(starts)


class RelPos(nn.Module):
    """AlphaFold 2's relative positions of residues, and the bias that attention makes of them.

    ``linear_relpos`` is algorithm 4's layer, ``linear_z`` the projection of pair representations to heads (algorithm 7,
    line 3). In AlphaFold 2 a LayerNorm, and all else that the pair representation holds, stand between the two.
    """

    def __init__(self, c_z: int, N_head: int, *, clip: int = 32) -> None:
        super().__init__()
        self.clip = clip
        self.linear_relpos = nn.Linear(2 * clip + 1, c_z)
        self.linear_z = nn.Linear(c_z, N_head, bias=False)

    def pair(self, relative: Int[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K c_z"]:
        """Algorithm 4: ``Linear(one_hot(f_i - f_j, [-32, ..., 32]))``, the distance clipped to the outermost bins.

        Relative positions here are those of j to i: the sign is turned.
        """
        bins = (-relative).clamp(-self.clip, self.clip) + self.clip
        one_hot = nn.functional.one_hot(bins, 2 * self.clip + 1)
        return self.linear_relpos(one_hot.to(self.linear_relpos.weight.dtype))

    def forward(self, relative: Int[Tensor, "*B Q K"]) -> Float[Tensor, "*B H Q K"]:
        """The pair representation of relative positions alone, as a bias."""
        return self.linear_z(self.pair(relative)).movedim(-1, -3)
