"""Wrong modules, each a small change to a right one (``right_modules.Plain``): the checker must reject them all."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from right_modules import PAIR, Plain, of_kind
from torch import nn

from impls.conformance.modules.cases import DTYPES_TRIED
from impls.conformance.modules.judge import Subject
from impls.problem import OPERATIONS

GLOBAL = ("msa_global_column",)
BIASED = ("msa_row", *PAIR)
NORMALISED = tuple(name for name in OPERATIONS if name != "template_pointwise")


@dataclass(frozen=True)
class ModuleMutant:
    """A wrong module, and the operations and dtypes in which it is wrong."""

    name: str
    subject: Subject
    operations: tuple[str, ...] = OPERATIONS
    dtypes: tuple[str, ...] = DTYPES_TRIED


MODULE_MUTANTS: dict[str, ModuleMutant] = {}


def wrong_in(*operations: str, dtypes: tuple[str, ...] = DTYPES_TRIED) -> Callable[[type[Plain]], type[Plain]]:
    """Registers a mutant that is wrong in these operations (all if none is named)."""

    def register(kind: type[Plain]) -> type[Plain]:
        name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind.__name__).strip("_")
        MODULE_MUTANTS[name] = ModuleMutant(name, of_kind(kind), operations or OPERATIONS, dtypes)
        return kind

    return register


# Gate and output


@wrong_in()
class GateWithoutSigmoid(Plain):
    def gate(self, m, raw, o):
        return self.linear_g(m) if hasattr(self, "linear_g") else 1.0


@wrong_in()
class GateFromTheOutput(Plain):
    def gate(self, m, raw, o):
        return torch.sigmoid(o + 0 * self.linear_g(m)) if hasattr(self, "linear_g") else 1.0


@wrong_in(*NORMALISED)
class GateFromUnnormalisedInput(Plain):
    def gate(self, m, raw, o):
        return super().gate(raw, raw, o)


@wrong_in()
class GateIgnored(Plain):
    def gate(self, m, raw, o):
        return 1.0 + 0 * super().gate(m, raw, o)


@wrong_in()
class GateOfFirstHeadForAll(Plain):
    def gate(self, m, raw, o):
        g = super().gate(m, raw, o)
        if isinstance(g, float):
            return g
        g = g.unflatten(-1, (self.N_head, -1))
        return (g[..., :1, :] + 0 * g).flatten(-2)


@wrong_in()
class GateDetached(Plain):
    """Right forward."""

    def gate(self, m, raw, o):
        g = super().gate(m, raw, o)
        return g if isinstance(g, float) else g.detach() + 0 * g


@wrong_in(*GLOBAL)
class GateOfFirstSequenceForAll(Plain):
    def output(self, m, raw, o):
        return (
            super().output(m[..., :1, :], raw, o).expand(m.shape)
            if hasattr(self, "linear_g")
            else super().output(m, raw, o)
        )


@wrong_in()
class ProjectionBeforeTheGate(Plain):
    def output(self, m, raw, o):
        g = self.gate(m, raw, o)
        return self.linear_o(o) * (g if isinstance(g, float) else g.mean(-1, keepdim=True))


@wrong_in()
class OutputBiasDropped(Plain):
    def output(self, m, raw, o):
        return super().output(m, raw, o) - self.linear_o.bias


@wrong_in()
class ResidualAdded(Plain):
    def output(self, m, raw, o):
        return super().output(m, raw, o) + raw


# LayerNorm


@wrong_in(*NORMALISED)
class LayerNormMissing(Plain):
    def normalised(self, x):
        return x + 0 * self.layer_norm(x)


@wrong_in(*NORMALISED)
class LayerNormWithoutMean(Plain):
    def normalised(self, x):
        return F.rms_norm(x, x.shape[-1:], self.layer_norm.weight, 1e-5) + self.layer_norm.bias


@wrong_in(*NORMALISED)
class LayerNormWithoutBias(Plain):
    def normalised(self, x):
        return super().normalised(x) - self.layer_norm.bias


@wrong_in(*NORMALISED, dtypes=("float64", "float32"))
class LayerNormOfAnotherEps(Plain):
    """In bfloat16 it shows where inputs are tiny, and nowhere else."""

    def normalised(self, x):
        return F.layer_norm(x, x.shape[-1:], self.layer_norm.weight, self.layer_norm.bias, 1e-3)


@wrong_in("template_pointwise")
class TemplateNormalised(Plain):
    def normalised(self, x):
        return F.layer_norm(x, x.shape[-1:])


@wrong_in("msa_row")
class LayerNormOfZMissing(Plain):
    def pair_bias(self, x, z):
        return super().pair_bias(x, z) + self.linear_z(z - self.layer_norm_z(z)).movedim(-1, -3).unsqueeze(-4)


# Pair bias and nodes


@wrong_in(*PAIR)
class NodesExchanged(Plain):
    def __init__(self, operation, *widths, **options):
        super().__init__({PAIR[0]: PAIR[1], PAIR[1]: PAIR[0]}.get(operation, operation), *widths, **options)


@wrong_in(*BIASED)
class BiasTransposed(Plain):
    """Of the ending node: not transposed."""

    def pair_bias(self, x, z):
        bias = super().pair_bias(x, z)
        return None if bias is None else bias.mT


@wrong_in(*PAIR)
class BiasFromUnnormalisedInput(Plain):
    def pair_bias(self, x, z):
        x = x.transpose(-2, -3) if self.operation == "triangle_ending" else x
        return self.linear_z(x).movedim(-1, -3).unsqueeze(-4)


@wrong_in(*BIASED)
class BiasDropped(Plain):
    def pair_bias(self, x, z):
        bias = super().pair_bias(x, z)
        return None if bias is None else 0 * bias


@wrong_in(*BIASED)
class BiasOfFirstHeadForAll(Plain):
    def pair_bias(self, x, z):
        bias = super().pair_bias(x, z)
        return None if bias is None else bias[..., :1, :, :] + 0 * bias


@wrong_in(*BIASED)
class BiasOfFirstBatchForAll(Plain):
    def pair_bias(self, x, z):
        bias = super().pair_bias(x, z)
        return bias if bias is None or bias.dim() < 5 or not len(bias) else bias[:1] + 0 * bias


@wrong_in(*BIASED)
class BiasDetached(Plain):
    """Right forward; no gradient of z, or of x through the bias."""

    def pair_bias(self, x, z):
        bias = super().pair_bias(x, z)
        return None if bias is None else bias.detach() + 0 * bias


# Heads and attention


@wrong_in()
class HeadsFast(Plain):
    """The channels of a head are N_head apart instead of side by side."""

    def split(self, x):
        return x.unflatten(-1, (x.shape[-1] // self.N_head, self.N_head)).transpose(-1, -2).transpose(-2, -3)


@wrong_in()
class HeadsMergedInReverse(Plain):
    def merge(self, o):
        return super().merge(o.flip(-3))


@wrong_in()
class ScaleOfTheWholeWidth(Plain):
    def core(self, q, k, v, bias, mask):
        return super().core(q * self.N_head**-0.5, k, v, bias, mask)


@wrong_in()
class ScaleMissing(Plain):
    def core(self, q, k, v, bias, mask):
        return super().core(q * q.shape[-1] ** 0.5, k, v, bias, mask)


@wrong_in()
class KeysDetached(Plain):
    """Right forward."""

    def core(self, q, k, v, bias, mask):
        return super().core(q, k.detach() + 0 * k, v, bias, mask)


# Global attention


@wrong_in(*GLOBAL)
class MeanUnmasked(Plain):
    def mean(self, m, mask):
        return m.mean(-2)


@wrong_in(*GLOBAL)
class MeanOverAllPositions(Plain):
    """The sum over the valid, divided by the number of all."""

    def mean(self, m, mask):
        return m.mean(-2) if mask is None else m.masked_fill(~mask.unsqueeze(-1), 0).mean(-2)


@wrong_in(*GLOBAL)
class MeanIsTheFirst(Plain):
    def mean(self, m, mask):
        return m[..., 0, :]


@wrong_in(*GLOBAL)
class MeanIsTheSum(Plain):
    def mean(self, m, mask):
        return (m if mask is None else m.masked_fill(~mask.unsqueeze(-1), 0)).sum(-2)


@wrong_in(*GLOBAL)
class MeanDetached(Plain):
    """Right forward."""

    def mean(self, m, mask):
        mean = super().mean(m, mask)
        return mean.detach() + 0 * mean


@wrong_in(*GLOBAL)
class KeysAndValuesPerHead(Plain):
    def core(self, q, k, v, bias, mask):
        k, v = (torch.cat([y.roll(h, -1) for h in range(self.N_head)], -3) for y in (k, v))
        return super().core(q, k, v, bias, mask)


# Masks


@wrong_in()
class MaskIgnored(Plain):
    def forward(self, x, z=None, t=None, mask=None):
        return super().forward(x, z, t)


@wrong_in()
class MaskOfFirstBatchForAll(Plain):
    def forward(self, x, z=None, t=None, mask=None):
        batched = mask is not None and mask.dim() > (1 if t is not None else 2) and len(mask)
        return super().forward(x, z, t, mask[:1].expand(mask.shape) if batched else mask)


@wrong_in(*PAIR)
class MaskTransposed(Plain):
    def forward(self, x, z=None, t=None, mask=None):
        return super().forward(x, z, t, None if mask is None else mask.mT)


@wrong_in(*NORMALISED)
class MaskOnTheOutput(Plain):
    def forward(self, x, z=None, t=None, mask=None):
        out = super().forward(x, z, t, mask)
        return out if mask is None or out.shape != x.shape else out.masked_fill(~mask.unsqueeze(-1), 0)


@wrong_in()
class RowsWithoutKeysUniform(Plain):
    def attention(self, q, k, v, bias, mask):
        o = super().attention(q, k, v, bias, mask)
        if mask is None:
            return o
        values = v.repeat(*[1] * (v.dim() - 1), self.N_head) if self.operation == "msa_global_column" else v
        return torch.where(mask.any(-1)[..., None, None], o, values.mean(-2, keepdim=True))


@wrong_in()
class RowsWithoutKeysUnmasked(Plain):
    def attention(self, q, k, v, bias, mask):
        return super().attention(q, k, v, bias, None if mask is None else mask | ~mask.any(-1, keepdim=True))


# Precision, state and memory


@wrong_in()
class InputOverwritten(Plain):
    def normalised(self, x):
        m = super().normalised(x)
        x.data.copy_(m) if m is not x else x.data.mul_(2)
        return m


@wrong_in()
class InputOverwrittenWithoutGradients(Plain):
    """As an inference path in place does it."""

    def forward(self, x, z=None, t=None, mask=None):
        out = super().forward(x, z, t, mask)
        return out if torch.is_grad_enabled() or out.shape != x.shape else x.copy_(out)


@wrong_in()
class WrongWithoutGradients(Plain):
    """As an inference path of its own may be."""

    def output(self, m, raw, o):
        return super().output(m, raw, o if torch.is_grad_enabled() else o.roll(1, -1))


@wrong_in()
class ScaleFoldedIntoTheWeights(Plain):
    def forward(self, x, z=None, t=None, mask=None):
        out = super().forward(x, z, t, mask)
        self.linear_q.weight.data.mul_(0.5)
        return out


@wrong_in(dtypes=("float64", "float32"))
class RoundedToBfloat16(Plain):
    def output(self, m, raw, o):
        return super().output(m, raw, o + (o.bfloat16().to(o.dtype) - o).detach())


@wrong_in(dtypes=("float64",))
class SecretlyFloat32(Plain):
    def core(self, q, k, v, bias, mask):
        return super().core(q.float(), k.float(), v.float(), None if bias is None else bias.float(), mask).double()


# What outlives a call, and paths that are seldom taken


@wrong_in()
class WeightsPackedOnce(Plain):
    """Without gradients the projections are packed at the first call, and stay as they were then."""

    def forward(self, x, z=None, t=None, mask=None):
        names = ("linear_q", "linear_k", "linear_v")
        if torch.is_grad_enabled():
            return super().forward(x, z, t, mask)
        if not hasattr(self, "packed"):
            self.packed = {name: getattr(self, name).weight.detach().clone() for name in names}
        with torch.no_grad():
            kept = {name: getattr(self, name).weight.clone() for name in names}
            for name in names:
                getattr(self, name).weight.data = self.packed[name]
            out = super().forward(x, z, t, mask)
            for name in names:
                getattr(self, name).weight.data = kept[name]
        return out


@wrong_in(*BIASED)
class PairBiasCachedByShape(Plain):
    def pair_bias(self, x, z):
        found = super().pair_bias(x, z)
        if torch.is_grad_enabled():
            return found
        self.biases = getattr(self, "biases", {})
        return self.biases.setdefault(found.shape, found)


@wrong_in()
class ResultInABuffer(Plain):
    def forward(self, x, z=None, t=None, mask=None):
        out = super().forward(x, z, t, mask)
        if torch.is_grad_enabled():
            return out
        self.results = getattr(self, "results", {})
        return self.results.setdefault(out.shape, torch.empty_like(out)).copy_(out)


@wrong_in()
class SavedInAWorkspace(Plain):
    """What the backward pass needs lies where the next forward pass puts its own."""

    def core(self, q, k, v, bias, mask):
        self.space, order = getattr(self, "space", {}), itertools.count()

        def kept(x):
            key = (next(order), x.shape, x.dtype)
            return self.space.setdefault(key, torch.empty_like(x)).copy_(x.detach())

        with torch.autograd.graph.saved_tensors_hooks(kept, lambda x: x.clone()):
            return super().core(q, k, v, bias, mask)


@wrong_in(*NORMALISED)
class NoGateInEvaluation(Plain):
    def gate(self, m, raw, o):
        return super().gate(m, raw, o) if self.training else 1.0


@wrong_in("template_pointwise")
class MaskForgottenForOneTemplate(Plain):
    def forward(self, x, z=None, t=None, mask=None):
        return super().forward(x, z, t, None if t.shape[-4] == 1 else mask)


@wrong_in("msa_row", dtypes=("float32",))
class PairGradientOfSixteenSequences(Plain):
    def core(self, q, k, v, bias, mask):
        S = q.shape[-4]
        if S > 16 and bias is not None and bias.requires_grad:
            bias = bias.expand(*bias.shape[:-4], S, *bias.shape[-3:])
            first = (torch.arange(S) < 16)[:, None, None, None]
            bias.register_hook(lambda dbias: dbias * first)
        return super().core(q, k, v, bias, mask)


@wrong_in(*BIASED)
class PairBiasOfEightHeads(Plain):
    def pair_bias(self, x, z):
        found = super().pair_bias(x, z)
        return found[..., torch.arange(self.N_head) % 8, :, :] if self.N_head > 8 else found


@wrong_in("msa_column")
class MaskOfTheFirstBlockForTheLast(Plain):
    """Without gradients, residues are worked on in blocks of 64."""

    def forward(self, x, z=None, t=None, mask=None):
        R = x.shape[-2]
        if not torch.is_grad_enabled() and mask is not None and R > 64:
            mask = mask.clone()
            mask[..., R // 64 * 64 :] = mask[..., : R % 64]
        return super().forward(x, z, t, mask)


@wrong_in("msa_row")
class MaskOfTheFirstSequences(Plain):
    """Without gradients, sequences are worked on in blocks of 128."""

    def core(self, q, k, v, bias, mask):
        if not torch.is_grad_enabled() and mask is not None:
            mask = mask[..., torch.arange(mask.shape[-2]) % 128, :]
        return super().core(q, k, v, bias, mask)


@wrong_in("msa_row")
class FirstSequenceAskedForMasks(Plain):
    """Of an MSA it is the target, of which no residue is masked."""

    def core(self, q, k, v, bias, mask):
        if mask is not None and mask.numel() and mask.reshape(-1, mask.shape[-1])[0].all():
            mask = None
        return super().core(q, k, v, bias, mask)


@wrong_in("msa_row")
class PairBiasKeptForItsInput(Plain):
    """Without gradients it is made anew for another z or other weights, and not for other numbers in the same z."""

    made_from, kept = (), None

    def pair_bias(self, x, z):
        if torch.is_grad_enabled():
            return super().pair_bias(x, z)
        weights = (self.linear_z.weight, self.layer_norm_z.weight, self.layer_norm_z.bias)
        made_from = (id(z), *((id(w), w._version) for w in weights))
        if self.made_from != made_from:
            self.made_from, self.kept, self.z = made_from, super().pair_bias(x, z), z
        return self.kept


@wrong_in(*BIASED)
class BiasDetachedInEvaluation(Plain):
    """Gradients in evaluation mode are what designs are optimised by."""

    def pair_bias(self, x, z):
        bias = super().pair_bias(x, z)
        return bias if bias is None or self.training else bias.detach() + 0 * bias


@wrong_in(*BIASED)
class BiasDroppedInTrainingWithoutGradients(Plain):
    """As in all but the last of AlphaFold's recycles."""

    def pair_bias(self, x, z):
        bias = super().pair_bias(x, z)
        return bias if torch.is_grad_enabled() or not self.training else torch.zeros_like(bias)


