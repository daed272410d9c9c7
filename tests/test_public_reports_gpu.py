"""Reports about CUDA kernels: the reported problem itself, over every backend that takes it.

On a GPU all of them; on a CPU those that it can take, and the big ones at small sizes, which tests the tests.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from reported_faults import FAULTS
from torch import Tensor

import impls
from impls.conformance.budget import budget, run
from impls.conformance.cases import LEAVES, Case
from impls.conformance.judge import Check, compare, judge_parts
from impls.interface import Backend
from impls.masks import make_mask
from impls.problem import CoreInputs

pytestmark = pytest.mark.usefixtures("one_thread")

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))
FAST = [name for name in impls.names() if not impls.get(name).traits.compiles]
A_CPU_TAKES = 2**24
"""Logits times width."""

REPORTED = {
    "pytorch/pytorch#109517": Case(
        "values", (2,), 4, 32, 32, 16, (2, 4, 32, 32), grad=LEAVES, quirks=("lowest_row",)
    ),
    "facebookresearch/xformers#783": Case(
        "bias_axes", (16,), 1, 64, 64, 80, (1, 1, 64, 64), dtype="float16", grad=LEAVES, quirks=("expanded",)
    ),
    "facebookresearch/xformers#808": Case(
        "lengths", (2,), 8, 77, 77, 64, (2, 8, 77, 77), dtype="float16", grad=LEAVES, quirks=("margins",)
    ),
    "facebookresearch/xformers#813": Case(
        "lengths", (2,), 16, 43, 43, 64, (2, 16, 43, 43), dtype="float16", grad=LEAVES, quirks=("margins",)
    ),
    "aqlaboratory/openfold-3#228": Case(
        "bias_axes", (2, 3), 4, 16, 16, 32, (2, 3, 4, 16, 16), "random", "bfloat16", LEAVES
    ),
    "pytorch/pytorch#191612": Case(
        "values", (2,), 4, 32, 32, 16, (1, 1, 32, 32), dtype="float16", grad=LEAVES, quirks=("mask_in_bias",),
        bias_dtype="float32",
    ),
    "meta-pytorch/attention-gym#20": Case("bias_axes", (2,), 4, 16, 16, 16, (1, 4, 16, 16), grad=LEAVES),
    "pytorch/pytorch#158212 at 128": Case("lengths", (2,), 2, 128, 128, 64, None, "random", "float16", LEAVES[:3]),
    "pytorch/pytorch#158212": Case("lengths", (2,), 2, 1024, 1024, 64, None, "random", "float16", LEAVES[:3]),
    "pytorch/pytorch#191937": Case(
        "layouts", (2,), 4, 33, 33, 64, None, "random", "bfloat16", LEAVES[:3], ("expanded",)
    ),
    "pytorch/pytorch#146704": Case("batches", (65_536,), 8, 4, 4, 64, dtype="float16", grad=LEAVES[:3]),
    "facebookresearch/xformers#845": Case("batches", (65_536,), 1, 16, 16, 80, dtype="float16", grad=LEAVES[:3]),
    "flashinfer-ai/flashinfer#3125": Case("batches", (65_536,), 2, 1, 4, 64, dtype="bfloat16", grad=LEAVES[:3]),
    "pytorch/pytorch#196678": Case(
        "values", (2,), 4, 64, 64, 64, None, "random", "bfloat16", LEAVES[:3], ("deep",)
    ),
    "pytorch/pytorch#196678 at 704": Case(
        "values", (2,), 4, 704, 704, 64, None, "random", "bfloat16", LEAVES[:3], ("deep",)
    ),
    "NVIDIA/cudnn-frontend#1072": Case(
        "values", (2,), 4, 1, 128, 64, dtype="bfloat16", grad=LEAVES[:3], quirks=("deep",)
    ),
    "triton-lang/triton#1671": Case("lengths", (1,), 1, 128, 128, 32, grad=LEAVES[:3]),
}  # fmt: skip
BIG = {
    "NVIDIA/cuEquivariance#136": Case(
        "triangle_starting", (3000,), 4, 3000, 3000, 32, (1, 4, 3000, 3000), dtype="bfloat16", grad=LEAVES
    ),
    "NVIDIA/cuEquivariance#244": Case(
        "triangle_starting", (1024,), 4, 512, 512, 128, (1, 4, 512, 512), dtype="float16", grad=LEAVES
    ),
    "deepspeedai/DeepSpeed#5052": Case(
        "msa_row", (256,), 4, 256, 256, 32, (1, 4, 256, 256), "random", "float16", LEAVES
    ),
}


def on(device: str, name: str, case: Case) -> Case:
    """``case`` on ``device``, with the gradients that the backend has; skips where it has nothing to offer."""
    case = case.with_(device=device)
    for grad in (case.grad, tuple(x for x in case.grad if x != "bias"), ()):
        if not (reasons := impls.get(name).why_not(case.with_(grad=grad).core())):
            return case.with_(grad=grad)
    pytest.skip(f"{name}: {reasons[0]}")


def passed(checks: list[Check]) -> None:
    assert not [str(check) for check in checks if not check.ratio <= 1]


def or_skip(call: Callable[[], list[Check]]) -> list[Check]:
    """What ``call`` returns; skips where a GPU's memory does not hold it."""
    try:
        return call()
    except torch.OutOfMemoryError:
        pass  # its traceback holds the tensors: skip once it is gone
    torch.cuda.empty_cache()
    pytest.skip("needs a GPU with more memory")


