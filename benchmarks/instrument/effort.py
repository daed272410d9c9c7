"""How much is measured: the efforts, and what the environment selects.

========================== ============================================================================ ===============
variable                   meaning                                                                      default
========================== ============================================================================ ===============
AXIALBENCH_EFFORT          ``quick`` or ``full``                                                        full
AXIALBENCH_OPS             modules or operations to measure, ``msa_row,triangle_ending``                all
AXIALBENCH_BACKENDS        backends to measure                                                          all
AXIALBENCH_EXTRA_BACKENDS  backends that other packages register, to be measured as well                none
AXIALBENCH_DTYPES          dtypes to measure                                                            all
AXIALBENCH_DIRECTIONS      ``forward``, ``training``                                                    both
AXIALBENCH_DEVICE          ``cpu`` or ``cuda``                                                          cuda if it works
AXIALBENCH_THREADS         CPU threads; another number than the default needs a name of its own         all cores
AXIALBENCH_INPUTS          ``warm``: just used, as a layer finds them; ``cold``: in no cache, and needs a      warm
                           name of its own
AXIALBENCH_MEMORY          bytes (or ``8GB``) that a cell may need beyond its inputs                    80 % of free
AXIALBENCH_RESULTS         where the journals go                                                        ``results/``
AXIALBENCH_PROGRESS        file for the progress report (``python -m benchmarks run`` reads it)         the terminal
========================== ============================================================================ ===============
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How long and how often a cell is measured.

    Attributes:
        processes: worker processes that share a cell's rounds.
        rounds: rounds in each process; backends take turns in random order in every round.
        seconds: timed seconds a cell should get, over all rounds.
        samples: most samples a round.
        longest_call: seconds; a cell whose call is predicted to take longer is not run.
        warm_up: most seconds of warm-up before a cell's first round in a process.
        memory_repeats: how often memory is measured; all must agree.
        checked_scores: most logits that are compared with float64; of a bigger problem a sample of batch rows.
        compiling_processes: processes in which backends that build code are timed.
        module_seconds: seconds for one module, without those in which code is built; problems whose turn does not come
            until then are not run.
        retries: rounds of a problem that may be taken again because other work disturbed them.
        patience: seconds beyond what an order should need after which its worker counts as hung.
    """

    name: str
    processes: int
    rounds: int
    seconds: float
    samples: int
    longest_call: float
    warm_up: float
    memory_repeats: int
    checked_scores: int
    compiling_processes: int
    module_seconds: float
    retries: int = 1
    patience: float = 60.0


EFFORTS = {
    "quick": Effort("quick", 2, 2, 0.2, 10, 1.0, 0.15, 1, 2**21, 1, 75.0),
    "full": Effort("full", 3, 5, 6.0, 20, 20.0, 1.0, 2, 2**22, 3, 2400.0, retries=4),
}


def effort(environ: Mapping[str, str] = os.environ) -> Effort:
    """The effort that the environment asks for. Raises ValueError for an unknown one."""
    name = environ.get("AXIALBENCH_EFFORT") or "full"
    if name not in EFFORTS:
        raise ValueError(f"AXIALBENCH_EFFORT={name!r}: expected one of {', '.join(EFFORTS)}")
    return EFFORTS[name]


def listed(variable: str, known: Collection[str], environ: Mapping[str, str] = os.environ) -> frozenset[str] | None:
    """The names in a comma-separated variable, or None if it is not set. Raises ValueError for an unknown one."""
    names = frozenset(name.strip() for name in environ.get(variable, "").split(",") if name.strip())
    if unknown := sorted(names - set(known)):
        raise ValueError(f"{variable} names {', '.join(unknown)}; expected some of {', '.join(known)}")
    return names or None


def cold_inputs(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether calls are to find their inputs in no cache. Raises ValueError for anything but ``warm`` and ``cold``."""
    inputs = environ.get("AXIALBENCH_INPUTS") or "warm"
    if inputs not in ("warm", "cold"):
        raise ValueError(f"AXIALBENCH_INPUTS={inputs!r}: expected warm or cold")
    return inputs == "cold"


def parse_memory(text: str) -> int:
    """``"8GB"``, ``"500 MB"`` or ``"123"`` in bytes. Raises ValueError for anything else."""
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if not found:
        raise ValueError(f"{text!r} is no amount of memory; expected something like 8GB")
    number, prefix, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(prefix.upper() or " "))