@wrong_in(*BIASED)
class PairGradientOnlyWithThatOfTheWeights(Plain):
    """Frozen weights are taken for a frozen bias."""

    def pair_bias(self, x, z):
        bias = super().pair_bias(x, z)
        return bias if self.linear_z.weight.requires_grad else bias.detach() + 0 * bias


@wrong_in(*BIASED)
class PairWeightsGradientOnlyWithThatOfThePair(Plain):
    """Where what is projected is frozen, so is the projection."""

    def pair_bias(self, x, z):
        bias = super().pair_bias(x, z)
        if self.operation == "msa_row":
            made_from = (z, *self.layer_norm_z.parameters())
        else:
            made_from = (x, *self.layer_norm.parameters())
        return bias if any(y.requires_grad for y in made_from) else bias.detach() + 0 * bias


# What is wrong for some widths, some values or some calls only


class TiledNorm(nn.LayerNorm):
    """Variances of tiles of 64 channels, averaged without the spread of the tiles' means."""

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        tiles = wide.split(64, -1)
        variance = (
            sum((tile - tile.mean(-1, keepdim=True)).square().mean(-1, keepdim=True) * tile.shape[-1] for tile in tiles)
            / x.shape[-1]
        )
        normal = (wide - wide.mean(-1, keepdim=True)) * (variance + self.eps).rsqrt()
        return (normal * self.weight + self.bias).to(x.dtype)


