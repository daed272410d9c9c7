"""Template pointwise attention (algorithm 17), at the core: one query and T keys at every pair of residues."""

from benchmarks.suite import Compiling, Over, Readings, sweep

OPERATIONS = {"template_pointwise": "template_pointwise"}


def setup_cache() -> Readings:
    return sweep(__name__)


class OverR(Over):
    operations, axis, version = OPERATIONS, "R", "1"


class OverT(Over):
    operations, axis, version = OPERATIONS, "T", "1"


class OverHeads(Over):
    operations, axis, version = OPERATIONS, "N_head", "1"


class Compile(Compiling):
    operations, axis, version = OPERATIONS, None, "1"
