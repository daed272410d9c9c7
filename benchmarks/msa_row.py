"""MSA row-wise gated self-attention with pair bias (algorithm 7), at the core."""

from benchmarks.suite import Compiling, Over, Readings, sweep

OPERATIONS = {"msa_row": "msa_row"}


def setup_cache() -> Readings:
    return sweep(__name__)


class OverS(Over):
    operations, axis, version = OPERATIONS, "S", "1"


class OverR(Over):
    operations, axis, version = OPERATIONS, "R", "1"


class OverHeads(Over):
    operations, axis, version = OPERATIONS, "N_head", "1"


class Compile(Compiling):
    operations, axis, version = OPERATIONS, None, "1"