@wrong_in("msa_row", "triangle_ending")
class LayerNormOfTiles(Plain):
    """Right for up to 64 channels."""

    def __init__(self, *widths, **options):
        super().__init__(*widths, **options)
        for name, norm in list(self.named_children()):
            if isinstance(norm, nn.LayerNorm):
                setattr(self, name, TiledNorm(norm.normalized_shape))


@wrong_in("msa_row", "msa_column")
class MaskOfNumbersAdded(Plain):
    """A mask of zeros and ones goes to the kernel as a bias."""

    def core(self, q, k, v, bias, mask):
        if not self.numbers:
            return super().core(q, k, v, bias, mask)
        added = mask.to(q.dtype)[..., None, None, :]
        return super().core(q, k, v, added if bias is None else bias + added, None)

    def forward(self, x, z=None, t=None, mask=None):
        self.numbers = mask is not None and mask.is_floating_point()
        return super().forward(x, z, t, mask)


@wrong_in("msa_row", dtypes=("float32", "bfloat16"))
class AnotherEpsWithoutGradients(Plain):
    """The fused LayerNorm of an inference path has 1e-6, in all dtypes that it is for."""

    wide = torch.float32

    def forward(self, x, z=None, t=None, mask=None):
        fused = not torch.is_grad_enabled() and torch.finfo(x.dtype).bits <= torch.finfo(self.wide).bits
        for norm in self.children():
            if isinstance(norm, nn.LayerNorm):
                norm.eps = 1e-6 if fused else 1e-5
        return super().forward(x, z, t, mask)


@wrong_in("msa_row", dtypes=("bfloat16",))
class AnotherEpsWithoutGradientsInHalf(AnotherEpsWithoutGradients):
    wide = torch.bfloat16


@wrong_in("msa_row", "triangle_starting")
class NormGradientsOfTheFirstRows(Plain):
    """Those of LayerNorm's weight and bias: partial sums of 64 programs, of 64 rows each."""

    def normalised(self, x):
        rows = x.flatten(0, -2)
        norm, counted = self.layer_norm, torch.arange(len(rows))[:, None] < 4096
        weight = torch.where(counted, norm.weight, norm.weight.detach())
        bias = torch.where(counted, norm.bias, norm.bias.detach())
        return (F.layer_norm(rows, rows.shape[-1:]) * weight + bias).view(x.shape)


@wrong_in(*PAIR)
class ScaleOfThePaddedWidth(Plain):
    """Without gradients heads are padded to a power of two."""

    def core(self, q, k, v, bias, mask):
        c = q.shape[-1]
        padded = 1 << (c - 1).bit_length()
        return super().core(q if torch.is_grad_enabled() else q * (c / padded) ** 0.5, k, v, bias, mask)
