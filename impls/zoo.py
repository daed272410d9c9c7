"""Named problems: the attentions of AlphaFold 2, OpenFold, AlphaFold 3, Boltz and Protenix at their real shapes.

Sizes are read from the models' published configurations: AlphaFold 2 supplement (table 4) and config.py, OpenFold's and
OpenFold-3's, Boltz's and Protenix's configuration files. ``init`` is initial training, ``ft`` fine-tuning.
"""

from __future__ import annotations

from typing import Any

from impls.problem import Problem

# Heads and channel widths of AlphaFold 2 (supplement, algorithms 7, 8, 13, 14, 17, 19; templates: 16 a head).
AF2: dict[str, dict[str, int]] = {
    "msa_row": {"N_head": 8, "c": 32, "c_in": 256, "c_z": 128},
    "msa_column": {"N_head": 8, "c": 32, "c_in": 256},
    "msa_global_column": {"N_head": 8, "c": 8, "c_in": 64},
    "triangle_starting": {"N_head": 4, "c": 32, "c_in": 128},
    "triangle_ending": {"N_head": 4, "c": 32, "c_in": 128},
    "template_pointwise": {"N_head": 4, "c": 16, "c_in": 128, "c_t": 64},
}
EXTRA = {"N_head": 8, "c": 8, "c_in": 64}


def af2(operation: str, **sizes: Any) -> Problem:
    """``operation`` with AlphaFold 2's heads and channel widths, and any field given by name.

    Raises ValueError for an unknown operation (naming the nearest) or a size below 1.
    """
    return Problem(operation=operation, **(AF2.get(operation, {}) | sizes))


ZOO: dict[str, Problem] = {
    # AlphaFold 2, initial training (R=256, S=128, N_extra=1024) and fine-tuning (R=384, S=512, N_extra=5120)
    "row.init": af2("msa_row", S=128, R=256),
    "row.ft": af2("msa_row", S=512, R=384),
    "row.extra.init": af2("msa_row", S=1024, R=256, **EXTRA),
    "row.extra.ft": af2("msa_row", S=5120, R=384, **EXTRA),
    "col.init": af2("msa_column", S=128, R=256),
    "col.ft": af2("msa_column", S=512, R=384),
    "colglobal.init": af2("msa_global_column", S=1024, R=256),
    "colglobal.ft": af2("msa_global_column", S=5120, R=384),
    "colplain.extra.ft": af2("msa_column", S=5120, R=384, **EXTRA),  # what global attention avoids: 322 GB of scores
    "tri.start.init": af2("triangle_starting", R=256),
    "tri.end.init": af2("triangle_ending", R=256),
    "tri.start.ft": af2("triangle_starting", R=384),
    "tri.end.ft": af2("triangle_ending", R=384),
    "tri.template": af2("triangle_starting", B=4, R=256, c=16, c_in=64),
    "tmpl.pointwise.init": af2("template_pointwise", R=256, T=4),  # 65,536 rows, past the CUDA grid's 65,535
    "tmpl.pointwise.ft": af2("template_pointwise", R=384, T=4),
    # AlphaFold-Multimer v3 (508 + 4 clusters, N_extra=2048) and v1, v2 (252, N_extra=1152)
    "row.multimer.v3": af2("msa_row", S=512, R=768),
    "colglobal.multimer.v3": af2("msa_global_column", S=2048, R=768),
    "row.multimer.v2": af2("msa_row", S=252, R=384),
    "colglobal.multimer.v2": af2("msa_global_column", S=1152, R=384),
    # AlphaFold 3, OpenFold-3, Boltz, Protenix: triangle attention over their token crops
    "tri.tokens.384": af2("triangle_starting", R=384),
    "tri.tokens.512": af2("triangle_starting", R=512),
    "tri.tokens.640": af2("triangle_starting", R=640),
    "tri.tokens.768": af2("triangle_starting", R=768),
    # The DeepSpeed evoformer kernel's own test shapes
    "deepspeed.a": af2("msa_row", S=256, R=256, N_head=4, c=32, c_in=128),
    "deepspeed.b": af2("msa_row", S=512, R=256, **EXTRA),
}
"""Problems by name, in float32 on the CPU; ``problem.with_(dtype=..., device=..., direction=...)`` changes that."""
