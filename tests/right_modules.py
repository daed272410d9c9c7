"""Right modules, written in other ways than ours: none may ever be rejected.

``Plain`` is a module as one writes it in PyTorch: one for all six operations, made of steps that ``module_mutants``
changes; ``Tiled`` is that with attention over tiles of keys. ``functional`` computes the same from parameters, one head
at a time, in another arrangement of everything; and ``in_order`` has it take every sum term by term, or a few at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from impls.conformance.modules.cases import ModuleCase
from impls.conformance.modules.judge import Subject, built

LOG2E = math.log2(math.e)
PAIR = ("triangle_starting", "triangle_ending")


class Plain(nn.Module):
    """All six operations over ``scaled_dot_product_attention``; a transpose brings the attended axis to its place."""

    def __init__(self, operation: str, *widths, c: int, N_head: int, gated: bool | None = None) -> None:
        super().__init__()
        self.operation, self.N_head = operation, N_head
        x_in = widths[1] if operation == "template_pointwise" else widths[0]
        kv_in, inner = widths[0], N_head * c
        kv_inner = c if operation == "msa_global_column" else inner
        if operation != "template_pointwise":
            self.layer_norm = nn.LayerNorm(x_in)
        if operation == "msa_row":
            self.layer_norm_z = nn.LayerNorm(widths[1])
        if operation in ("msa_row", *PAIR):
            self.linear_z = nn.Linear(widths[1] if operation == "msa_row" else x_in, N_head, bias=False)
        self.linear_q = nn.Linear(x_in, inner, bias=False)
        self.linear_k = nn.Linear(kv_in, kv_inner, bias=False)
        self.linear_v = nn.Linear(kv_in, kv_inner, bias=False)
        self.linear_o = nn.Linear(inner, x_in)
        if operation != "template_pointwise" if gated is None else gated:
            self.linear_g = nn.Linear(x_in, inner)

    def forward(
        self, x: Tensor, z: Tensor | None = None, t: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        mask = None if mask is None else mask.bool()
        raw, m = x, self.normalised(x)
        bias = self.pair_bias(x, z)
        if self.columns:
            raw, m = raw.transpose(-2, -3), m.transpose(-2, -3)
            mask = None if mask is None else mask.transpose(-1, -2)
        if self.operation == "template_pointwise":
            q, y = m.unsqueeze(-2), t.movedim(-4, -2)
            mask = None if mask is None else mask[..., None, None, :].expand(y.shape[:-1])
        elif self.operation == "msa_global_column":
            q, y = self.mean(m, mask).unsqueeze(-2), m
        else:
            q, y = m, m
        o = self.attention(self.linear_q(q), self.linear_k(y), self.linear_v(y), bias, mask)
        if self.operation == "template_pointwise":
            o = o.squeeze(-2)
        out = self.output(m, raw, o)
        return out.transpose(-2, -3) if self.columns else out

    @property
    def columns(self) -> bool:
        return self.operation in ("msa_column", "msa_global_column", "triangle_ending")

    def normalised(self, x: Tensor) -> Tensor:
        return self.layer_norm(x) if hasattr(self, "layer_norm") else x

    def pair_bias(self, x: Tensor, z: Tensor | None) -> Tensor | None:
        """(*, 1, N_head, R, R), with queries before keys."""
        if self.operation == "msa_row":
            return self.linear_z(self.layer_norm_z(z)).permute(*range(z.dim() - 3), -1, -3, -2).unsqueeze(-4)
        if self.operation in PAIR:
            z = self.normalised(x)
            z = z.transpose(-2, -3) if self.operation == "triangle_ending" else z
            return self.linear_z(z).permute(*range(z.dim() - 3), -1, -3, -2).unsqueeze(-4)
        return None

    def mean(self, m: Tensor, mask: Tensor | None) -> Tensor:
        """(*, R, c_m), of the valid sequences of m (*, R, S, c_m)."""
        if mask is None:
            return m.mean(-2)
        weights = mask.to(m.dtype).unsqueeze(-1)
        return (m.masked_fill(~mask.unsqueeze(-1), 0) * weights).sum(-2) / (weights.sum(-2) + 1e-8)

    def split(self, x: Tensor) -> Tensor:
        """(*, length, N_head * c) as (*, N_head, length, c)."""
        return x.unflatten(-1, (self.N_head, x.shape[-1] // self.N_head)).transpose(-2, -3)

    def merge(self, o: Tensor) -> Tensor:
        return o.transpose(-2, -3).flatten(-2)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        if self.operation == "msa_global_column":
            q, k, v = self.split(q), k.unsqueeze(-3), v.unsqueeze(-3)
        else:
            q, k, v = self.split(q), self.split(k), self.split(v)
        if mask is not None:
            k, v = (y.masked_fill(~mask[..., None, :, None], 0) for y in (k, v))
        return self.merge(self.core(q, k, v, bias, mask))

    def core(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        k, v = (y.expand(*y.shape[:-3], q.shape[-3], *y.shape[-2:]) for y in (k, v))
        logits = None if bias is None else bias.expand(*q.shape[:-1], k.shape[-2])
        if mask is not None:
            hidden = ~mask[..., None, None, :]
            logits = q.new_zeros(()) if logits is None else logits
            logits = torch.where(hidden, -torch.inf, logits).expand(*q.shape[:-1], k.shape[-2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=logits)

    def output(self, m: Tensor, raw: Tensor, o: Tensor) -> Tensor:
        """``m`` normalised, ``raw`` as it came, ``o`` (*, length, N_head * c)."""
        return self.linear_o(self.gate(m, raw, o) * o)

    def gate(self, m: Tensor, raw: Tensor, o: Tensor) -> Tensor | float:
        return self.linear_g(m).sigmoid() if hasattr(self, "linear_g") else 1.0


class Tiled(Plain):
    """Softmax over tiles of keys, in float32 at least; queries are scaled before anything else."""

    TILE = 5

    def attention(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        return super().attention(q * (q.shape[-1] // self.N_head) ** -0.5, k, v, bias, mask)

    def core(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        o = total = q.new_zeros((), dtype=wide)
        largest = q.new_full((*q.shape[:-1], 1), -torch.inf, dtype=wide)
        for first in range(0, k.shape[-2], self.TILE):
            tile = slice(first, first + self.TILE)
            logits = (q @ k[..., tile, :].mT).to(wide)
            if bias is not None:
                logits = logits + bias[..., tile]
            if mask is not None:
                logits = logits.masked_fill(~mask[..., None, None, tile], -torch.inf)
            new = torch.maximum(largest, logits.detach().amax(-1, keepdim=True))
            shift = new.masked_fill(new == -torch.inf, 0)
            e, before = (logits - shift).exp(), (largest - shift).exp()
            o, total, largest = o * before + (e.to(v.dtype) @ v[..., tile, :]), total * before + e.sum(-1, True), new
        return (o / total.masked_fill(total == 0, 1)).to(q.dtype).expand(*q.shape[:-1], v.shape[-1])


def functional(case: ModuleCase, p: dict[str, Tensor], /, x: Tensor, z=None, t=None, mask=None) -> Tensor:
    """Base-two softmax, one head after the other, gate and output a head, in float32 at least."""
    dtype, wide = x.dtype, torch.promote_types(x.dtype, torch.float32)
    p = {name: w.to(wide) for name, w in p.items()}
    x, z, t = (None if y is None else y.to(wide) for y in (x, z, t))

    def norm(y: Tensor, name: str) -> Tensor:
        variance, mean = torch.var_mean(y, -1, correction=0, keepdim=True)
        return torch.addcmul(p[f"{name}.bias"], (y - mean) * (variance + 1e-5).rsqrt(), p[f"{name}.weight"])

    operation, c = case.operation, case.c
    mask = None if mask is None else mask.bool()
    m = x if operation == "template_pointwise" else norm(x, "layer_norm")
    pair = norm(z, "layer_norm_z") if operation == "msa_row" else m
    swap = operation in ("msa_column", "msa_global_column", "triangle_ending")
    m = m.movedim(-3, -2) if swap else m
    pair = pair.movedim(-3, -2) if swap else pair
    valid = torch.ones(m.shape[:-1], dtype=torch.bool) if mask is None else mask.mT if swap else mask
    y = m
    if operation == "template_pointwise":
        y = t.permute(*range(t.dim() - 4), -3, -2, -4, -1)
        valid = torch.ones(y.shape[:-1], dtype=torch.bool) if mask is None else mask[..., None, None, :]
    out = 0
    for h in range(case.N_head):
        of_head = slice(h * c, (h + 1) * c)
        kv = slice(None) if operation == "msa_global_column" else of_head
        k, v = y @ p["linear_k.weight"][kv].T, y @ p["linear_v.weight"][kv].T
        k, v = (torch.where(valid[..., None], part, 0) for part in (k, v))
        query = m
        if operation == "msa_global_column":
            total = torch.einsum("...lc,...l->...c", torch.where(valid[..., None], m, 0), valid.to(wide))
            query = (total / valid.sum(-1, keepdim=True).clamp(min=1)).unsqueeze(-2)
        elif operation == "template_pointwise":
            query = m.unsqueeze(-2)
        q = query @ p["linear_q.weight"][of_head].T
        logits = torch.einsum("...qc,...kc->...qk", q, k) * (c**-0.5 * LOG2E)
        if "linear_z.weight" in p:
            logits = logits + (pair @ p["linear_z.weight"][h] * LOG2E)[..., None, :, :]
        logits = torch.where(valid[..., None, :], logits, -1e9)
        largest = logits.detach().amax(-1, keepdim=True) if logits.shape[-1] else 0
        a = torch.exp2(logits - largest) * valid[..., None, :]
        o = torch.einsum("...qk,...kc->...qc", a, v) / a.sum(-1, keepdim=True).clamp(min=1e-30)
        o = o.squeeze(-2) if operation == "template_pointwise" else o
        if "linear_g.weight" in p:
            o = o / (1 + torch.exp(-F.linear(m, p["linear_g.weight"][of_head], p["linear_g.bias"][of_head])))
        out = out + o @ p["linear_o.weight"][:, of_head].T
    out = out + p["linear_o.bias"]
    return (out.movedim(-3, -2) if swap else out).to(dtype)


def of_kind(kind: type[Plain]) -> Subject:
    """``kind``, which is told the operation before anything else, and no node."""

    def form(case: ModuleCase, parameters: dict[str, Tensor]):
        def build(*widths, c: int, N_head: int, gated: bool | None = None) -> Plain:
            return kind(case.operation, *(n for n in widths if isinstance(n, int)), c=c, N_head=N_head, gated=gated)

        return built(kind.__name__, build).form(case, parameters)

    return Subject(kind.__name__, form)


class InOrder(TorchDispatchMode):
    """Products and sums begin with the bias, if any, and take so many terms at once, in float32 at least."""

    def __init__(self, at_once: int) -> None:
        super().__init__()
        self.at_once = at_once

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.bmm, torch.ops.aten.addmm):
            *bias, left, right = args
            return self.added(zip(left.split(self.at_once, -1), right.split(self.at_once, -2), strict=True), *bias)
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket is torch.ops.aten.sum and args[0].is_floating_point() and out.numel():
            over = args[1] if len(args) > 1 and args[1] else range(args[0].dim())
            rows = args[0].movedim(tuple(over), tuple(range(-len(over), 0))).flatten(-len(over)) if over else out[None]
            ones = torch.ones_like(rows[..., :1])
            parts = rows.split(self.at_once, -1)
            terms = ((part[..., None, :], ones[..., None].expand(*part.shape, 1)) for part in parts)
            out = self.added(terms).reshape(out.shape).to(out.dtype)
        return out

    def added(self, terms, total: Tensor | float = 0.0) -> Tensor:
        for left, right in terms:
            wide = torch.promote_types(left.dtype, torch.float32)
            total = total + left.to(wide) @ right.to(wide)
        return total.to(left.dtype)


class Recomputed(torch.autograd.Function):
    """``call(*tensors)``, both passes under a mode of PyTorch's dispatcher."""

    @staticmethod
    def forward(ctx, mode: TorchDispatchMode, call: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        ctx.mode = mode
        needed = ctx.needs_input_grad[2:]
        leaves = [x.detach().requires_grad_(need) for x, need in zip(tensors, needed, strict=True)]
        with torch.enable_grad(), mode:
            out = call(*leaves)
        ctx.out, ctx.leaves = out, leaves
        return out.detach()

    @staticmethod
    def backward(ctx, cotangent: Tensor):
        wanted = [x for x in ctx.leaves if x.requires_grad]
        with ctx.mode:
            found = iter(torch.autograd.grad(ctx.out, wanted, cotangent, retain_graph=True, allow_unused=True))
        return None, None, *(next(found) if x.requires_grad else None for x in ctx.leaves)


def in_order(case: ModuleCase, p: dict[str, Tensor], /, *, at_once: int, **arguments: Tensor) -> Tensor:
    """``functional``, with sums taken in order."""

    def call(*tensors: Tensor) -> Tensor:
        given = dict(zip((*p, *arguments), tensors, strict=True))
        return functional(case, {name: given.pop(name) for name in p}, **given)

    return Recomputed.apply(InOrder(at_once), call, *p.values(), *arguments.values())


def as_function(case: ModuleCase, parameters: dict[str, Tensor]):
    return partial(functional, case), parameters


def as_sums(at_once: int):
    return lambda case, parameters: (partial(in_order, case, at_once=at_once), parameters)


RIGHT = {
    "plain": of_kind(Plain),
    "tiled": of_kind(Tiled),
    "functional": Subject("functional", as_function),
    "one_by_one": Subject("one_by_one", as_sums(1)),
    "by_sevens": Subject("by_sevens", as_sums(7)),
}