@pytest.mark.parametrize(
    ("device", "name", "report"),
    [("cpu", name, report) for report, case in REPORTED.items() for name in FAST
     if case.core().scores * case.c <= A_CPU_TAKES]
    + [pytest.param("cuda", name, report, marks=CUDA.marks) for report in REPORTED for name in impls.names()],
)  # fmt: skip
def test_the_reported_problem(device: str, name: str, report: str) -> None:
    verdict = judge_parts(impls.get(name), REPORTED[report].with_(device=device))[-1]
    if verdict.status == "declined":
        pytest.skip(f"{name}: {verdict.reasons[0]}")
    assert verdict.status == "passed", verdict.reasons


# Problems of which float64 takes only a part


def drawn(case: Case) -> CoreInputs:
    """Standard normal inputs, drawn on the device that they are for."""
    generator = torch.Generator(case.device).manual_seed(case.seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=case.device, dtype=getattr(torch, case.dtype))

    q, k, v = (draw(*case.batch, case.H, length, case.c) for length in (case.Q, case.K, case.K))
    bias = None if case.bias_shape is None else draw(*case.bias_shape)
    mask = make_mask(case.mask, (*case.batch, case.K), seed=case.seed, device=case.device)
    return with_gradients(CoreInputs(q, k, v, bias, mask, draw(*q.shape)), case)


def with_gradients(inputs: CoreInputs, case: Case) -> CoreInputs:
    """The same values as leaves that require what ``case`` asks for."""
    leaves = {name: getattr(inputs, name).detach().requires_grad_() for name in case.grad}
    return inputs._replace(**leaves)


