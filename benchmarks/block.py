"""Whole gated modules from x, as models call them: LayerNorm, projections, pair bias, key mask, attention and gate.

Global attention's masked mean over the sequences is part of it.
"""

from benchmarks.suite import Compiling, Over, Readings, sweep

MSA = {name: name for name in ("msa_row", "msa_column", "msa_global_column")}
ALL = MSA | {name: name for name in ("triangle_starting", "triangle_ending")}


def setup_cache() -> Readings:
    return sweep(__name__)


class OverS(Over):
    operations, variant, axis, version = MSA, "operation", "S", "1"
    level, mask = "module", "padding"


class OverR(Over):
    operations, variant, axis, version = ALL, "operation", "R", "1"
    level, mask = "module", "padding"


class Compile(Compiling):
    operations, variant, axis, version = ALL, "operation", None, "1"
    level, mask = "module", "padding"
