"""The six attentions, and a stack of them, in the words of a reader who has not met them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """Title, algorithm of the AlphaFold 2 supplement, and what happens, in a sentence or two."""

    title: str
    algorithm: str
    words: str


OPERATIONS: dict[str, Operation] = {
    "msa_row": Operation(
        "MSA row attention with pair bias",
        "algorithm 7",
        "Each of the S sequences of the alignment (a row of the MSA) attends along its R residues. A pair bias, one "
        "number for every head and pair of residues, is added to the scores and is the same for all sequences.",
    ),
    "msa_column": Operation(
        "MSA column attention",
        "algorithm 8",
        "At each of the R residues (a column of the MSA) the S sequences attend to one another. There is no bias.",
    ),
    "msa_global_column": Operation(
        "MSA column global attention",
        "algorithm 19",
        "Column attention for thousands of sequences: all S of them share one averaged query for each head, so that "
        "the cost grows with S and not with S².",
    ),
    "triangle_starting": Operation(
        "Triangle attention, starting node",
        "algorithm 13",
        "The pair representation is an R × R table of edges between residues. Edges that start at the same residue "
        "attend to one another; the third edge of each triangle gives the bias.",
    ),
    "triangle_ending": Operation(
        "Triangle attention, ending node",
        "algorithm 14",
        "As for the starting node, but edges that end at the same residue attend to one another.",
    ),
    "template_pointwise": Operation(
        "Template pointwise attention",
        "algorithm 17",
        "For each pair of residues on its own, one query attends to the T templates (structures of relatives): "
        "R² very short attentions.",
    ),
    "evoformer": Operation(
        "Depth: stacked Evoformer blocks",
        "algorithm 6",
        "Rows, columns and both triangles, gated, each added to what it was given, block after block: how far rounding "
        "carries the whole stack from float64, in units of how far it carries plain eager attention. Not timed.",
    ),
}

AXIS_WORDS: dict[str, str] = {
    "S": "sequences in the alignment",
    "R": "residues in the protein",
    "T": "templates",
    "N_head": "heads",
    "c": "channels of a head",
    "B": "proteins in a batch",
    "blocks": "stacked one on another",
}


def describe(operation: str) -> Operation:
    """The words for ``operation``; one that is not known keeps its name."""
    return OPERATIONS.get(operation, Operation(operation, "", ""))
