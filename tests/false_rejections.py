"""How often the checker rejects a right kernel: ``python tests/false_rejections.py`` tries and writes the record.

Random problems of each dtype, each put to some of the kernels of ``right_kernels.py``, which take turns. The record is
``results/conformance/false_rejections.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from pathlib import Path

import torch
from right_kernels import RIGHT

from impls.conformance.cases import random_case
from impls.conformance.judge import judge
from impls.interface import Backend
from impls.problem import DTYPES

RECORD = Path(__file__).parent.parent / "results" / "conformance" / "false_rejections.jsonl"
KERNELS = tuple(Backend(name, "a right kernel", attend) for name, attend in RIGHT.items())


def tried(dtype: str, problems: int, each: int, seed: int) -> list[dict[str, object]]:
    """A row for every kernel: what became of it on its share of ``problems``, and its largest error over budget."""
    rng = random.Random(f"{dtype} {seed}")
    counts: dict[str, Counter[str]] = {kernel.name: Counter() for kernel in KERNELS}
    worst = dict.fromkeys(counts, 0.0)
    for n in range(problems):
        case = random_case(rng, dtype=dtype)
        for turn in range(each):
            kernel = KERNELS[(n + turn) % len(KERNELS)]
            verdict = judge(kernel, case)
            counts[kernel.name][verdict.status] += 1
            worst[kernel.name] = max(worst[kernel.name], verdict.ratio)
            if verdict.status == "failed":
                print(f"{kernel.name}: {case}\n    " + "\n    ".join(verdict.reasons), flush=True)
        if (n + 1) % 1000 == 0:
            print(f"{dtype} {n + 1}/{problems}", file=sys.stderr)
    return [
        {"schema": 1, "dtype": dtype, "problems": problems, "seed": seed, "kernel": name, "tried": count.total(),
         "rejected": count["failed"], "not_judged": count["not_judged"], "largest_ratio": round(worst[name], 4)}
        for name, count in counts.items()
    ]  # fmt: skip


def main() -> int:
    """0 if no right kernel was rejected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=10_000, help="of every dtype")
    parser.add_argument("--each", type=int, default=2, help=f"kernels that a problem is put to, of {len(KERNELS)}")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for dtype in DTYPES for row in tried(dtype, options.problems, options.each, options.seed)]
    RECORD.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        print("{dtype:<9} {kernel:<18} {tried:>6} tried, {rejected} rejected, {not_judged} not judged, "
              "largest ratio {largest_ratio}".format(**row))  # fmt: skip
    return int(any(row["rejected"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
