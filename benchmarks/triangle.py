"""Triangle attention around the starting and the ending node (algorithms 13 and 14), at the core.

Around the ending node everything comes transposed: q, k, v and bias lie in memory as the pair representation does.
"""

from benchmarks.suite import Compiling, Over, Readings, sweep

NODES = {"starting": "triangle_starting", "ending": "triangle_ending"}


def setup_cache() -> Readings:
    return sweep(__name__)


class OverR(Over):
    operations, variant, axis, version = NODES, "node", "R", "1"


class OverHeads(Over):
    operations, variant, axis, version = NODES, "node", "N_head", "1"


class Compile(Compiling):
    operations, variant, axis, version = NODES, "node", None, "1"
