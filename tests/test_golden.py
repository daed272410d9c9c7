"""What three published codebases answer (tests/golden/README.md), reproduced by our modules over every backend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import impls
from impls import evoformer
from impls.evoformer import MultiHeadAttention

FILES = sorted(Path(__file__).with_name("golden").glob("*.safetensors"))
MASKED_ROWS = {"deepmind": "uniform", "openfold": "unmasked", "afd": "zero"}


def load(path: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["case"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def build(case: dict, path: Path, backend: str) -> torch.nn.Module:
    sizes = {"c": case["c"], "N_head": case["N_head"], "gated": case["gated"]}
    sizes |= {"backend": backend, "masked_rows": MASKED_ROWS[path.name.partition("_")[0]]}
    c_in, kind = case["c_in"], case["kind"]
    if kind == "mha":
        options = {name: case[name] for name in ("attn_dim", "is_global", "use_bias_for_embeddings")}
        return MultiHeadAttention(c_in, query_mean="all", **options, **sizes)
    if kind.startswith("triangle"):
        return evoformer.TriangleAttention(c_in, {"start": "starting", "end": "ending"}[kind.split("_")[1]], **sizes)
    if kind == "template_pointwise":
        return evoformer.TemplatePointwiseAttention(case["c_t"], c_in, **sizes)
    if kind == "msa_row":
        return evoformer.MSARowAttentionWithPairBias(c_in, case["c_z"], **sizes)
    module = {"msa_column": "MSAColumnAttention", "msa_global_column": "MSAColumnGlobalAttention"}[kind]
    return getattr(evoformer, module)(c_in, **sizes)


def tolerance(path: Path) -> float:
    """Relative to the file's largest value. OpenFold's additive 1e9 rounds the logits of rows without a valid key."""
    return 1e-6 if path.name.startswith("openfold") and "padding" in path.name else 1e-10


@pytest.mark.parametrize("backend", impls.names())
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_reproduces_the_published_answer(path: Path, backend: str) -> None:
    case, tensors = load(path)
    module = build(case, path, backend).double()
    module.load_state_dict({name[6:]: x for name, x in tensors.items() if name.startswith("param.")})
    inputs = {name[3:]: x for name, x in tensors.items() if name.startswith("in.")}
    for name in inputs.keys() & {"x", "z", "t", "bias"}:
        inputs[name].requires_grad_()
    if case["kind"] == "mha" and "mask" in inputs:
        inputs["attention_mask"] = inputs.pop("mask")
    try:
        out = module(**inputs)
    except impls.UnsupportedProblem as reason:
        pytest.skip(str(reason))
    out.backward(tensors["cot"])

    got = {"out": out.detach()}
    got |= {f"grad.{name}": x.grad for name, x in inputs.items() if x.requires_grad}
    got |= {f"grad.param.{name}": x.grad for name, x in module.named_parameters()}
    expected = {name: x for name, x in tensors.items() if name == "out" or name.startswith("grad.")}
    assert got.keys() == expected.keys()
    largest = max(x.abs().max() for x in expected.values())
    for name, x in expected.items():
        assert got[name].shape == x.shape, name
        error = (got[name] - x).abs().max() / largest
        assert error <= tolerance(path), f"{name}: {error:.1e} of the file's largest value"


def test_a_swapped_node_is_noticed() -> None:
    """The comparison above can fail: the starting node's file is not reproduced by the ending node."""
    path = next(p for p in FILES if p.stem == "deepmind_triangle_start_random_13")
    case, tensors = load(path)
    module = build(case | {"kind": "triangle_end"}, path, "reference").double()
    module.load_state_dict({name[6:]: x for name, x in tensors.items() if name.startswith("param.")})
    out = module(tensors["in.x"], tensors["in.mask"])
    assert (out - tensors["out"]).abs().max() > 1e-2 * tensors["out"].abs().max()
