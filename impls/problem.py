"""What is computed: frozen descriptions of one attention problem, and its seeded inputs. Loads no torch by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch
    from jaxtyping import Bool, Float
    from torch import Tensor

OPERATIONS = (
    "msa_row",  # algorithm 7: MSA row attention with pair bias
    "msa_column",  # algorithm 8: MSA column attention
    "msa_global_column",  # algorithm 19: MSA column global attention
    "triangle_starting",  # algorithm 13: triangle attention around the starting node
    "triangle_ending",  # algorithm 14: triangle attention around the ending node
    "template_pointwise",  # algorithm 17: template pointwise attention
)
DTYPES = ("float64", "float32", "bfloat16", "float16")
MASK_KINDS = ("none", "padding", "random", "full_row")
DIRECTIONS = ("forward", "training")


def one_of(what: str, value: str, known: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``known``; else raise ValueError that suggests the nearest."""
    if value in known:
        return value
    near = get_close_matches(str(value), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown {what} {value!r}{hint} (known: {', '.join(known)})")


@dataclass(frozen=True)
class CoreProblem:
    """One call of the core, ``q (*batch, H, Q, c)`` against ``k, v (*batch, H_kv, K, c)``, as asked of a backend.

    ``bias_shape`` broadcasts to ``(*batch, H, Q, K)``; ``mask`` says whether a key mask is given; ``bias_dtype`` is
    ``dtype`` unless the bias is kept in float32. ``training`` means that a gradient of q, k or v is wanted,
    ``bias_grad`` that the bias's is.

    Raises ValueError for an unknown dtype, a negative or missing length, or a bias that does not broadcast.
    """

    batch: tuple[int, ...]
    H: int
    Q: int
    K: int
    c: int
    bias_shape: tuple[int, ...] | None = None
    mask: bool = False
    dtype: str = "float32"
    device: str = "cpu"
    H_kv: int | None = None
    bias_dtype: str | None = None
    training: bool = False
    bias_grad: bool = False

    def __post_init__(self) -> None:
        batch = (self.batch,) if isinstance(self.batch, int) else tuple(self.batch)
        dtype = one_of("dtype", str(self.dtype).removeprefix("torch."), DTYPES)
        bias_dtype = dtype if self.bias_dtype is None else str(self.bias_dtype).removeprefix("torch.")
        set_ = object.__setattr__
        set_(self, "batch", batch)
        set_(self, "dtype", dtype)
        set_(self, "device", str(self.device).partition(":")[0])
        set_(self, "H_kv", self.H if self.H_kv is None else self.H_kv)
        set_(self, "bias_dtype", one_of("bias dtype", bias_dtype, DTYPES))
        sizes = {"H": self.H, "Q": self.Q, "K": self.K, "c": self.c} | {f"batch[{i}]": n for i, n in enumerate(batch)}
        for name, size in sizes.items():
            if size < (1 if name == "c" else 0):
                raise ValueError(f"{name}={size}: a length cannot be negative, and c must be at least 1")
        if self.H_kv not in (1, self.H):
            raise ValueError(f"keys have {self.H_kv} heads, queries {self.H}: keys and values have as many heads, or 1")
        if self.bias_shape is not None:
            set_(self, "bias_shape", tuple(self.bias_shape))
            if not broadcasts(self.bias_shape, self.scores_shape):
                raise ValueError(
                    f"bias of shape {self.bias_shape} does not broadcast to {self.scores_shape} (*, H, Q, K)"
                )

    @property
    def scores_shape(self) -> tuple[int, ...]:
        """``(*batch, H, Q, K)``."""
        return (*self.batch, self.H, self.Q, self.K)

    @property
    def scores(self) -> int:
        """How many logits there are: batch x H x Q x K."""
        return math.prod(self.scores_shape)


def broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a tensor of ``shape`` broadcasts to exactly ``target``."""
    return len(shape) <= len(target) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(target), strict=False)
    )


class CoreInputs(NamedTuple):
    """Tensors for one core call and the cotangent that its backward pass is given."""

    q: Float[Tensor, "*B H Q c"]
    k: Float[Tensor, "*B H K c"]
    v: Float[Tensor, "*B H K c"]
    bias: Float[Tensor, "*#B #H #Q #K"] | None
    mask: Bool[Tensor, "*#B K"] | None
    cotangent: Float[Tensor, "*B H Q c"]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One AlphaFold attention: the operation, its axes and widths, and how it is to be run.

    B batch, S sequences, R residues, T templates, N_head heads of width c; c_in channels of the main input (c_m or c_e
    of the MSA, c_z of the pair representation), c_z of the pair representation beside it (row attention), c_t of
    the templates. An operation ignores the axes it lacks. ``mask`` is one of MASK_KINDS, ``direction`` of DIRECTIONS.

    Raises ValueError for an unknown operation, dtype, mask or direction (naming the nearest) and for an axis below 1.
    """

    operation: str
    B: int = 1
    S: int = 128
    R: int = 256
    T: int = 4
    N_head: int = 8
    c: int = 32
    c_in: int = 256
    c_z: int = 128
    c_t: int = 64
    dtype: str = "float32"
    device: str = "cpu"
    mask: str = "none"
    direction: str = "forward"
    seed: int = field(default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", str(self.dtype).removeprefix("torch."))
        object.__setattr__(self, "device", str(self.device))
        one_of("operation", self.operation, OPERATIONS)
        one_of("dtype", self.dtype, DTYPES)
        one_of("mask kind", self.mask, MASK_KINDS)
        one_of("direction", self.direction, DIRECTIONS)
        for name in ("B", "S", "R", "T", "N_head", "c", "c_in", "c_z", "c_t"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: every axis of a problem has at least length 1")

    def with_(self, **changes: Any) -> Problem:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def core(self) -> CoreProblem:
        """The core call that this operation comes down to.

        Global attention has one K/V head and one query a head, which is single-head attention of N_head queries.
        """
        B, S, R, T, H = self.B, self.S, self.R, self.T, self.N_head
        batch, H, Q, K = {
            "msa_row": ((B, S), H, R, R),
            "msa_column": ((B, R), H, S, S),
            "msa_global_column": ((B, R), 1, H, S),
            "triangle_starting": ((B, R), H, R, R),
            "triangle_ending": ((B, R), H, R, R),
            "template_pointwise": ((B, R, R), H, 1, T),
        }[self.operation]
        bias = (B, 1, H, R, R) if self.has_bias else None
        training = self.direction == "training"
        return CoreProblem(
            batch, H, Q, K, self.c, bias_shape=bias, mask=self.mask != "none", dtype=self.dtype, device=self.device,
            training=training, bias_grad=training and bias is not None,
        )  # fmt: skip

    @property
    def has_bias(self) -> bool:
        """Whether the operation has a pair bias."""
        return self.operation in ("msa_row", "triangle_starting", "triangle_ending")

    def core_inputs(self) -> CoreInputs:
        """Standard normal q, k, v, bias and cotangent, and a mask of this problem's kind, from its seed.

        q, k, v and bias require gradients when the direction is "training".
        """
        from impls.masks import make_mask

        core, draw = self.core(), self._normal()
        q = draw(*core.batch, core.H, core.Q, core.c)
        k, v = (draw(*core.batch, core.H, core.K, core.c) for _ in range(2))
        bias = None if core.bias_shape is None else draw(*core.bias_shape)
        mask_batch = (self.B, 1, 1) if self.operation == "template_pointwise" else core.batch
        mask = make_mask(self.mask, (*mask_batch, core.K), seed=self.seed, device=self.device)
        if self.direction == "training":
            for x in (q, k, v, bias):
                if x is not None:
                    x.requires_grad_()
        return CoreInputs(q, k, v, bias, mask, draw(*core.batch, core.H, core.Q, core.c))

    def module_inputs(self) -> dict[str, torch.Tensor]:
        """Arguments of this operation's module: ``x`` and, where it has them, ``z``, ``t`` and ``mask``."""
        from impls.masks import make_mask

        B, S, R, T, draw = self.B, self.S, self.R, self.T, self._normal()
        msa = self.operation.startswith("msa")
        inputs = {"x": draw(B, S, R, self.c_in) if msa else draw(B, R, R, self.c_in)}
        if self.operation == "msa_row":
            inputs["z"] = draw(B, R, R, self.c_z)
        if self.operation == "template_pointwise":
            inputs["t"] = draw(B, T, R, R, self.c_t)
        shape = (B, T) if self.operation == "template_pointwise" else (B, S, R) if msa else (B, R, R)
        mask = make_mask(self.mask, shape, seed=self.seed, device=self.device)
        return inputs if mask is None else inputs | {"mask": mask}

    def _normal(self) -> Any:
        import torch

        generator = torch.Generator().manual_seed(self.seed)

        def draw(*shape: int) -> torch.Tensor:
            values = torch.randn(shape, generator=generator, dtype=torch.float32)
            return values.to(device=self.device, dtype=getattr(torch, self.dtype))

        return draw
