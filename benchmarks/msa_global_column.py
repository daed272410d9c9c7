"""MSA column-wise global attention (algorithm 19), at the core: one query a head, one K/V head for all of them."""

from benchmarks.suite import Compiling, Over, Readings, sweep

OPERATIONS = {"msa_global_column": "msa_global_column"}


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
