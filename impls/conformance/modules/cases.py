"""What every module must satisfy, as data: small problems that reach the places where attention modules go wrong.

A ``ModuleCase`` describes one call of a module completely, parameters included, and reads as one line of text.
``module_cases()`` lists all; ``random_module_case`` draws others.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from impls.conformance.modules import quirks
from impls.conformance.oneline import as_line, from_line
from impls.masks import MASKED_ROWS, make_mask
from impls.problem import DTYPES, MASK_KINDS, OPERATIONS, one_of

DTYPES_TRIED = ("float64", "float32", "bfloat16")
GROUPS = (
    "", "lengths", "widths", "batches", "gradients", "gates", "values", "poison", "layouts", "blocks", "empty", "mixed",
)  # fmt: skip
GRADIENTS = {"msa_row": ("x", "z", "parameters"), "template_pointwise": ("x", "t", "parameters")}
AXES = {
    "msa_row": ("S", "R", "c_z"),
    "msa_column": ("S", "R"),
    "msa_global_column": ("S", "R"),
    "triangle_starting": ("R",),
    "triangle_ending": ("R",),
    "template_pointwise": ("T", "R", "c_t"),
}
"""What an operation has beside batch, N_head, c and c_in."""


class ModuleInputs(NamedTuple):
    """Parameters by name, the module's arguments by name, and the cotangent that its backward pass is given."""

    parameters: dict[str, Tensor]
    arguments: dict[str, Tensor]
    cotangent: Tensor


