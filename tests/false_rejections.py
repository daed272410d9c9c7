"""How often the checker rejects what is right: ``python tests/false_rejections.py`` tries and writes the records.

Random problems of each dtype, each put to some of the kernels of ``right_kernels.py``, which take turns; and with
``modules`` to the modules of ``right_modules.py`` and ours. The records are ``results/conformance/``:
``false_rejections.jsonl`` and ``module_false_rejections.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import right_kernels
import right_modules
import torch

import impls
from impls.conformance.cases import random_case
from impls.conformance.judge import AnyCase, Verdict, judge
from impls.conformance.modules.cases import DTYPES_TRIED, ModuleCase, module_mixture, random_module_case
from impls.conformance.modules.judge import judge_module, over
from impls.interface import Backend
from impls.problem import DTYPES, OPERATIONS

FOLDER = Path(__file__).parent.parent / "results" / "conformance"


@dataclass(frozen=True)
class Right:
    """What is right, by name as something that gives a verdict on it, and the problems that it is tried on."""

    what: str
    record: Path
    judges: dict[str, Callable[[Any], Verdict]]
    draw: Callable[[random.Random, str], AnyCase]
    dtypes: tuple[str, ...]


def random_module(rng: random.Random, dtype: str) -> ModuleCase:
    """Every third one of the kit's own mixtures, with a seed that the kit has not; else of any small size."""
    if rng.random() < 1 / 3:
        return module_mixture(rng, rng.choice(OPERATIONS), dtype, seed=rng.randrange(2**16, 2**31))
    return random_module_case(rng, dtype=dtype, masked_rows="zero")


KERNELS = Right(
    "kernel",
    FOLDER / "false_rejections.jsonl",
    {name: partial(judge, Backend(name, "a right kernel", attend)) for name, attend in right_kernels.RIGHT.items()},
    lambda rng, dtype: random_case(rng, dtype=dtype),
    DTYPES,
)
MODULES = Right(
    "module",
    FOLDER / "module_false_rejections.jsonl",
    {name: partial(judge_module, subject) for name, subject in right_modules.RIGHT.items()}
    | {f"ours over {name}": partial(judge_module, over(impls.get(name))) for name in ("eager", "chunked", "sdpa")},
    random_module,
    DTYPES_TRIED,
)


def tried(right: Right, dtype: str, problems: int, each: int, seed: int) -> list[dict[str, object]]:
    """A row for each that is right: what became of its share of ``problems``, and the largest error over budget."""
    rng = random.Random(f"{dtype} {seed}")
    names = tuple(right.judges)
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    worst = dict.fromkeys(names, 0.0)
    for n in range(problems):
        case = right.draw(rng, dtype)
        for turn in range(each):
            name = names[(n + turn) % len(names)]
            verdict = right.judges[name](case)
            counts[name][verdict.status] += 1
            worst[name] = max(worst[name], verdict.ratio)
            if verdict.status == "failed":
                print(f"{name}: {case}\n    " + "\n    ".join(verdict.reasons), flush=True)
        if (n + 1) % 100 == 0:
            print(f"{dtype} {n + 1}/{problems}", file=sys.stderr)
    return [
        {"schema": 1, "dtype": dtype, "problems": problems, "seed": seed, right.what: name, "tried": count.total(),
         "rejected": count["failed"], "not_judged": count["not_judged"], "largest_ratio": round(worst[name], 4)}
        for name, count in counts.items()
    ]  # fmt: skip


def main() -> int:
    """0 if nothing right was rejected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("kernels", "modules"), default="kernels")
    parser.add_argument("--problems", type=int, default=10_000, help="of every dtype")
    parser.add_argument("--each", type=int, default=2, help="how many of what is right a problem is put to")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    right = KERNELS if options.what == "kernels" else MODULES
    rows = [row for dtype in right.dtypes for row in tried(right, dtype, options.problems, options.each, options.seed)]
    right.record.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        print(f"{row['dtype']:<9} {row[right.what]:<18} {row['tried']:>6} tried, {row['rejected']} rejected, "
              f"{row['not_judged']} not judged, largest ratio {row['largest_ratio']}")  # fmt: skip
    return int(any(row["rejected"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
