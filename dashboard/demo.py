"""Generated results, labelled as such: journals of made-up measurements with known events, to try the reader on.

Nothing here was measured. Times follow a simple model (work over a rate, plus a start-up), with noise of a known size.

    python -m dashboard.demo DIR --commits 2000 --module msa_row --module template

``make demo`` builds a site of 1,000 such commits, in which PLANTED happens, and of what was measured.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

ENV, NEXT_ENV = "virtualenv-py3.11-torch2.13.0", "virtualenv-py3.11-torch2.14.0"
START, APART = datetime(2026, 1, 5, 9, tzinfo=UTC), timedelta(hours=6)
ROUNDS, PER_ROUND = 4, 5


@dataclass(frozen=True)
class Model:
    """How a made-up backend behaves: seconds for each logit and each call, and bytes for each logit and each output."""

    per_score: float
    start: float
    bytes_per_score: float
    bytes_per_output: float = 4.0
    compile_seconds: float | None = None
    unsupported: str = ""


BACKENDS: dict[str, Model] = {
    "eager": Model(4.4e-9, 60e-6, 8.5),
    "compiled": Model(2.3e-9, 90e-6, 4.2, compile_seconds=9.0),
    "sdpa": Model(1.45e-9, 25e-6, 0.0),
    "sdpa_math": Model(4.1e-9, 70e-6, 8.0),
    "flex": Model(1.6e-9, 120e-6, 0.0, compile_seconds=6.0),
    "chunked": Model(1.43e-9, 160e-6, 0.4),
    "flash_attn": Model(0, 0, 0, unsupported="needs CUDA"),
    "xformers": Model(0, 0, 0, unsupported="the package xformers is not installed: pip install xformers"),
}
CENTRE = {"S": 128, "R": 256, "N_head": 8}
SERIES: dict[str, dict[str, Sequence[int]]] = {
    "msa_row": {"OverS": (64, 128, 256, 512), "OverR": (64, 128, 256, 384, 768), "OverHeads": (1, 4, 8, 16)},
    "msa_column": {"OverS": (128, 512, 1024), "OverR": (128, 256, 384)},
    "msa_global_column": {"OverS": (128, 1024, 5120)},
    "triangle": {"OverR": (64, 128, 256, 384)},
    "template": {"OverT": (1, 2, 4)},
    "depth": {"OverBlocks": (4, 48)},
}
AXIS = {"OverS": "S", "OverR": "R", "OverHeads": "N_head", "OverT": "T", "OverBlocks": "blocks"}
OPERATION = {"template": "template_pointwise", "depth": "evoformer"}


@dataclass(frozen=True)
class Commit:
    """One made-up commit: what it multiplies, from then on, of the backends it names.

    ``machine`` multiplies every time, the anchors' included: the environment's doing. ``kernels`` names the kernel that
    takes longest, ``fails`` says why a backend crashes ("": no longer).
    """

    subject: str
    slower: dict[str, float] = field(default_factory=dict)
    heavier: dict[str, float] = field(default_factory=dict)
    rougher: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, str] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)
    machine: float = 1.0


@dataclass
class Level:
    """What all commits so far amount to, for one backend."""

    time: float = 1.0
    memory: float = 1.0
    error: float = 1.0
    kernel: str = "aten::bmm"
    failure: str = ""


def write(
    results: Path,
    commits: Sequence[Commit],
    machine: str = "generated",
    dtypes: Sequence[str] = ("float32", "bfloat16"),
    modules: Sequence[str] = tuple(SERIES),
    noise: float = 0.02,
    seed: int = 0,
    memory_limit: int = 20_000_000_000,
    env: str = ENV,
    first: int = 0,
) -> list[Path]:
    """Write one journal for each commit under ``results/<machine>/journal`` and return their paths.

    ``env`` ends in its torch's version. Of commits before number ``first`` nothing is written.
    """
    rng = random.Random(seed)
    levels = {name: Level() for name in BACKENDS}
    anchor = 2.0e-3
    paths = []
    for index, commit in enumerate(commits):
        anchor *= commit.machine
        for name, level in levels.items():
            level.time *= commit.slower.get(name, 1.0) * commit.machine
            level.memory *= commit.heavier.get(name, 1.0)
            level.error *= commit.rougher.get(name, 1.0)
            level.kernel = commit.kernels.get(name, level.kernel)
            level.failure = commit.fails.get(name, level.failure)
        if index < first:
            continue
        hash_ = sha1(f"{seed} {index} {commit.subject}".encode()).hexdigest()
        path = results / machine / "journal" / f"{hash_[:8]}-{env}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        when = START + index * APART
        with path.open("w", encoding="utf-8") as file:
            for module in modules:
                sweep = _sweep(module, hash_, commit, machine, when, memory_limit, env)
                sweep["anchors"] = {"matmul": anchor * math.exp(rng.gauss(0, noise / 2))}
                for record in (sweep, *_cells(sweep, module, dtypes, levels, noise, rng, when, memory_limit)):
                    file.write(json.dumps(record) + "\n")
        paths.append(path)
    return paths


def _sweep(
    module: str, hash_: str, commit: Commit, machine: str, when: datetime, memory_limit: int, env: str
) -> dict[str, Any]:
    return {
        "schema": 1,
        "record": "sweep",
        "sweep": f"{when:%Y%m%dT%H%M%SZ}-{module}",
        "module": module,
        "started": when.isoformat(),
        "commit": hash_,
        "commit_date": when.isoformat(),
        "subject": commit.subject,
        "instrument": "generated",
        "dirty": {"impls": False, "benchmarks": False},
        "machine": machine,
        "env_name": env,
        "python": "3.11.7",
        "torch": env.rpartition("torch")[2] + "+cpu",
        "packages": {"jaxtyping": "0.3.11"},
        "device": "cpu",
        "device_name": "Generated, not measured",
        "threads": 2,
        "float32_matmul_precision": "highest",
        "memory_limit": memory_limit,
        "effort": "quick",
        "operations": [module],
        "selection": None,
    }


def _cells(
    sweep: dict[str, Any],
    module: str,
    dtypes: Sequence[str],
    levels: dict[str, Level],
    noise: float,
    rng: random.Random,
    when: datetime,
    memory_limit: int,
) -> Iterator[dict[str, Any]]:
    for series, sizes in SERIES[module].items():
        nodes = ("starting", "ending") if module == "triangle" else ("",)
        for node in nodes:
            for length in sizes:
                for dtype in dtypes:
                    for direction in ("forward", "training"):
                        for backend in rng.sample(list(BACKENDS), len(BACKENDS)):
                            params: dict[str, Any] = {"node": node} if node else {}
                            params |= {AXIS[series]: length, "dtype": dtype, "backend": backend}
                            problem = _problem(module, node, {AXIS[series]: length}, dtype)
                            outcome = _outcome(
                                BACKENDS[backend], problem, direction, levels[backend], noise, rng, memory_limit
                            )
                            if backend == "flex" and direction == "training":
                                outcome = _empty("unsupported", "no backward pass on a CPU")
                            yield {
                                "schema": 1,
                                "record": "cell",
                                "sweep": sweep["sweep"],
                                "time": (when + timedelta(minutes=1)).isoformat(),
                                "cell": f"{problem} {backend} {direction}",
                                "module": module,
                                "series": series,
                                "params": params,
                                "problem": problem,
                                "direction": direction,
                                **outcome,
                                "disturbed": rng.random() < 0.02,
                                "disturbances": [],
                            }


def _problem(module: str, node: str, changed: dict[str, int], dtype: str) -> dict[str, Any]:
    axes = {**CENTRE, "N_head": 4 if module in ("triangle", "template") else 8, "T": 4} | changed
    S, R, T, H = axes["S"], axes["R"], axes["T"], axes["N_head"]
    scores: int = {
        "msa_row": S * H * R * R,
        "msa_column": R * H * S * S,
        "msa_global_column": R * H * S,
        "triangle": R * H * R * R,
        "template": R * R * H * T,
        "depth": axes.get("blocks", 0) * H * (2 * S * R * R + R * S * S + R * R * R),
    }[module]
    return {
        "operation": f"triangle_{node}" if node else OPERATION.get(module, module),
        "level": "stack" if module == "depth" else "core",
        "B": 1,
        "blocks": axes.get("blocks"),
        "S": S if module.startswith("msa") or module == "depth" else None,
        "R": R,
        "T": T if module == "template" else None,
        "N_head": H,
        "c": 32,
        "dtype": dtype,
        "device": "cpu",
        "mask": "none",
        "scores": scores,
        "flops": 4 * scores * 32,
    }


def _outcome(
    model: Model,
    problem: dict[str, Any],
    direction: str,
    level: Level,
    noise: float,
    rng: random.Random,
    memory_limit: int,
) -> dict[str, Any]:
    if model.unsupported:
        return _empty("unsupported", model.unsupported)
    if level.failure:
        return _empty("crashed", level.failure)
    if problem["level"] == "stack":
        return _drift(random.Random(f"{problem} {model}"))
    training, scores = direction == "training", problem["scores"]
    width = 2 if problem["dtype"] == "bfloat16" else 4
    outputs = scores / problem["R"] * problem["c"]
    bytes_ = int(
        (scores * model.bytes_per_score + outputs * model.bytes_per_output)
        * (width / 4 * (1.9 if training else 1) * level.memory)
    )
    if bytes_ > memory_limit:
        reason = f"needs {bytes_ / 1e9:.0f} GB, {memory_limit / 1e9:.0f} GB here"
        return _empty("too_big", reason) | {"predicted_bytes": bytes_}
    seconds = (scores * model.per_score * (2.8 if training else 1) + model.start) * level.time
    if seconds * ROUNDS * PER_ROUND > 200:
        return _empty("not_run", f"would take {seconds * ROUNDS * PER_ROUND:.0f} s; quick effort allows 200 s")
    samples = []
    for _ in range(ROUNDS):
        drift = math.exp(rng.gauss(0, noise))
        samples += [seconds * drift * math.exp(abs(rng.gauss(0, noise))) for _ in range(PER_ROUND)]
    tensors = ("o", "dq", "dk", "dv", "dbias") if training else ("o",)
    fixed = random.Random(f"{problem} {model} {direction}")  # the same answer, and so the same error, at every commit
    errors = {
        name: {"error": 1e-6 * (share := fixed.uniform(0.05, 0.4) * level.error), "budget": 1e-6, "share": share}
        for name in tensors
    }
    state = {"load1": 0.4, "steal": 0.0, "mhz": 2500.0}
    return {
        "status": "ok",
        "reason": "",
        "seconds": {
            "samples": samples,
            "rounds": [i // PER_ROUND for i in range(len(samples))],
            "processes": [2 * i // len(samples) for i in range(len(samples))],
            "host": None,
        },
        "compile_seconds": model.compile_seconds,
        "bytes": bytes_,
        "predicted_bytes": bytes_,
        "error": max(tensor.pop("share") for tensor in errors.values()),
        "errors": errors,
        "kernels": [level.kernel, "aten::_softmax"],
        "state": {"before": state, "after": state},
    }


def _drift(rng: random.Random) -> dict[str, Any]:
    errors = {name: {"error": 1e-6 * rng.uniform(0.9, 1.1), "budget": 1e-6} for name in ("m", "z")}
    worst = max(pair["error"] / pair["budget"] for pair in errors.values())
    return _empty("ok", "") | {"error": worst, "errors": errors}


def _empty(status: str, reason: str) -> dict[str, Any]:
    return {
        "status": status,
        "reason": reason,
        "seconds": None,
        "compile_seconds": None,
        "bytes": None,
        "predicted_bytes": None,
        "error": None,
        "errors": {},
        "kernels": [],
        "state": {},
    }


COMMITS = (
    Commit("generated: the first commit"),
    Commit("generated: a comment is clearer"),
    Commit("generated: chunked looks at one key block at a time", {"chunked": 1.3}),
    Commit("generated: chunked's block is as large as the cache again", {"chunked": 0.72}),
    Commit("generated: compiled keeps its cache", {"compiled": 0.9}),
)


PLANTED: dict[float, Commit] = {
    0.10: Commit("generated: chunked looks at one key block at a time", {"chunked": 1.3}),
    0.16: Commit("generated: chunked's block is as large as the cache again", {"chunked": 1 / 1.3}),
    0.25: Commit("generated: sdpa_math keeps a copy of the bias", heavier={"sdpa_math": 1.5}),
    0.33: Commit("generated: compiled keeps its cache", {"compiled": 0.85}),
    0.42: Commit("generated: nothing here, but the machine was moved", machine=1.15),
    0.52: Commit("generated: sdpa_math rounds its scores", rougher={"sdpa_math": 5}),
    0.60: Commit("generated: flex calls another kernel", {"flex": 1.06}, kernels={"flex": "aten::baddbmm"}),
    0.68: Commit("generated: compiled meets a compiler that fails", fails={"compiled": "the compiler failed"}),
    0.70: Commit("generated: compiled again", fails={"compiled": ""}),
    0.78: Commit("generated: sdpa_math keeps no copy of the bias", heavier={"sdpa_math": 1 / 1.5}),
    0.88: Commit("generated: eager adds the bias twice", {"eager": 1.12}),
    0.97: Commit("generated: chunked checks its input", {"chunked": 1.2}),
}
"""What happens, and after which share of a history."""


def history(count: int) -> list[Commit]:
    """``count`` commits in which PLANTED happens."""
    planted = {int(share * count): commit for share, commit in PLANTED.items()}
    return [planted.get(n, Commit(f"generated: commit {n}")) for n in range(count)]


def main() -> None:
    """Write a long history."""
    parser = argparse.ArgumentParser(prog="python -m dashboard.demo", description="Write a generated history.")
    parser.add_argument("results", type=Path, help="the folder that it goes to")
    parser.add_argument("--commits", type=int, default=100, help="(default: 100)")
    parser.add_argument("--module", action="append", choices=list(SERIES), help="may be repeated (default: all)")
    parser.add_argument("--dtype", action="append", help="may be repeated (default: float32, bfloat16)")
    parser.add_argument("--beside", type=Path, metavar="DIR", help="results that were measured, to be copied there")
    given = parser.parse_args()
    if given.beside:
        shutil.copytree(given.beside, given.results, dirs_exist_ok=True)
    commits, modules = history(given.commits), given.module or tuple(SERIES)
    dtypes = given.dtype or ("float32", "bfloat16")
    write(given.results, commits, dtypes=dtypes, modules=modules)
    write(given.results, commits, dtypes=dtypes, modules=modules, env=NEXT_ENV, first=len(commits) - 1)


if __name__ == "__main__":
    main()
