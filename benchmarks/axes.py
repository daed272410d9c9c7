"""The axes every series is drawn over: the same on every machine and for every commit, standard library only.

asv stores results by the position of a parameter in these lists, so append to them; what a machine cannot do is skipped
with its reason, not left out here. A new backend is one file in ``impls/backends/`` and its name in ``BACKENDS``;
another package's is named in AXIALBENCH_EXTRA_BACKENDS, for measurements that stay at home.
"""

from __future__ import annotations

import os

BACKENDS = (
    "eager",
    "compiled",
    "sdpa",
    "sdpa_math",
    "sdpa_flash",
    "sdpa_efficient",
    "sdpa_cudnn",
    "flex",
    "chunked",
    "flash_attn",
    "xformers",
    "flash_attn_3",
    "flash_attn_4",
    "trifast",
    "cuequivariance",
    "deepspeed_evo",
    *filter(None, os.environ.get("AXIALBENCH_EXTRA_BACKENDS", "").split(",")),
)
COMPILING = ("compiled", "flex", "flash_attn_4", "trifast")
"""Backends that build code at their first call; how long that takes is a benchmark of its own."""
CUDA_ONLY = (
    "sdpa_efficient", "sdpa_cudnn", "flash_attn", "xformers", "flash_attn_3", "flash_attn_4", "trifast",
    "cuequivariance", "deepspeed_evo",
)  # fmt: skip
"""Backends that refuse every problem on a CPU."""

DTYPES = ("float32", "bfloat16")
DIRECTIONS = ("forward", "training")

SIZES = {
    "S": (32, 64, 128, 512, 1024, 2048, 5120),  # sequences: 128 and 512 in training, 1024 and 5120 in the extra MSA
    "R": (64, 128, 256, 384, 512, 768),  # residues: crops of 256 and 384, token budgets of 512 and 768
    "N_head": (1, 2, 4, 8, 16),
    "T": (1, 2, 3, 4),  # templates
    "blocks": (1, 4, 16, 48),  # stacked: an Evoformer has 48
}
QUICK = {"S": (32, 64, 128), "R": (64, 128, 256), "N_head": (), "T": (), "blocks": (4, 48)}
"""The sizes that quick effort measures besides the centre's: three of an axis, so that others can be predicted."""

CENTRE = {
    "msa_row": {"S": 128, "R": 256, "N_head": 8, "c": 32},
    "msa_column": {"S": 128, "R": 256, "N_head": 8, "c": 32},
    "msa_global_column": {"S": 128, "R": 256, "N_head": 8, "c": 8},
    "triangle_starting": {"R": 256, "N_head": 4, "c": 32},
    "triangle_ending": {"R": 256, "N_head": 4, "c": 32},
    "template_pointwise": {"R": 256, "T": 4, "N_head": 4, "c": 16},
}
"""The problem around which each operation's axes are varied, one at a time."""

STACK = {"S": 8, "R": 16, "N_head": 4, "c": 8}
"""The problem whose attentions are stacked: small, for it is not timed."""

MODULES = ("block", "depth", "msa_column", "msa_global_column", "msa_row", "template", "triangle")
"""The suite's modules, in the order asv runs them."""

QUICK_COMPILED = ("msa_row", "core", "forward")
"""The only operation, level and direction for which quick effort lets code be built: it takes 10 to 30 s a shape."""
