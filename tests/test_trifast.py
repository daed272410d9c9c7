"""trifast: its limits, and its own kernels behind our adapter in Triton's interpreter, judged like every backend."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import impls
from impls.backends import trifast
from impls.conformance.cases import LEAVES, Case

SQUARE = Case("triangle_starting", (2, 5), 3, 5, 5, 16, (2, 1, 3, 5, 5), dtype="float16", grad=LEAVES)


def square(n: int, c: int = 16, H: int = 1, **changes: object) -> Case:
    return SQUARE.with_(batch=(1, n), H=H, Q=n, K=n, c=c, bias_shape=(1, 1, H, n, n), **changes)


def cases() -> Iterator[Case]:
    """Masks, numbers that are not finite, layouts, broadcasts and lengths around the blocks of 16 and 32."""
    for mask in ("none", "padding", "random", "full_row"):
        yield SQUARE.with_(mask=mask, dtype="float32")
    for mask, quirk in (("random", "strided"), ("padding", "margins"), ("random", "heads_last")):
        yield SQUARE.with_(mask=mask, quirks=(quirk,))
    for mask, quirks in (
        ("none", ("empty_row",)), ("full_row", ("empty_row", "poison")), ("full_row", ("poison", "quiet")),
        ("random", ("offset",)), ("none", ("mask_in_bias",)), ("random", ("deep",)), ("random", ("high",)),
    ):  # fmt: skip
        yield square(5, mask=mask, quirks=quirks)
    yield square(5, mask="full_row", quirks=("mask_in_bias",), bias_dtype="float32")
    yield square(5, grad=("bias",), repeats=2)
    yield SQUARE.with_(mask="random", quirks=("low_rank",), bias_shape=(1, 1, 3, 5, 1))
    yield square(5, mask="random").with_(batch=(5,), bias_shape=(5, 5))
    yield square(3, mask="random").with_(batch=(2, 1, 3), bias_shape=(2, 1, 1, 1, 3, 3))
    yield square(1, mask="full_row")
    yield square(16, c=128, mask="full_row", dtype="float32")
    yield square(17, mask="full_row", quirks=("poison",))
    yield square(32, mask="full_row", quirks=("empty_row",), dtype="float32")
    yield square(33, c=32, mask="random", dtype="float32")


INTERPRETED = """
import json, sys, torch
from dataclasses import asdict
import interpreted
from impls.conformance.cases import Case
from impls.conformance.judge import judge

torch.set_num_threads(1)
for line in json.load(sys.stdin):
    backend, blocks, case = line
    interpreted.use_blocks(blocks)
    verdict = judge(getattr(interpreted, backend), Case.parse(case))
    print(json.dumps([*line, verdict.status, verdict.reasons, [check.tensor for check in verdict.checks]]))
"""


def judged(lines: list[tuple[str, int, str]]) -> list[list]:
    """The verdicts of a process in which Triton interprets, one for each (backend, blocks, case)."""
    if missing := [name for name in trifast.PACKAGES if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED],
        input=json.dumps(lines), env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def test_the_kernel_behind_our_adapter_equals_the_reference() -> None:
    lines = [("trifast", 0, str(case)) for case in cases()]
    lines += [("trifast", 2, str(case)) for case in (square(5, H=2, mask="random"), square(17, mask="full_row"))]
    answers = judged(lines)
    assert len(answers) == len(lines)
    for *line, status, reasons, tensors in answers:
        assert status == "passed", (line, reasons)
        assert tensors == ["o", *(f"d{name}" for name in Case.parse(line[2]).grad)]


def test_the_kernel_alone_breaks_the_contract_where_docs_findings_say_so() -> None:
    """If one of these passes, trifast has changed: the adapter may be doing too much."""
    faults = {
        square(5, mask="full_row", grad=()): "o[0, 0, 0, 0, 0] is off by",
        square(5, mask="random", quirks=("poison",), grad=()): "is off by nan",
        square(32, quirks=("empty_row",), grad=()): "is off by nan",
        square(5, mask="random"): "",
    }
    answers = judged([("bare_trifast", 0, str(case)) for case in faults])
    for (*line, status, reasons, _), words in zip(answers, faults.values(), strict=True):
        assert status == ("failed" if words else "passed"), (line, reasons)
        assert words in "; ".join(reasons)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": (2, 7)}, "5 queries and 5 keys in 7 rows: takes a square"),
        ({"batch": (), "bias_shape": (3, 5, 5)}, "in no rows"),
        ({"K": 6, "bias_shape": (2, 1, 3, 5, 6)}, "5 queries and 6 keys"),
        ({"bias_shape": None}, "takes a pair bias alone"),
        ({"bias_shape": (5, 1, 5, 5)}, "takes one bias for all rows"),
        ({"H_kv": 1}, "as many as queries have"),
        ({"dtype": "float64"}, "takes float32"),
        ({"c": 24}, "c=24: a head is 16, 32, 64, 128 wide"),
        ({"batch": (32_768, 5), "bias_shape": (3, 5, 5)}, "batch x heads of 98,304: at most 65,535"),
        (
            {"batch": (4, 1024), "Q": 1024, "K": 1024, "c": 128, "H": 8, "bias_shape": (1,)},
            "q of 4,294,967,296 elements",
        ),
    ],
)
def test_limits_of_its_shapes(changes: dict, words: str) -> None:
    base = {"batch": (2, 5), "H": 3, "Q": 5, "K": 5, "c": 16, "bias_shape": (2, 1, 3, 5, 5), "device": "cuda"}
    assert list(trifast.shape_limits(impls.CoreProblem(**base, mask=True, training=True, bias_grad=True))) == []
    assert words in "; ".join(impls.get("trifast").why_not(impls.CoreProblem(**{**base, **changes})))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trifast, "find_spec", lambda name: None if name == "einops" else object())
    assert "einops not installed (pip install trifast)" in list(trifast.limits(SQUARE.core()))


def test_importing_impls_imports_no_trifast() -> None:
    code = "import sys, impls; impls.get('trifast'); sys.exit('trifast' in sys.modules or 'triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
