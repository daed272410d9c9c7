"""Ways in which the inputs of a real call differ from plain, contiguous, normally distributed numbers.

A quirk takes the inputs and a seeded generator and returns other inputs: other values, the same values laid out
otherwise in memory. Names and meanings stand in ``QUIRKS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from impls.problem import CoreInputs

Quirk = Callable[[CoreInputs, Generator], CoreInputs]
QUIRKS: dict[str, Quirk] = {}
LAYOUTS = (
    "cropped", "behind", "turned", "pairs", "heads_last", "unlike", "packed", "beside_gate", "behind_gate",
    "strided", "margins", "one_query", "keys_as_values", "sliding", "expanded", "low_rank",
)  # fmt: skip
"""The quirks that change where numbers stand and not what they are."""
CALLS = ("deterministic", "inference")
"""The quirks that change how a call is made, and no input."""


def quirk(function: Quirk) -> Quirk:
    QUIRKS[function.__name__] = function
    return function


def apply(names: tuple[str, ...], inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """``inputs`` with quirks applied in the order of ``QUIRKS``: values first, then layouts."""
    for name, function in QUIRKS.items():
        if name in names:
            inputs = function(inputs, generator)
    return inputs


def describe(name: str) -> str:
    """What a quirk does, in a sentence."""
    return " ".join((QUIRKS[name].__doc__ or "").split())


# Masks


@quirk
def hole(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """The first and the last row of the mask are valid, the others from one eighth of the keys to seven are not."""
    if inputs.mask is None or not inputs.mask.numel():
        return inputs
    rows = torch.ones_like(inputs.mask).view(-1, inputs.mask.shape[-1])
    rows[1:-1, rows.shape[-1] // 8 : rows.shape[-1] * 7 // 8] = False
    return inputs._replace(mask=rows.view(inputs.mask.shape))


@quirk
def late(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """The first half of the keys is masked; in the first row of the mask every one, in the second all but the last."""
    if inputs.mask is None or not inputs.mask.numel():
        return inputs
    rows = inputs.mask.clone().view(-1, inputs.mask.shape[-1])
    rows[:, : rows.shape[-1] // 2] = False
    rows[:2] = False
    rows[1:, -1] = True
    return inputs._replace(mask=rows.view(inputs.mask.shape))


@quirk
def void(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """No key is valid in any row."""
    return inputs if inputs.mask is None else inputs._replace(mask=torch.zeros_like(inputs.mask))


@quirk
def one_mask(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """One mask for all but the first leading axis, as the templates have."""
    if inputs.mask is None:
        return inputs
    shared = (slice(None), *(slice(0, 1) for _ in inputs.mask.shape[1:-1]))
    return inputs._replace(mask=inputs.mask[shared])


@quirk
def fewer_masks(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A mask without the first leading axis, the same for all along it."""
    return inputs if inputs.mask is None or inputs.mask.dim() < 2 else inputs._replace(mask=inputs.mask[-1])