def judged_by_rows(backend: Backend, case: Case, rows: list[int]) -> list[Check]:
    """A whole call, judged in some entries of its first axis.

    The cotangent is zero in all others, so that the gradient of a bias that all share is that of these entries.
    """
    q, k, v, bias, mask, cotangent = inputs = drawn(case)
    sampled = torch.zeros_like(cotangent)
    sampled[rows] = cotangent[rows]
    answer = run(backend, inputs._replace(cotangent=sampled))
    few = CoreInputs(q[rows], k[rows], v[rows], bias, None if mask is None else mask[rows], cotangent[rows])
    expected = budget(with_gradients(few, case))
    return [compare(name, x if name == "dbias" else x[rows], expected) for name, x in answer.items()]


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("report", BIG)
@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_a_big_problem_is_right_in_some_of_its_rows(device: str, report: str, name: str) -> None:
    case = BIG[report]
    if device == "cpu":
        case = case.with_(batch=(9,), H=2, Q=24, K=24, bias_shape=(1, 2, 24, 24))
    case, n = on(device, name, case), case.batch[0]
    passed(or_skip(lambda: judged_by_rows(impls.get(name), case, [0, n // 2, n - 1])))


def test_a_fault_in_a_row_is_seen_where_it_is_looked_for() -> None:
    def wrong_in_row_5(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
        return impls.get("eager").attend(q, k, v, bias, mask) * (torch.arange(len(q)) != 5)[:, None, None, None]

    case = Case("msa_row", (9,), 2, 24, 24, 8, (1, 2, 24, 24), "random", grad=LEAVES)
    backend = Backend("wrong", "", wrong_in_row_5)
    assert all(check.ratio > 1 for check in judged_by_rows(backend, case, [2, 5]))
    passed(judged_by_rows(backend, case, [2, 8]))


def judged_by_last_queries(backend: Backend, case: Case, n: int) -> list[Check]:
    """A whole forward call, judged for its last ``n`` queries."""
    q, k, v, bias, mask, cotangent = inputs = drawn(case.with_(grad=()))
    with torch.no_grad():
        o = run(backend, inputs)["o"]
    assert bias is not None
    few = CoreInputs(q[..., -n:, :], k, v, bias[..., -n:, :], mask, cotangent[..., -n:, :])
    return [compare("o", o[..., -n:, :], budget(few))]


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize(("device", "S"), [("cpu", 100), pytest.param("cuda", 65_600, marks=CUDA.marks)])
def test_rows_of_a_bias_past_32_bits_are_right(device: str, S: int, name: str) -> None:
    """pytorch/pytorch#187227. Past 2^32 / S rows of S keys an offset needs a 33rd bit."""
    case = on(device, name, Case("lengths", (), 1, S, S, 64, (1, S, S), dtype="bfloat16"))
    passed(or_skip(lambda: judged_by_last_queries(impls.get(name), case, 64)))


def apart(x: Tensor, stride: int) -> Tensor:
    """``x (1, 1, L, c)`` with its rows ``stride`` elements apart in memory."""
    memory = x.new_zeros(x.shape[-2], stride)
    memory[:, : x.shape[-1]] = x[0, 0]
    return memory[None, None, :, : x.shape[-1]]


def judged_apart(backend: Backend, case: Case, stride: int) -> list[Check]:
    """A call with keys and values far apart in memory, judged as if they were contiguous."""
    inputs = drawn(case)
    expected = budget(inputs)
    spread = inputs._replace(k=apart(inputs.k.detach(), stride), v=apart(inputs.v.detach(), stride))
    return [compare(name, x, expected) for name, x in run(backend, with_gradients(spread, case)).items()]


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize(
    ("device", "K", "stride"), [("cpu", 60, 100), pytest.param("cuda", 70_000, 2**15, marks=CUDA.marks)]
)
def test_keys_further_apart_than_32_bits_are_right(device: str, K: int, stride: int, name: str) -> None:
    """thu-ml/SageAttention#386. The last key lies more than 2^31 elements behind the first."""
    case = on(device, name, Case("layouts", (1,), 1, 64, K, 64, dtype="bfloat16", grad=LEAVES[:3]))
    passed(or_skip(lambda: judged_apart(impls.get(name), case, stride)))


@pytest.mark.parametrize(
    ("fault", "judged", "case"),
    [
        ("rows_of_the_bias_wrap_around", judged_by_last_queries, Case("lengths", (), 1, 100, 100, 8, (1, 100, 100))),
        ("offsets_wrap_around", judged_apart, Case("layouts", (1,), 1, 7, 60, 8)),
    ],
)
def test_indices_that_wrap_around_are_seen(fault: str, judged: Callable[..., list[Check]], case: Case) -> None:
    """The faults of the two tests above, which wrap around much earlier."""
    attend = next(f.attend for f in FAULTS if f.attend.__name__ == fault)
    assert max(check.ratio for check in judged(Backend(fault, "", attend), case, 100)) > 1
    passed(judged(impls.get("eager"), case, 100))
