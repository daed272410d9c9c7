"""What every backend must satisfy, as data: small problems that reach the places where attention kernels go wrong.

A ``Case`` describes one core call completely and reads as one line of text, so that a failure can be repeated from that
line alone. ``cases()`` lists all; ``random_case`` draws others.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from impls.conformance import quirks
from impls.conformance.oneline import as_line, from_line
from impls.masks import make_mask
from impls.problem import DIRECTIONS, DTYPES, MASK_KINDS, OPERATIONS, CoreInputs, CoreProblem, Problem, one_of

LEAVES = ("q", "k", "v", "bias")
GROUPS = (
    "lengths",
    "widths",
    "cross",
    "shared_kv",
    "bias_axes",
    "layouts",
    "values",
    "gradients",
    "batches",
    "heads",
    "blocks",
    "inference",
    "empty",
    "mixed",
)
KINDS = OPERATIONS + GROUPS


@dataclass(frozen=True)
class Case:
    """One core call to be judged.

    Attributes:
        kind: the operation whose shapes these are, or the group of cases that this one belongs to; one of KINDS.
        batch, H, Q, K, c, bias_shape, dtype, H_kv, bias_dtype, device: as in ``CoreProblem``.
        mask: one of MASK_KINDS; the mask has a row for each element of ``batch``.
        grad: which of q, k, v, bias a gradient is wanted of; of none in the forward direction, which runs under
            ``torch.no_grad`` (or, as a quirk, ``torch.inference_mode``).
        quirks: names out of ``impls.conformance.quirks.QUIRKS``.
        repeats: how often the call is made, if more than once with a call on other inputs in between and a second
            backward pass; the answers must be equal to the bit.
        seed: of the inputs.

    Raises ValueError for an unknown name (suggesting the nearest) and where CoreProblem does.
    """

    kind: str
    batch: tuple[int, ...]
    H: int
    Q: int
    K: int
    c: int
    bias_shape: tuple[int, ...] | None = None
    mask: str = "none"
    dtype: str = "float32"
    grad: tuple[str, ...] = ()
    quirks: tuple[str, ...] = ()
    H_kv: int | None = None
    bias_dtype: str | None = None
    device: str = "cpu"
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("kind of case", self.kind, KINDS)
        one_of("mask kind", self.mask, MASK_KINDS)
        for name in self.quirks:
            one_of("quirk", name, tuple(quirks.QUIRKS))
        for name in self.grad:
            one_of("input", name, LEAVES if self.bias_shape is not None else LEAVES[:3])
        if self.grad and "inference" in self.quirks:
            raise ValueError(f"grad={'+'.join(self.grad)}: there are no gradients in inference mode")
        self.core()

    @classmethod
    def of(cls, problem: Problem, **changes: Any) -> Case:
        """The case of an operation: its core call, with gradients of everything when the direction is training."""
        core = problem.core()
        grad = () if problem.direction == "forward" else LEAVES if problem.has_bias else LEAVES[:3]
        case = cls(
            problem.operation, core.batch, core.H, core.Q, core.K, core.c, core.bias_shape, problem.mask, problem.dtype,
            grad, ("one_mask",) if problem.operation == "template_pointwise" else (), device=problem.device,
            seed=problem.seed,
        )  # fmt: skip
        return case.with_(**changes)

    @classmethod
    def parse(cls, text: str) -> Case:
        """The case that ``str`` wrote. Raises ValueError for a field that no case has, or a value it cannot have."""
        return from_line(cls, text)

    def __str__(self) -> str:
        return as_line(self)

    def with_(self, **changes: Any) -> Case:
        """A copy with some fields changed."""
        return replace(self, **changes)

    @property
    def direction(self) -> str:
        return "training" if self.grad else "forward"

    @property
    def family(self) -> str:
        """The kind, and the quirks where those are what the case is about."""
        return " ".join([self.kind, *self.quirks]) if self.kind in ("layouts", "values") else self.kind

    @property
    def traits(self) -> tuple[object, ...]:
        """What is particular about the case, sizes and dtype aside."""
        return (self.mask, self.quirks, self.repeats > 1, self.bias_shape is None, self.H_kv in (None, self.H))

    @property
    def nothing(self) -> bool:
        """Whether an axis is empty, so that there is nothing to compute."""
        return not self.core().scores

    def core(self) -> CoreProblem:
        """The problem that a backend is asked about."""
        return CoreProblem(
            self.batch, self.H, self.Q, self.K, self.c, bias_shape=self.bias_shape, mask=self.mask != "none",
            dtype=self.dtype, device=self.device, H_kv=self.H_kv, bias_dtype=self.bias_dtype,
            training=any(name in self.grad for name in LEAVES[:3]), bias_grad="bias" in self.grad,
        )  # fmt: skip

    def inputs(self) -> CoreInputs:
        """Seeded inputs, with the values and in the layout that the quirks ask for."""
        core, generator = self.core(), torch.Generator().manual_seed(self.seed)

        def draw(shape: tuple[int, ...], dtype: str | None = self.dtype) -> Tensor:
            return torch.randn(shape, generator=generator).to(self.device, getattr(torch, dtype or self.dtype))

        queries, keys = (*self.batch, self.H, self.Q, self.c), (*self.batch, core.H_kv or self.H, self.K, self.c)
        q, k, v, cotangent = draw(queries), draw(keys), draw(keys), draw(queries)
        bias = None if self.bias_shape is None else draw(self.bias_shape, self.bias_dtype)
        mask = make_mask(self.mask, (*self.batch, self.K), seed=self.seed, device=self.device)
        inputs = quirks.apply(self.quirks, CoreInputs(q, k, v, bias, mask, cotangent), generator)
        for name in self.grad:
            getattr(inputs, name).requires_grad_()
        return inputs


SHAPES = {
    "msa_row": Problem(operation="msa_row", B=2, S=3, R=17, N_head=4, c=8),
    "msa_column": Problem(operation="msa_column", B=2, S=7, R=5, N_head=3, c=8),
    "msa_global_column": Problem(operation="msa_global_column", B=2, S=33, R=5, N_head=7, c=8),
    "triangle_starting": Problem(operation="triangle_starting", B=2, R=9, N_head=3, c=16),
    "triangle_ending": Problem(operation="triangle_ending", B=2, R=13, N_head=4, c=8),
    "template_pointwise": Problem(operation="template_pointwise", B=2, R=3, T=5, N_head=4, c=8),
}
"""One small problem an operation, with axes of different and mostly odd lengths."""

LENGTHS = (1, 2, 3, 5, *(m + n for m in (8, 16, 24, 32, 48, 64, 96, 128, 192, 256) for n in (-1, 0, 1)))
"""Around multiples of 8, 16, 32, 64 and 128: of each of them, one that is no multiple of the next."""
WIDTHS = (1, 4, 16, 24, 30, 32, 48, 64, 128, 160)
CROSS = ((1, 1), (1, 9), (9, 1), (1, 300), (7, 33), (33, 7), (130, 3), (3, 130), (1030, 5), (5, 1030), (2, 4097))
"""Numbers of queries and keys that differ; the last exceeds the key chunk of 4096 that a known kernel gets wrong."""


ROW = Case("msa_row", (2, 3), 4, 17, 17, 8, (2, 1, 4, 17, 17), "random", grad=LEAVES)
COLUMN = Case("msa_column", (2, 5), 3, 7, 7, 8, None, "random", grad=LEAVES[:3])
"""What the groups vary: a problem with a pair bias, and one without."""


def cases() -> tuple[Case, ...]:
    """Every operation x dtype x mask kind x direction, then the groups, nearly all in training, then mixtures."""
    groups = (
        lengths, widths, cross, shared_kv, bias_axes, layouts, values, gradients, batches, heads, blocks, inference,
        empty,
    )  # fmt: skip
    return (*operations(), *itertools.chain.from_iterable(group() for group in groups), *mixed())


def few() -> tuple[Case, ...]:
    """The cases of a handful of shapes and dtypes, in plain layout, for a backend that compiles anew for each."""
    shapes = {case.core() for case in (ROW, ROW.with_(dtype="bfloat16"), COLUMN)}
    shapes |= {Case.of(SHAPES[name].with_(mask="random", direction="training")).core() for name in OPERATIONS}
    return tuple(
        case for case in cases() if case.core() in shapes and not {*case.quirks} & {*quirks.LAYOUTS, *quirks.CALLS}
    )


def operations() -> Iterator[Case]:
    """Every operation x dtype x mask kind x direction."""
    for operation, dtype, mask, direction in itertools.product(OPERATIONS, DTYPES, MASK_KINDS, DIRECTIONS):
        yield Case.of(SHAPES[operation].with_(dtype=dtype, mask=mask, direction=direction))


def each(kind: str, dtypes: tuple[str, ...] = DTYPES, *, both: bool = True) -> Iterator[Case]:
    """The two problems that the groups vary (or only the one with a bias), at each dtype."""
    for problem, dtype in itertools.product((ROW, COLUMN) if both else (ROW,), dtypes):
        yield problem.with_(kind=kind, dtype=dtype)


def resized(case: Case, **sizes: int) -> Case:
    """``case`` with other H, Q, K or c, and a bias to match."""
    if case.bias_shape is None:
        return case.with_(**sizes)
    axes = {-3: "H", -2: "Q", -1: "K"}
    shape = list(case.bias_shape)
    for i, name in axes.items():
        if name in sizes and len(shape) >= -i and shape[i] == getattr(case, name):
            shape[i] = sizes[name]
    return case.with_(bias_shape=tuple(shape), **sizes)


def narrowed(case: Case) -> Case:
    """``case`` at the first index of its first leading axis."""
    return case.with_(batch=case.batch[1:], bias_shape=case.bias_shape and case.bias_shape[1:])


def lengths() -> Iterator[Case]:
    """Around every multiple of 8, 16, 32, 64, 128 that a block may have."""
    for case, n in itertools.product(each("lengths", ("float32", "bfloat16")), LENGTHS):
        yield resized(narrowed(case) if n > 64 else case, Q=n, K=n)
    for case, n in itertools.product(each("lengths"), LENGTHS[3:30:6]):
        case = resized(case, Q=n, K=n)
        yield case.with_(grad=())
        if case.dtype in ("float64", "float16"):
            yield case
    for case in each("lengths"):
        yield resized(case, Q=1, K=1).with_(mask="full_row")
        yield resized(case, Q=3, K=1).with_(mask="none", grad=())
        for n in (70, 200):
            for grad in (case.grad, ()):
                yield resized(narrowed(case), Q=37, K=n).with_(mask="none", grad=grad)


def widths() -> Iterator[Case]:
    """Widths of a head: of all published models, and odd ones."""
    for case, c in itertools.product(each("widths", ("float32", "bfloat16")), WIDTHS):
        yield resized(case, c=c)
    for case, c in itertools.product(each("widths", ("float64", "float16")), WIDTHS[4::5]):
        yield resized(case, c=c)


def cross() -> Iterator[Case]:
    """More queries than keys, and the reverse."""
    for case, (Q, K) in itertools.product(each("cross", ("float32", "bfloat16")), CROSS):
        yield resized(case, Q=Q, K=K)
    for case in each("cross", ("float32", "bfloat16"), both=False):
        for bias_shape in ((2, 1, 4, 1, 33), (1, 1, 4, 41, 1)):
            yield case.with_(Q=41, K=33, bias_shape=bias_shape)
    for case in each("cross"):
        yield resized(case, Q=1, K=300).with_(mask="none")
        for (Q, K), grad in itertools.product(((5, 1030), (5, 4097), (1030, 5)), (case.grad, ())):
            for quirk in ("calm", "drifting"):  # sums of one sign
                yield resized(narrowed(case), Q=Q, K=K).with_(quirks=(quirk,), grad=grad)
        for Q, K in ((5, 3500), (4097, 5)):
            yield resized(narrowed(case), Q=Q, K=K).with_(quirks=("calm", "flat"))
    for case in each("cross", both=False):
        yield case.with_(Q=41, K=33, bias_shape=(2, 1, 4, 1, 33), quirks=("remainder",))
        for Q, K, shape in ((1030, 5, (1, 4, 1, 5)), (5, 1030, (1, 4, 5, 1)), (1030, 5, (1, 1, 1, 5))):
            yield narrowed(case).with_(Q=Q, K=K, bias_shape=shape, mask="none")
        yield narrowed(case).with_(Q=1030, K=5, bias_shape=(1, 4, 1, 5), mask="none", quirks=("remainder",))
        # more scores than 16 bits can number
        yield resized(case.with_(batch=(1, 2), bias_shape=(1, 1, 4, 17, 17)), Q=13, K=5120)


def shared_kv() -> Iterator[Case]:
    """Keys and values of one head for all, as in global attention."""
    for case, Q in itertools.product(each("shared_kv"), (1, 7)):
        yield resized(case, Q=Q).with_(H_kv=1)
    for case, H in itertools.product(each("shared_kv"), (6, 12)):
        yield resized(case, H=H).with_(H_kv=1)
    for case in each("shared_kv"):
        for name in case.grad:
            yield case.with_(H_kv=1, grad=(name,), mask="full_row")


def bias_axes() -> Iterator[Case]:
    """A bias that spans any set of the axes batch, S, H, Q, K and broadcasts over the others."""
    full = (2, 3, 4, 17, 17)
    for spans in itertools.product((False, True), repeat=5):
        shape = tuple(n if span else 1 for n, span in zip(full, spans, strict=True))
        for dtype in ("float32", "float16"):
            yield ROW.with_(kind="bias_axes", bias_shape=shape, dtype=dtype)
        for dtype in ("float32", "bfloat16"):  # several blocks, the last in part
            yield resized(ROW.with_(kind="bias_axes", bias_shape=shape, dtype=dtype), Q=41, K=70)
        yield ROW.with_(
            kind="bias_axes", bias_shape=shape, dtype="bfloat16", bias_dtype="float32", quirks=("low_rank",)
        )
    for case in each("bias_axes", both=False):
        yield resized(case, H=12)
        yield case.with_(bias_shape=full, grad=())
        yield resized(case.with_(bias_shape=(2, 3, 1, 17, 17)), H=20)


def layouts() -> Iterator[Case]:
    """Views instead of contiguous tensors; and the same call three times."""
    for case in each("layouts"):
        for quirk in quirks.LAYOUTS[:-1]:  # the last is of a bias alone, and tried with its axes
            yield case.with_(quirks=(quirk,))
        for quirk in ("margins", "expanded"):
            yield resized(case, Q=33, K=33).with_(quirks=(quirk,))
        yield narrowed(case).with_(quirks=("sliding",))
        yield case.with_(repeats=3)
        yield case.with_(repeats=3, grad=())
        yield case.with_(repeats=3, grad=(), quirks=("inference",))


def values() -> Iterator[Case]:
    """Numbers that are large, tiny, not finite or masked; and well-conditioned problems, whose budget is tight."""
    for case in each("values"):
        for n in (1, 2, 5, 33):
            yield resized(case, Q=n + 1, K=n).with_(quirks=("calm",))
        for quirk in ("flat", "sharp", "deep", "high", "tiny", "faint", "loud", "large"):
            yield case.with_(quirks=(quirk,))
        for Q, K in ((64, 64), (1, 128)):
            yield resized(case, Q=Q, K=K).with_(quirks=("deep",))
        for grad in (case.grad, ()):
            yield case.with_(quirks=("poison",), mask="full_row", grad=grad)
            yield case.with_(quirks=("poison", "margins"), mask="padding", grad=grad)
        yield case.with_(quirks=("quiet",), mask="full_row")
        for name in case.grad:
            yield case.with_(quirks=("poison",), mask="full_row", grad=(name,))
        yield resized(case, Q=9, K=1100).with_(quirks=("drifting",), mask="none", grad=())
        yield resized(case, Q=17, K=384).with_(quirks=("drifting",))
        for quirks_ in (("sink",), ("calm", "sink")):
            yield resized(case, Q=2, K=900).with_(quirks=quirks_, mask="none")
        yield resized(narrowed(case), Q=5, K=2049).with_(quirks=("late",))  # more than half precision can count
        for quirk in ("hole", "late"):  # whole blocks of masked keys, and valid ones behind them
            for K in (40, 384):
                yield resized(case, Q=17, K=K).with_(quirks=(quirk,))
            yield resized(case, Q=17, K=384).with_(quirks=(quirk, "margins"))
        yield case.with_(quirks=("void",))
        yield case.with_(quirks=("void", "poison"))
        yield narrowed(case).with_(quirks=("fewer_masks",))
        for quirk in ("first_mask", "whole_rows", "uneven"):
            yield case.with_(quirks=(quirk,))
        if case.bias_shape is None:
            yield case.with_(batch=(2, 3, 2), quirks=("middle_mask",))
    for case in each("values", both=False):
        for quirk in ("blank", "offset", "mask_in_bias", "empty_row", "lowest_row"):
            yield case.with_(quirks=(quirk,))
            yield case.with_(quirks=(quirk,), mask="none")
        yield case.with_(quirks=("offset", "margins"))
        for quirks_ in (("rising",), ("rising", "margins"), ("falling",)):
            yield resized(case, Q=17, K=384).with_(quirks=quirks_)
        yield resized(narrowed(case), Q=150, K=150).with_(quirks=("chains",))
        yield resized(narrowed(case), Q=5, K=2000).with_(quirks=("steep",))
        yield resized(narrowed(case), Q=17, K=384, c=64).with_(quirks=("matched", "falling"))
        yield case.with_(quirks=("empty_row", "poison"), mask="full_row")
        if case.dtype != "float32":
            yield case.with_(bias_dtype="float32")


def gradients() -> Iterator[Case]:
    """A gradient of one input alone, or of some."""
    for case in each("gradients"):
        for name in case.grad:
            yield case.with_(grad=(name,), mask="full_row")
        for grad in (*itertools.combinations(case.grad, 2), LEAVES[:3]):
            yield case.with_(grad=grad)
        if case.bias_shape is not None:
            yield case.with_(grad=("bias",), bias_shape=(2, 1, 1, 17, 17))


def batches() -> Iterator[Case]:
    """No leading axes, three of them, and the grid limit of a GPU (template attention has R^2 leading elements)."""
    for dtype, mask in itertools.product(DTYPES, MASK_KINDS):
        case = ROW.with_(kind="batches", dtype=dtype, mask=mask, repeats=2)
        yield case.with_(batch=(), bias_shape=(4, 17, 17))
        yield case.with_(batch=(2, 1, 3), bias_shape=(2, 1, 1, 4, 17, 17))
        yield case.with_(batch=(3,), bias_shape=None, grad=LEAVES[:3])
        yield case.with_(batch=(17,), bias_shape=(1, 4, 17, 17))  # as triangles have it, a square mask
        yield case.with_(grad=())
        yield case.with_(grad=(), quirks=("inference",))
    shared = ROW.with_(kind="batches", batch=(1, 130), bias_shape=(1, 1, 4, 17, 17))  # by more than a block
    yield shared
    for dtype in DTYPES:
        yield shared.with_(dtype=dtype, quirks=("remainder",))
        case = ROW.with_(kind="batches", dtype=dtype, quirks=("fewer_masks",))
        yield case
        yield case.with_(quirks=("one_mask",))
        yield narrowed(case)
        yield case.with_(batch=(2, 3, 2), bias_shape=(2, 3, 1, 4, 17, 17), quirks=("cropped",))
        yield case.with_(batch=(2, 3, 2), bias_shape=(1, 3, 1, 4, 17, 17), quirks=())
        middle = case.with_(batch=(2, 3, 2), bias_shape=(2, 1, 2, 4, 17, 17), quirks=("middle_mask",))
        yield middle
        yield middle.with_(bias_shape=None, grad=LEAVES[:3])
        yield case.with_(batch=(2, 20), H=8, Q=128, K=128, bias_shape=(2, 1, 8, 128, 128), quirks=())
        yield case.with_(batch=(2, 300), H=1, Q=5, K=7, bias_shape=(2, 1, 1, 5, 7), quirks=())
        yield case.with_(batch=(1,), H=8, Q=192, K=192, bias_shape=(1, 8, 192, 192), quirks=(), repeats=2)
        yield case.with_(quirks=("deterministic",))
        yield case.with_(batch=(2, 20), Q=100, K=100, bias_shape=(2, 1, 4, 100, 100), quirks=("deterministic",))
        equal = Case("batches", (5, 5), 5, 5, 5, 5, (5, 1, 5, 5, 5), "random", dtype=dtype, grad=LEAVES)
        for shape in ((5, 5), (5, 5, 5), (5, 5, 5, 5), (5, 1, 1, 5), (5, 1, 5, 5, 5), (1, 5, 5, 5, 5)):
            yield equal.with_(bias_shape=shape, quirks=("fewer_masks",))  # lengths do not tell axes apart
        for quirk in ("first_mask", "one_mask"):
            yield equal.with_(quirks=(quirk,))
        yield equal.with_(bias_shape=None, grad=(), quirks=("fewer_masks",))
        for bias_shape in (None, (1, 1, 1, 2), (66000, 1, 1, 2)):
            case = Case("batches", (66000,), 1, 1, 2, 4, bias_shape, "random", dtype=dtype)
            yield case
            yield case.with_(grad=LEAVES if bias_shape else LEAVES[:3])
        many = 18000 if dtype == "float16" else 66000  # whose sum, of one sign, is nearly the largest of float16
        summed = Case("batches", (many,), 1, 1, 2, 4, (1, 1, 1, 2), dtype=dtype, grad=LEAVES)
        yield summed.with_(quirks=("calm", "drifting"))
    for n in (65535, 65536):
        yield Case("batches", (n,), 1, 1, 2, 4, None, "random", grad=LEAVES[:3])


def heads() -> Iterator[Case]:
    """Numbers of heads up to those of published models."""
    for case, H in itertools.product(each("heads"), (1, 2, 8, 12, 16, 17, 32)):
        yield resized(case, H=H)
    for case in each("heads"):
        yield resized(case, H=7).with_(H_kv=1)
        yield case.with_(quirks=("expanded",))
        if case.bias_shape is not None:
            yield resized(case.with_(bias_shape=(2, 1, 1, 17, 17)), H=20)


def blocks() -> Iterator[Case]:
    """More queries, keys and sequences than are worked on at once, and more programs than 16 bits can number."""
    for case in each("blocks", both=False):
        row = case.with_(batch=(1, 3), bias_shape=(1, 1, 4, 17, 17))
        yield resized(row, H=2, Q=129, K=513).with_(quirks=("rising", "hole"))
        yield resized(row, H=2, Q=129, K=513).with_(quirks=("late",), grad=())
        yield resized(row, Q=33, K=33, c=160)
        large = Case("blocks", (1,), 4, 300, 300, 256, (1, 4, 300, 300), dtype=case.dtype, grad=LEAVES, repeats=2)
        yield large  # results of more numbers than a small buffer holds
        yield large.with_(grad=())
        yield row.with_(Q=300, K=33, bias_shape=(1, 1, 4, 1, 33), quirks=("remainder",))
        for Q in (1, 33):
            yield resized(row, Q=33, K=33).with_(batch=(1, 70), bias_shape=(1, 1, 4, Q, 33), quirks=("remainder",))
        for bias_shape, grad in ((None, LEAVES[:3]), ((1, 16, 1, 2), LEAVES), ((4097, 1, 1, 2), ())):
            yield Case("blocks", (4097,), 16, 1, 2, 4, bias_shape, "random", dtype=case.dtype, grad=grad)
        yield Case("blocks", (1,), 2, 1030, 1030, 8, (1, 1, 1030, 1030), "random", dtype=case.dtype, grad=LEAVES)
        yield Case("blocks", (520,), 1, 9, 9, 8, (1, 1, 9, 9), dtype=case.dtype, grad=LEAVES)
        yield Case("blocks", (5000,), 1, 2, 3, 4, (1, 1, 2, 3), dtype=case.dtype, grad=LEAVES, quirks=("remainder",))
        for n in (5000, 18000):
            summed = Case("blocks", (n,), 1, 1, 2, 4, (1, 1, 1, 2), dtype=case.dtype, grad=LEAVES)
            yield summed.with_(quirks=("calm", "drifting"))
        yield Case("blocks", (2, 700), 2, 3, 5, 8, (2, 1, 2, 3, 5), dtype=case.dtype, grad=LEAVES)
        pairs = case.with_(batch=(2, 68), bias_shape=(2, 1, 4, 128, 128), H=4, Q=128, K=128)  # 8 million logits
        yield pairs.with_(mask="none")
        if case.dtype in ("float32", "bfloat16"):
            for n in (68, 145):
                yield pairs.with_(batch=(2, n), mask="padding", grad=())
    yield Case("blocks", (136,), 4, 128, 128, 8, (1, 4, 128, 128), grad=LEAVES)


def inference() -> Iterator[Case]:
    """No gradients, where many kernels take another path: other widths, layouts, values and biases than the usual."""
    for case, mask in itertools.product(each("inference"), ("none", "random")):
        case = case.with_(grad=(), mask=mask, quirks=(*case.quirks, "inference") if mask == "random" else ())
        for c in (24, 48, 64):
            yield resized(narrowed(case), Q=33, K=100, c=c)
        for Q, K in ((1, 300), (8, 1100), (9, 1)):
            yield resized(case, Q=Q, K=K)
            yield resized(case, Q=Q, K=K).with_(quirks=(*case.quirks, "drifting"))
        for quirk in (*quirks.LAYOUTS[:-1], "calm", "sharp", "deep", "high"):
            yield case.with_(quirks=(*case.quirks, quirk))
        yield resized(case, Q=3, K=900).with_(quirks=(*case.quirks, "sink"))
        yield resized(case, Q=3, K=900).with_(quirks=(*case.quirks, "calm", "sink"))
        yield resized(case, Q=3, K=300).with_(quirks=(*case.quirks, "calm", "large"))
        yield resized(case, Q=3, K=3000).with_(quirks=(*case.quirks, "calm", "flat"))
        yield resized(case, Q=3, K=2049).with_(quirks=(*case.quirks, "late"))
        if case.bias_shape is None:
            continue
        yield resized(case, Q=3, K=1040).with_(quirks=(*case.quirks, "rising"))
        yield resized(case, Q=3, K=300).with_(quirks=(*case.quirks, "falling"))
        yield resized(case, Q=3, K=384, c=64).with_(quirks=(*case.quirks, "matched", "falling"))
        yield resized(case, Q=3, K=2000).with_(quirks=(*case.quirks, "steep"))
        yield resized(case, Q=150, K=150).with_(quirks=(*case.quirks, "chains"))
        for quirk in ("local", "offset", "mask_in_bias"):
            yield case.with_(quirks=(*case.quirks, quirk))
        for bias_shape in ((2, 3, 4, 17, 17), (2, 3, 1, 1, 17), (1, 1, 4, 17, 1)):
            yield case.with_(bias_shape=bias_shape)


def empty() -> Iterator[Case]:
    """An axis of length zero: zeros, or nothing at all, and zero gradients."""
    for case in each("empty", ("float32", "bfloat16")):
        case = case.with_(mask="padding")
        yield resized(case, K=0)
        yield resized(case, Q=0)
        yield resized(case, H=0)
        bias_shape = None if case.bias_shape is None else (0, 1, *case.bias_shape[2:])
        yield case.with_(batch=(0, 3), bias_shape=bias_shape)


MIXED = 1600
MOST_NUMBERS = 2**18
MIXED_VALUES = (
    "calm", "calm", "calm", "drifting", "drifting", "matched", "sink", "large", "sharp", "blank", "high", "deep",
    "faint", "loud", "offset", "mask_in_bias", "local", "chains", "empty_row", "rising", "steep", "falling", "poison",
)  # fmt: skip


def mixed(which: range = range(MIXED)) -> Iterator[Case]:
    """Everything at once, drawn at random: what is wrong only where two or three things meet, such as no mask, a
    forward pass and a width of 32 with more keys than a block. There are as many as one asks for.
    """
    for n in which:
        yield mixture(random.Random(f"mixed {n}"), dtype=DTYPES[n % len(DTYPES)], seed=n)


def mixture(rng: random.Random, dtype: str, seed: int) -> Case:
    """One case of ``mixed``, of MOST_NUMBERS logits or numbers in q at most; half of all lengths are usual ones."""

    def length(*usual: int, least: int, most: int) -> int:
        return rng.choice(usual) if rng.random() < 0.5 else round(least * (most / least) ** rng.random())

    keys = length(1, 2, 17, 33, 64, 96, 100, 128, 200, 257, 320, least=20, most=3000)
    batch: tuple[int, ...]
    while True:
        K, many = keys, length(70, least=5, most=700)
        few = ((), (1,), (2,), (3,), (1, 5), (2, 3), (3, 1), (1, 2, 3), (2, 3, 2), (2, 1, 2, 2))
        batch = rng.choice((*few, (many,), (2, many), (many, 2)))
        H, c = length(1, 2, 4, 8, 16, 20, least=1, most=32), length(8, 16, 24, 32, 64, 128, least=6, most=256)
        Q = rng.choice((K, K, K, length(1, 17, 33, least=2, most=300)))
        if rng.random() < 0.1:  # lengths that do not tell axes apart
            H = Q = K = c = rng.randint(2, 9)
            batch = (H,) * rng.randint(1, 3)
        if math.prod(batch) * H * max(Q * K, Q * c, K * c) <= MOST_NUMBERS:
            break
    spans = (*(rng.random() < 0.5 for _ in batch), *(rng.random() < share for share in (0.8, 0.9, 0.9)))
    shape = tuple(n if span else 1 for n, span in zip((*batch, H, Q, K), spans, strict=True))
    bias_shape = shape if rng.random() < 0.7 else None
    leaves = LEAVES if bias_shape else LEAVES[:3]
    some = tuple(name for name in leaves if rng.random() < 0.5)
    grad = rng.choice(((), leaves, some, some))
    names = (
        rng.choice(
            (None, None, None, "one_mask", "fewer_masks", "first_mask", "middle_mask", "whole_rows", "late", "uneven")
        ),
        rng.choice((None,) * 8 + MIXED_VALUES),
        rng.choice((None, None, *quirks.LAYOUTS[:-1])),
        rng.choice((None, None, None, None, "low_rank")),
        None if grad else rng.choice((None, "inference")),
        rng.choice((None, None, None, None, None, "deterministic")),
    )
    return Case(
        "mixed", batch, H, Q, K, c, bias_shape, mask=rng.choice(MASK_KINDS), dtype=dtype,
        grad=grad, quirks=tuple(name for name in names if name),
        H_kv=1 if rng.random() < 0.25 else None,
        bias_dtype="float32" if dtype != "float32" and bias_shape and rng.random() < 0.3 else None,
        seed=seed,
    )  # fmt: skip


def random_case(rng: random.Random, **fixed: Any) -> Case:
    """Any case at all, of small size: another problem for each state of ``rng``."""
    batch = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 3)))
    H, Q, K = rng.randint(1, 5), rng.choice((1, 2, 3, 5, 8, 17, 40)), rng.choice((1, 2, 3, 4, 7, 16, 33, 64, 130))
    dtype = fixed.get("dtype") or rng.choice(DTYPES)
    bias_shape = tuple(n if rng.random() < 0.6 else 1 for n in (*batch, H, Q, K)) if rng.random() < 0.6 else None
    half = dtype in ("bfloat16", "float16")
    case = Case(
        "values", batch, H, Q, K, rng.choice((1, 2, 4, 8, 16, 32)), bias_shape,
        mask=rng.choice(MASK_KINDS),
        dtype=dtype,
        grad=LEAVES if bias_shape else LEAVES[:3],
        quirks=tuple(name for name in quirks.QUIRKS if name not in quirks.CALLS and rng.random() < 0.08),
        H_kv=1 if rng.random() < 0.2 else None,
        bias_dtype="float32" if half and bias_shape and rng.random() < 0.4 else None,
        seed=rng.randrange(2**31),
    )  # fmt: skip
    return case.with_(**fixed)