@quirk
def first_mask(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """One mask for all along the first leading axis, which the mask has with length 1."""
    return inputs if inputs.mask is None or inputs.mask.dim() < 2 else inputs._replace(mask=inputs.mask[:1])


@quirk
def middle_mask(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """One mask for all along the second of three leading axes, as templates share that of their pairs."""
    return inputs if inputs.mask is None or inputs.mask.dim() < 4 else inputs._replace(mask=inputs.mask[:, :1])


@quirk
def whole_rows(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A mask of length 1 along the keys: all of a row are valid, or none."""
    if inputs.mask is None or not inputs.mask.numel():
        return inputs
    return inputs._replace(mask=inputs.mask[..., -1:])


@quirk
def uneven(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """The first row of the mask is padded after a quarter of the keys; the others have more valid keys, and holes."""
    if inputs.mask is None or inputs.mask.numel() < 2:
        return inputs
    K = inputs.mask.shape[-1]
    rows = torch.rand(inputs.mask.shape, generator=generator).to(inputs.mask.device).view(-1, K) < 0.7
    rows[0] = torch.arange(K, device=rows.device) < max(1, K // 4)
    rows[1:, -1] = True
    return inputs._replace(mask=rows.view(inputs.mask.shape))


# Values


@quirk
def calm(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Small logits, positive values and cotangents: a well-conditioned problem, whose budget is tight."""
    q, k, v, bias, mask, cotangent = inputs
    return CoreInputs(q / 16, k, v.abs() + 1, None if bias is None else bias / 8, mask, cotangent.abs() + 1)


@quirk
def flat(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Zero queries, as zero-initialised weights make them, and positive values: every key weighs about the same."""
    q, k, v, bias, mask, cotangent = inputs
    return CoreInputs(q * 0, k, v.abs() + 1, None if bias is None else bias / 8, mask, cotangent)


@quirk
def sharp(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Queries 48 times as large: products of some hundreds, and nearly all rows attend to a single key."""
    return inputs._replace(q=inputs.q * 48)


@quirk
def blank(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A bias of zeros, as zero-initialised weights make it."""
    return inputs if inputs.bias is None else inputs._replace(bias=torch.zeros_like(inputs.bias))


@quirk
def deep(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Every logit about -120: a log-sum-exp far below zero."""
    return _around(inputs, -120.0)


@quirk
def high(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Every logit about +89 (+710 in float64), where exp overflows unless the row's maximum is taken off first."""
    wide = torch.promote_types(inputs.q.dtype, torch.float32)
    return _around(inputs, math.log(torch.finfo(wide).max) + 0.5)


def _around(inputs: CoreInputs, center: float) -> CoreInputs:
    """One channel of q and k carries ``center``; the others make the differences."""
    q, k = inputs.q.clone(), inputs.k.clone()
    q[..., 0] = abs(center) ** 0.5 * q.shape[-1] ** 0.25
    k[..., 0] = center / abs(center) ** 0.5 * q.shape[-1] ** 0.25
    return inputs._replace(q=q, k=k)


@quirk
def large(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Values of the size of 1e4 (256 in float16, whose sums would be too large for it)."""
    return inputs._replace(v=inputs.v * (256 if inputs.v.dtype == torch.float16 else 1e4))


@quirk
def offset(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A constant of up to +-3e4 on each row of the bias: it changes no answer, and costs digits of the logits."""
    if inputs.bias is None:
        return inputs
    constants = torch.rand(inputs.bias[..., :1].shape, generator=generator) * 6e4 - 3e4
    return inputs._replace(bias=inputs.bias + constants.to(inputs.bias))


@quirk
def tiny(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Values below the smallest normal number of their dtype (in float64, of float32)."""
    dtype = torch.float32 if inputs.v.dtype == torch.float64 else inputs.v.dtype
    return inputs._replace(v=inputs.v * (torch.finfo(dtype).smallest_normal / 4))


@quirk
def mask_in_bias(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """-1e9 (-inf in float16) on a third of the bias, never on the first key: masking by a large number."""
    if inputs.bias is None:
        return inputs
    hidden = torch.rand(inputs.bias.shape, generator=generator) < 1 / 3
    hidden[..., 0] = False
    large = torch.tensor(-1e9).to(inputs.bias)
    return inputs._replace(bias=torch.where(hidden.to(inputs.bias.device), large, inputs.bias))


@quirk
def local(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """-inf on the bias of the first half of the keys, as a local attention leaves whole blocks out."""
    if inputs.bias is None or inputs.bias.shape[-1] < 2:
        return inputs
    bias = inputs.bias.clone()
    bias[..., : bias.shape[-1] // 2] = -torch.inf
    return inputs._replace(bias=bias)


@quirk
def chains(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """-inf on the bias between a first chain, of a third of the residues, and a second."""
    if inputs.bias is None or min(inputs.bias.shape[-2:]) < 2:
        return inputs
    first = [torch.arange(n, device=inputs.bias.device) < max(1, n // 3) for n in inputs.bias.shape[-2:]]
    return inputs._replace(bias=inputs.bias.masked_fill(first[0][:, None] != first[1], -torch.inf))


@quirk
def empty_row(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """-inf on a third of the bias, along one whole row of it, and in another on all keys that a mask has left."""
    if inputs.bias is None:
        return inputs
    hidden = torch.rand(inputs.bias.shape, generator=generator) < 1 / 3
    rows = hidden.view(-1, hidden.shape[-1])
    rows[-1] = True
    if inputs.mask is not None and inputs.mask.numel() and len(rows) > 1 and rows.shape[-1] == inputs.mask.shape[-1]:
        rows[-2] |= inputs.mask.reshape(-1, inputs.mask.shape[-1]).cpu()[-1]
    return inputs._replace(bias=inputs.bias.masked_fill(hidden.to(inputs.bias.device), -torch.inf))


@quirk
def lowest_row(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """The lowest finite number of q's dtype along one row of the bias: every key counts alike, and none is NaN."""
    if inputs.bias is None:
        return inputs
    lowest = torch.zeros_like(inputs.bias, dtype=torch.bool)
    lowest.view(-1, lowest.shape[-1])[-1] = True
    return inputs._replace(bias=inputs.bias.masked_fill(lowest, torch.finfo(inputs.q.dtype).min))


@quirk
def faint(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A cotangent of 1e-8 (1e-3 in float16), as of a mean over millions."""
    least = 1e-3 if inputs.cotangent.dtype == torch.float16 else 1e-8
    return inputs._replace(cotangent=inputs.cotangent * least)


@quirk
def loud(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A cotangent 1e4 times as large (256 times in float16), as scaled losses make it."""
    return inputs._replace(cotangent=inputs.cotangent * (256 if inputs.cotangent.dtype == torch.float16 else 1e4))


@quirk
def poison(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """NaN and infinities in masked keys and values."""
    if inputs.mask is None:
        return inputs
    hidden = ~inputs.mask[..., None, :, None].expand(inputs.k.shape)
    garbage = torch.tensor([torch.nan, torch.inf, -torch.inf], dtype=inputs.k.dtype)
    k, v = (
        torch.where(hidden, garbage[torch.randint(3, x.shape, generator=generator)].to(x.device), x)
        for x in (inputs.k, inputs.v)
    )
    return inputs._replace(k=k, v=v)


@quirk
def quiet(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A zero cotangent for rows without a valid key, as when a model multiplies padding away later."""
    if inputs.mask is None:
        return inputs
    empty = ~inputs.mask.any(-1)[..., None, None, None]
    return inputs._replace(cotangent=inputs.cotangent.masked_fill(empty, 0))


@quirk
def rising(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A bias that rises by 40 along the keys: every block of keys has a larger maximum than those before it."""
    return _sloped(inputs, -20, 20)


@quirk
def steep(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A bias that rises by 160 along the keys, by little from each to the next."""
    return _sloped(inputs, -160, 0)


@quirk
def falling(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A bias that falls by 30 along the keys, as with their distance."""
    return _sloped(inputs, 0, -30)


def _sloped(inputs: CoreInputs, first: float, last: float) -> CoreInputs:
    """A straight line from ``first`` to ``last`` along the keys, on a bias that spans them."""
    if inputs.bias is None or inputs.bias.shape[-1] == 1:
        return inputs
    slope = torch.linspace(first, last, inputs.k.shape[-2], device=inputs.bias.device)
    return inputs._replace(bias=inputs.bias + slope.to(inputs.bias))


@quirk
def drifting(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Logits that rise by 2 and values by 4 along the keys, and little else: how blocks of keys are weighed shows."""
    q, k, v, bias, mask, cotangent = inputs
    q, k, along = q / 16, k.clone(), torch.linspace(-1, 1, k.shape[-2], device=k.device).to(k)
    q[..., 0], k[..., 0] = q.shape[-1] ** 0.5, along
    return CoreInputs(q, k, v / 4 + 2 * along[:, None] + 2, None if bias is None else bias / 8, mask, cotangent)


@quirk
def matched(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Each query is twelve times a key, another for each: it finds that key wherever the bias would have it look."""
    Q, K = inputs.q.shape[-2], inputs.k.shape[-2]
    if not K:
        return inputs
    found = (K - 1 - 7 * torch.arange(Q, device=inputs.q.device)) % K
    q = 12 * inputs.k.nan_to_num(0, 0, 0)[..., found, :]
    return inputs._replace(q=q.expand(inputs.q.shape).clone())


@quirk
def sink(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A first key of value 0, above all others by more than digits last (by 8 in float16): these are the answer."""
    q, k, v = (x.clone() for x in (inputs.q, inputs.k, inputs.v))
    digits = -math.log(torch.finfo(torch.promote_types(q.dtype, torch.float32)).eps)
    q[..., 0], k[..., 0] = q.shape[-1] ** 0.5, 0
    k[..., :1, 0], v[..., :1, :] = 8 if q.dtype == torch.float16 else digits + 4, 0
    return inputs._replace(q=q, k=k, v=v)


@quirk
def remainder(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A cotangent of zeros but for the last query of the last row: all that counts is what whole blocks leave over."""
    if not inputs.cotangent.numel():
        return inputs
    cotangent = torch.zeros_like(inputs.cotangent, memory_format=torch.contiguous_format)
    rows = cotangent.shape[-3:]
    cotangent.view(-1, *rows)[-1, :, -1] = inputs.cotangent.reshape(-1, *rows)[-1, :, -1]
    return inputs._replace(cotangent=cotangent)


# Layouts


def _each(inputs: CoreInputs, change: Callable[[Tensor], Tensor]) -> CoreInputs:
    return CoreInputs(*(None if x is None else change(x) for x in inputs))  # type: ignore[arg-type]


@quirk
def heads_last(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Heads stored behind the length, (*, L, H, c), and pair biases (*, Q, K, H), as projections make them."""

    def heads(x: Tensor) -> Tensor:
        return x.transpose(-2, -3).contiguous().transpose(-2, -3)

    q, k, v, bias, mask, cotangent = inputs
    if bias is not None and bias.dim() > 2:
        bias = bias.movedim(-3, -1).contiguous().movedim(-1, -3)
    return CoreInputs(heads(q), heads(k), heads(v), bias, mask, heads(cotangent))


@quirk
def pairs(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A bias with its heads stored last, cut out of that of more residues, NaN beside."""
    if inputs.bias is None or inputs.bias.dim() < 3:
        return inputs
    *batch, H, Q, K = inputs.bias.shape
    z = inputs.bias.new_full((*batch, Q + 3, K + 5, H), torch.nan)
    return inputs._replace(bias=z[..., :Q, :K, :].movedim(-1, -3).copy_(inputs.bias))


@quirk
def turned(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """The last two axes stored in the other order, as in a pair bias that was transposed."""
    return _each(inputs, lambda x: x.mT.contiguous().mT if x.dim() > 1 else x)


@quirk
def unlike(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Heads stored behind the length in v and the cotangent alone, as where q and k were rotated since."""
    v, cotangent = (x.transpose(-2, -3).contiguous().transpose(-2, -3) for x in (inputs.v, inputs.cotangent))
    return inputs._replace(v=v, cotangent=cotangent)


@quirk
def packed(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Slices of one tensor, (*, L, 3, H, c), as a fused projection leaves them; k and v alone where Q is not K."""
    return _sliced(inputs, ["q", "k", "v"], -3)


@quirk
def beside_gate(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Slices of one tensor of q, k, v and a gate, in any order, along any axis; k and v alone where Q is not K."""
    names, axis = ("q", "k", "v", "gate"), int(torch.randint(-3, 0, (), generator=generator))
    order = [names[i] for i in torch.randperm(4, generator=generator).tolist()]
    return _sliced(inputs, order, 0 if axis == -1 else axis)


@quirk
def behind_gate(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Slices of one tensor, (*, L, 4, H, c), of a gate, k, v and q; k and v alone where Q is not K."""
    return _sliced(inputs, ["gate", "k", "v", "q"], -3)


def _sliced(inputs: CoreInputs, order: list[str], axis: int) -> CoreInputs:
    """q, k and v, (*, L, H, c), as slices along a new axis; NaN for the gate, and for q where it does not fit."""
    parts = {name: getattr(inputs, name).transpose(-2, -3) for name in ("q", "k", "v")}
    gate = torch.full_like(parts["k"], torch.nan)
    fitting = {name: x for name, x in parts.items() if x.shape == gate.shape}
    together = torch.stack([fitting.get(name, gate) for name in order], axis)
    cut = dict(zip(order, (x.transpose(-2, -3) for x in together.unbind(axis)), strict=True))
    return inputs._replace(**{name: cut[name] for name in fitting})


@quirk
def cropped(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """The last leading axis is cropped out of a longer one, so that the leading axes are no single one; NaN beside."""

    def crop(x: Tensor | None, axis: int) -> Tensor | None:
        if x is None or x.dim() < -axis:
            return x
        shape = [n + 3 if i == x.dim() + axis else n for i, n in enumerate(x.shape)]
        big = x.new_full(shape, True if x.dtype == torch.bool else torch.nan)
        return big.narrow(axis, 0, x.shape[axis]).copy_(x)

    cropped = {name: crop(x, -2 if name == "mask" else -4) for name, x in inputs._asdict().items()}
    return CoreInputs(**cropped)  # type: ignore[arg-type]


@quirk
def behind(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """All but the first of a longer first axis, as slices are: contiguous, and not at the start of its memory."""

    def slice_of(x: Tensor) -> Tensor:
        big = x.new_full((x.shape[0] + 1, *x.shape[1:]), True if x.dtype == torch.bool else torch.nan)
        return big[1:].copy_(x)

    return _each(inputs, slice_of)


@quirk
def strided(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Every second element along the last two axes of a larger tensor; what lies between is NaN."""

    return _each(inputs, lambda x: window(x, slice(None, None, 2), lambda n: 2 * n))


@quirk
def margins(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """A window into a larger tensor filled with NaN, at no round address: a read past the end of any row shows."""

    return _each(inputs, lambda x: window(x, slice(3, -6), lambda n: n + 9))


def window(x: Tensor, inside: slice, length: Callable[[int], int]) -> Tensor:
    """``x`` as what is ``inside`` the last two axes of a tensor of other ``length``, NaN (or True) elsewhere."""
    kept = min(2, x.dim())
    shape = (*x.shape[:-kept], *(length(n) for n in x.shape[-kept:]))
    big = x.new_full(shape, True if x.dtype == torch.bool else torch.nan)
    view = big[..., inside] if kept == 1 else big[..., inside, inside]
    return view.copy_(x)


@quirk
def one_query(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """The queries of the first of the first leading axis for all along it, with stride 0."""
    return inputs if inputs.q.dim() < 4 else inputs._replace(q=inputs.q[:1].expand(inputs.q.shape))


@quirk
def keys_as_values(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Values that are the keys, in the same memory."""
    return inputs._replace(v=inputs.k.detach())


@quirk
def sliding(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Keys and values as windows that slide along the last leading axis by a key each, in memory that they share."""

    def windows(x: Tensor) -> Tensor:
        if x.dim() < 4 or not x.numel():
            return x
        first, further = x.select(-4, 0), x[..., 1:, :, -1, :].transpose(-2, -3)
        keys = torch.cat([first, further], -2).nan_to_num(0, 0, 0)
        return keys.unfold(-2, x.shape[-2], 1).transpose(-1, -2).transpose(-3, -4)

    return inputs._replace(k=windows(inputs.k), v=windows(inputs.v))


@quirk
def expanded(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Stride 0: keys and values of the first head for all, a bias expanded over what it broadcasts, do as of a sum."""
    q, k, v, bias, mask, cotangent = inputs
    k, v = (x[..., :1, :, :].expand(x.shape) for x in (k, v))
    if bias is not None:
        bias = bias.expand(*q.shape[:-1], k.shape[-2])
    mask = None if mask is None else mask.expand(*q.shape[:-3], k.shape[-2])
    return CoreInputs(q, k, v, bias, mask, cotangent[(0,) * cotangent.dim()].expand(cotangent.shape))


@quirk
def low_rank(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Bias and mask without their leading axes of length 1."""

    def squeeze(x: Tensor) -> Tensor:
        while x.dim() > 1 and x.shape[0] == 1:
            x = x[0]
        return x

    bias, mask = (None if x is None else squeeze(x) for x in (inputs.bias, inputs.mask))
    return inputs._replace(bias=bias, mask=mask)


# Calls


@quirk
def deterministic(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Under ``torch.use_deterministic_algorithms``, where memory that is not yet written holds NaN."""
    return inputs


@quirk
def inference(inputs: CoreInputs, generator: Generator) -> CoreInputs:
    """Under ``torch.inference_mode`` instead of ``torch.no_grad``; without gradients."""
    return inputs