@dataclass(frozen=True)
class ModuleCase:
    """One call of a module to be judged.

    Attributes:
        operation: one of OPERATIONS.
        batch: leading axes, any number of them.
        N_head, c, c_in, S, R, T, c_z, c_t: as in ``Problem``; an operation ignores what it lacks.
        group: the group of cases that this one belongs to; one of GROUPS, empty for the plain shapes.
        gated: whether there is a gate.
        mask: one of MASK_KINDS.
        masked_rows: what a row with no valid key yields, one of MASKED_ROWS.
        dtype: of the parameters and all inputs.
        grad: which of x, z, t and parameters (all, or some by their names) a gradient is wanted of; of none in the
            forward direction, which runs under ``torch.no_grad`` (or, as a quirk, ``torch.inference_mode``).
        quirks: names out of ``impls.conformance.modules.quirks.QUIRKS``.
        repeats: how often the call is made, if more than once after one with other weights, with a call on other inputs
            in between and a second backward pass; the answers must be equal to the bit.
        seed: of parameters and inputs.

    Raises ValueError for an unknown name (suggesting the nearest) or a size that cannot be.
    """

    operation: str
    batch: tuple[int, ...]
    N_head: int
    c: int
    c_in: int
    S: int = 1
    R: int = 1
    T: int = 1
    c_z: int = 1
    c_t: int = 1
    group: str = ""
    gated: bool = True
    mask: str = "none"
    masked_rows: str = "zero"
    dtype: str = "float32"
    grad: tuple[str, ...] = ()
    quirks: tuple[str, ...] = ()
    repeats: int = 1
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        one_of("operation", self.operation, OPERATIONS)
        one_of("group of cases", self.group, GROUPS)
        one_of("mask kind", self.mask, MASK_KINDS)
        one_of("masked_rows policy", self.masked_rows, MASKED_ROWS)
        one_of("dtype", self.dtype, DTYPES)
        for name in self.quirks:
            one_of("quirk", name, tuple(quirks.QUIRKS))
        for name in self.grad:
            one_of("input", name, (*self.wanted, *self.leaves))
        if self.grad and "inference" in self.quirks:
            raise ValueError(f"grad={'+'.join(self.grad)}: there are no gradients in inference mode")
        for name in ("N_head", "c", "c_in", "c_z", "c_t"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: a width is at least 1")
        for name, size in {"S": self.S, "R": self.R, "T": self.T, "batch": min(self.batch, default=0)}.items():
            if size < 0:
                raise ValueError(f"{name}={size}: a length cannot be negative")

    @classmethod
    def parse(cls, text: str) -> ModuleCase:
        """The case that ``str`` wrote. Raises ValueError for a field that no case has, or a value it cannot have."""
        return from_line(cls, text)

    def __str__(self) -> str:
        return as_line(self)

    def with_(self, **changes: Any) -> ModuleCase:
        """A copy with some fields changed."""
        return replace(self, **changes)

    @property
    def kind(self) -> str:
        """The operation, and the group if it is not of the plain shapes."""
        return f"{self.operation} {self.group}".strip()

    @property
    def family(self) -> str:
        """The group, and the quirks where those are what the case is about."""
        about = self.quirks if self.group in ("layouts", "values") else ()
        return " ".join([self.group or "shapes", *about])

    @property
    def direction(self) -> str:
        return "training" if self.grad else "forward"

    @property
    def wanted(self) -> tuple[str, ...]:
        """All that has a gradient."""
        return GRADIENTS.get(self.operation, ("x", "parameters"))

    @property
    def leaves(self) -> tuple[str, ...]:
        """All tensors that have one, by their names."""
        return (*self.wanted[:-1], *self.parameter_shapes())

    @property
    def traits(self) -> tuple[object, ...]:
        """What is particular about the case, sizes and dtype aside."""
        return (self.operation, self.gated, self.mask, self.quirks, self.repeats > 1)

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to attend to, or nothing that attends."""
        return not math.prod((*self.batch, *(getattr(self, name) for name in AXES[self.operation])))

    def at_heart(self) -> ModuleCase:
        """The case with the same numbers in plain layout, called once, with all gradients if with any: its budget
        serves for both.
        """
        values = tuple(name for name in self.quirks if name in quirks.VALUES)
        return self.with_(group="", quirks=values, repeats=1, grad=self.wanted if self.grad else ())

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the parameters, in ``torch.nn.Linear``'s layout."""
        width, c_in = self.N_head * self.c, self.c_in
        kv_width = self.c if self.operation == "msa_global_column" else width
        kv_in = self.c_t if self.operation == "template_pointwise" else c_in
        shapes: dict[str, tuple[int, ...]] = {
            "linear_q.weight": (width, c_in),
            "linear_k.weight": (kv_width, kv_in),
            "linear_v.weight": (kv_width, kv_in),
            "linear_o.weight": (c_in, width),
            "linear_o.bias": (c_in,),
        }
        if self.gated:
            shapes |= {"linear_g.weight": (width, c_in), "linear_g.bias": (width,)}
        if self.operation != "template_pointwise":
            shapes |= {"layer_norm.weight": (c_in,), "layer_norm.bias": (c_in,)}
        if self.operation == "msa_row":
            shapes |= {"layer_norm_z.weight": (self.c_z,), "layer_norm_z.bias": (self.c_z,)}
            shapes |= {"linear_z.weight": (self.N_head, self.c_z)}
        if self.operation.startswith("triangle"):
            shapes |= {"linear_z.weight": (self.N_head, c_in)}
        return shapes

    def argument_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of x, z, t and mask (without channels)."""
        batch, S, R, T = self.batch, self.S, self.R, self.T
        x = (*batch, S, R) if self.operation.startswith("msa") else (*batch, R, R)
        if self.operation == "msa_row":
            return {"x": x, "z": (*batch, R, R), "mask": x}
        if self.operation == "template_pointwise":
            return {"t": (*batch, T, R, R), "x": x, "mask": (*batch, T)}
        return {"x": x, "mask": x}

    def inputs(self) -> ModuleInputs:
        """Seeded parameters and inputs, with the values and in the layout that the quirks ask for.

        Nothing in them is special: LayerNorm neither starts at 1 and 0, nor is x normalised already.
        """
        generator = torch.Generator().manual_seed(self.seed)

        def draw(shape: tuple[int, ...], spread: float = 1.0, center: float = 0.0) -> Tensor:
            return torch.randn(shape, generator=generator) * spread + center

        parameters = {
            name: draw(shape, 0.3, 1.0)
            if name.startswith("layer_norm") and name.endswith("weight")
            else draw(shape, 1 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.5)
            for name, shape in self.parameter_shapes().items()
        }
        widths = {"x": self.c_in, "z": self.c_z, "t": self.c_t}
        shapes = self.argument_shapes()
        arguments = {name: draw((*shapes[name], c), 1.5, 0.5) for name, c in widths.items() if name in shapes}
        if (mask := self.keys(shapes["mask"])) is not None:
            arguments["mask"] = mask
        out = shapes["x"]
        if self.operation == "msa_global_column" and not self.gated:
            out = (*self.batch, 1, self.R)
        inputs = ModuleInputs(parameters, arguments, draw((*out, self.c_in)))
        inputs = quirks.values(self.quirks, inputs)

        def place(x: Tensor) -> Tensor:
            return x.to(self.device, getattr(torch, self.dtype) if x.is_floating_point() else x.dtype)

        arguments = {name: place(x) for name, x in inputs.arguments.items()}
        arguments = quirks.layouts(self.quirks, arguments)
        parameters = {name: place(x) for name, x in inputs.parameters.items()}
        for name in set(self.grad) & set(arguments):
            arguments[name].requires_grad_()
        return ModuleInputs(parameters, arguments, place(inputs.cotangent))

    def keys(self, shape: tuple[int, ...]) -> Tensor | None:
        """The mask, whose rows (see ``impls.masks.make_mask``) lie along the attended axis."""
        columns = self.operation in ("msa_column", "msa_global_column", "triangle_ending")
        rows = (*shape[:-2], shape[-1], shape[-2]) if columns else shape
        if self.mask != "none" and not math.prod(rows):
            return torch.zeros(shape, dtype=torch.bool)
        mask = make_mask(self.mask, rows, seed=self.seed)
        return mask.mT.contiguous() if columns and mask is not None else mask


SHAPES = {
    "msa_row": ModuleCase("msa_row", (2,), N_head=4, c=8, c_in=11, S=3, R=7, c_z=13),
    "msa_column": ModuleCase("msa_column", (2,), N_head=4, c=8, c_in=11, S=7, R=3),
    "msa_global_column": ModuleCase("msa_global_column", (2,), N_head=3, c=8, c_in=11, S=9, R=5),
    "triangle_starting": ModuleCase("triangle_starting", (2,), N_head=3, c=8, c_in=11, R=7),
    "triangle_ending": ModuleCase("triangle_ending", (2,), N_head=3, c=8, c_in=11, R=7),
    "template_pointwise": ModuleCase("template_pointwise", (2,), N_head=4, c=8, c_in=11, R=3, T=5, c_t=13, gated=False),
}
"""One small problem an operation, with axes and widths that differ."""

ATTENDED = dict(zip(OPERATIONS, ("R", "S", "S", "R", "R", "T"), strict=True))
LENGTHS = (1, 2, 3, 8, 16, 17, 33)
MANY = 130
"""More than a block of any usual size, and no multiple of one."""
WIDTHS = ((1, 1, 3), (3, 1, 5), (5, 3, 16), (16, 2, 24), (32, 5, 7), (2, 12, 5), (24, 4, 128), (32, 8, 256))
"""A head's width, the number of heads, and the channels of x."""


def module_cases(operations: Iterable[str] = OPERATIONS) -> tuple[ModuleCase, ...]:
    """For each operation: dtype x mask kind x direction, then the groups, then mixtures."""
    groups = (lengths, widths, batches, gradients, gates, values, poison, layouts, blocks, empty)
    found: list[ModuleCase] = []
    for shape in (SHAPES[operation] for operation in operations):
        for dtype, mask, grad in itertools.product(DTYPES_TRIED, MASK_KINDS, ((), shape.wanted)):
            found.append(shape.with_(dtype=dtype, mask=mask, grad=grad))
        for dtype, group in itertools.product(DTYPES_TRIED, groups):
            base = shape.with_(group=group.__name__, dtype=dtype, mask="random", grad=shape.wanted)
            found += group(base)
        found += mixed(shape.operation)
    return tuple(dict.fromkeys(found))


def lengths(base: ModuleCase) -> Iterator[ModuleCase]:
    """Lengths of the attended axis, with nothing to attend to as well; and one, or many, that attend along it."""
    attended = ATTENDED[base.operation]
    for n in LENGTHS if base.dtype == "float32" else LENGTHS[:-1]:
        yield base.with_(**{attended: n})
    for n in (1, 2):
        yield base.with_(**{attended: n}, mask="full_row")
    for other in ("S", "R"):
        if other in AXES[base.operation] and other != attended:
            yield base.with_(**{other: 1})
            if "T" not in AXES[base.operation]:
                for grad in (base.wanted, ()) if base.dtype == "float32" else ((),):
                    yield base.with_(**{other: MANY}, grad=grad)


def widths(base: ModuleCase) -> Iterator[ModuleCase]:
    """Widths of a head, one head, and more channels than heads fill or fewer."""
    for c, N_head, c_in in WIDTHS:
        case = base.with_(c=c, N_head=N_head, c_in=c_in)
        yield case
        if c_in > 64:  # as wide as in real models
            for names in ((), ("uneven",)):
                yield case.with_(c_z=128, quirks=names, grad=())


def batches(base: ModuleCase) -> Iterator[ModuleCase]:
    """No leading axes, three of them, and many entries: thousands of rows of LayerNorm."""
    for batch in ((), (3,), (2, 1, 3)):
        for grad in (base.wanted, ()):
            yield base.with_(batch=batch, mask="full_row", repeats=2, grad=grad)
    yield base.with_(batch=(2, MANY))
    yield base.with_(batch=(3,), **{ATTENDED[base.operation]: 1}, mask="full_row")


def gradients(base: ModuleCase) -> Iterator[ModuleCase]:
    """A gradient of one input alone, of the parameters alone, of one of them, or of nothing."""
    for name in (*base.leaves, "parameters"):
        yield base.with_(grad=(name,))
    yield base.with_(grad=())


def gates(base: ModuleCase) -> Iterator[ModuleCase]:
    """A gate where there is usually none, and none where there is one; with all, or all but one, frozen as well."""
    for grad, mask in itertools.product(((), base.wanted), ("none", "full_row")):
        yield base.with_(gated=not base.gated, grad=grad, mask=mask)
    other = base.with_(gated=not base.gated, grad=())
    for grad in (other.wanted[:-1], *((name,) for name in other.leaves)):
        yield other.with_(grad=grad)


def values(base: ModuleCase) -> Iterator[ModuleCase]:
    """Inputs that are tiny or far from zero, and parameters as at the start of training or far from there."""
    for name in quirks.VALUES:
        if name != "poison":
            yield base.with_(quirks=(name,))
            yield base.with_(quirks=(name,), mask="full_row", gated=True)
            yield base.with_(quirks=(name,), grad=())


def poison(base: ModuleCase) -> Iterator[ModuleCase]:
    """NaN in padding, forward."""
    for mask in MASK_KINDS[1:]:
        yield base.with_(quirks=("poison",), mask=mask, grad=())


def layouts(base: ModuleCase) -> Iterator[ModuleCase]:
    """Views instead of contiguous tensors; and the same call three times."""
    for name in quirks.LAYOUTS:
        yield base.with_(quirks=(name,), grad=())
        yield base.with_(quirks=(name,), mask="full_row")
    for grad in ((), base.wanted):
        yield base.with_(repeats=3, grad=grad)


def blocks(base: ModuleCase) -> Iterator[ModuleCase]:
    """More heads, sequences, residues or rows of LayerNorm than are worked on at once; 800,000 numbers, forward."""
    if base.operation == "msa_global_column" and base.dtype == "float32":
        yield base.with_(batch=(), S=3, R=1025, c_in=257, grad=())
    for other in ("S", "R"):
        if other in AXES[base.operation] and other != ATTENDED[base.operation] and "T" not in AXES[base.operation]:
            for grad in (base.wanted, ()):
                yield base.with_(batch=(), **{other: MANY}, grad=grad)
    yield base.with_(N_head=12)
    if base.operation != "template_pointwise":
        yield base.with_(N_head=1, **{axis: 65 for axis in ("S", "R") if axis in AXES[base.operation]})
    attended = ATTENDED[base.operation]
    others = {axis: 2 for axis in ("S", "R") if axis in AXES[base.operation] and axis != attended}
    if others or base.dtype == "float32":  # the third power of R is long to compute
        yield base.with_(batch=(), N_head=1, c=4, **others, **{attended: 260}, grad=())


def empty(base: ModuleCase) -> Iterator[ModuleCase]:
    """An axis of length zero, forward: nothing, or what the output projection makes of nothing."""
    if base.dtype == "float32":
        for mask in ("none", "padding"):
            yield base.with_(batch=(0, 3), grad=(), mask=mask)
            for axis in ("S", "R", "T"):
                if axis in AXES[base.operation]:
                    yield base.with_(**{axis: 0}, grad=(), mask=mask)


MIXED = 240
MIXED_WORK = 500_000


def mixed(operation: str) -> Iterator[ModuleCase]:
    """Everything at once, drawn at random, of the widths of real models: what is wrong only where two or three things
    meet, such as a forward pass, faint inputs and more channels than a tile. Of four of a dtype that want gradients,
    two want that of one tensor, and one none of the parameters', if it is not narrow and would want all.
    """
    rng, names = random.Random(f"mixed {operation}"), SHAPES[operation].with_(gated=True).leaves
    turns = {dtype: itertools.cycle(names) for dtype in DTYPES_TRIED}
    for n in range(MIXED):
        case = module_mixture(rng, operation=operation, dtype=DTYPES_TRIED[n % len(DTYPES_TRIED)], seed=n)
        turn = n // len(DTYPES_TRIED) % 4
        if turn == 0 and case.c_in > 8 and case.grad == case.wanted:
            case = case.with_(grad=case.wanted[:-1])
        elif turn in (1, 2) and case.grad:
            case = case.with_(grad=(next(name for name in turns[case.dtype] if name in case.leaves),))
        yield case


def module_mixture(rng: random.Random, operation: str, dtype: str, seed: int) -> ModuleCase:
    """One case of ``mixed``, of ``work`` MIXED_WORK at most; in one of ten LayerNorm has thousands of narrow rows."""
    narrow = rng.random() < 0.1
    while True:
        case = ModuleCase(
            operation,
            batch=rng.choice(((), (1,), (2,), (3,), (2, 3))),
            N_head=rng.choice((1, 2) if narrow else (1, 2, 3, 4, 8, 8, 12, 16)),
            c=8 if narrow else rng.choice((8, 16, 24, 32, 32, 48)),
            c_in=8 if narrow else rng.choice((8, 64, 96, 128, 128, 192, 256, 256)),
            S=rng.choice((65, 70)) if narrow else rng.choice((1, 2, 5, 9, 17, 33, 65, 70, 130)),
            R=rng.choice((65, 70)) if narrow else rng.choice((1, 2, 7, 16, 17, 33, 65, 70, 130)),
            T=rng.choice((1, 2, 4, 5)),
            c_z=8 if narrow else rng.choice((8, 64, 128, 128)),
            c_t=8 if narrow else 64,
            group="mixed",
            gated=SHAPES[operation].gated if rng.random() < 0.8 else not SHAPES[operation].gated,
            mask=rng.choice(MASK_KINDS),
            dtype=dtype,
            repeats=rng.choice((1, 1, 2)),
            seed=seed,
        )
        if work(case) <= MIXED_WORK:
            break
    some = tuple(name for name in case.wanted if rng.random() < 0.5)
    grad = rng.choice(((), (), case.wanted, case.wanted, some))
    values = [name for name in quirks.VALUES if name != "poison" or (case.gated and not grad)]
    names = (
        rng.choice((None,) * len(values) + (*values, "faint", "uneven")),
        rng.choice((None, "numbers")),
        rng.choice((None, None, *quirks.VIEWS)),
        rng.choice((None, "other_mode")),
        None if grad else rng.choice((None, "inference")),
    )
    return case.with_(grad=grad, quirks=tuple(name for name in names if name))


def work(case: ModuleCase) -> int:
    """How many numbers a module makes of its inputs, logits included."""
    rows = math.prod(case.argument_shapes()["t" if case.operation == "template_pointwise" else "x"])
    pairs = math.prod(case.batch) * case.R**2 * case.c_z if case.operation == "msa_row" else 0
    queries = case.R if case.operation == "msa_global_column" else rows
    logits = queries * case.N_head * getattr(case, ATTENDED[case.operation])
    return rows * (case.c_in + 4 * case.N_head * case.c) + pairs + logits


def random_module_case(rng: random.Random, **fixed: Any) -> ModuleCase:
    """Any case at all, of small size: another problem for each state of ``rng``."""
    operation = fixed.get("operation") or rng.choice(OPERATIONS)
    sizes: dict[str, Any] = {name: rng.choice((1, 2, 3, 5, 8, 13)) for name in ("S", "R", "T", "c", "c_z", "c_t")}
    case = ModuleCase(
        operation,
        tuple(rng.randint(1, 3) for _ in range(rng.randint(0, 2))),
        N_head=rng.randint(1, 5),
        c_in=rng.choice((3, 5, 7, 16, 24)),
        group="values",
        gated=rng.random() < 0.7,
        mask=rng.choice(MASK_KINDS),
        masked_rows=rng.choice(MASKED_ROWS),
        dtype=rng.choice(DTYPES_TRIED),
        quirks=tuple(name for name in (*quirks.VALUES, *quirks.LAYOUTS)
                     if name != "poison" and rng.random() < 0.08),
        seed=rng.randrange(2**31),
        **(sizes | {"c_z": max(3, sizes["c_z"])}),
    )  # fmt: skip
    return case.with_(grad=case.wanted).with_(**fixed)
