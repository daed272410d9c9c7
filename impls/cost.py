"""What an attention costs, in closed form: parameters, scores, FLOPs, bytes. Plain arithmetic; loads no torch.

A matrix product of (m, n) and (n, p) is 2 m n p FLOPs; a training step (forward and backward) is the forward and, for
each of its products, two more. Softmax, bias, mask and gate are not counted. Bytes are those of the named tensors.
"""

from __future__ import annotations

import math

from impls.problem import CoreProblem, Problem

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def attention_parameters(
    c_q: int, c_kv: int, c: int, N_head: int, *, gated: bool, shared_kv: bool = False, projection_bias: bool = False
) -> int:
    """Weights and biases of q, k, v, gate and output projections, LayerNorms aside.

    Extra-MSA column attention (c_e=64, 8 heads of 8, gated) has 20,608; its global form, whose K and V have one head,
    13,440.
    """
    width, kv_width = N_head * c, c if shared_kv else N_head * c
    weights = c_q * width + 2 * c_kv * kv_width + width * c_q
    biases = c_q + projection_bias * (width + 2 * kv_width)
    return weights + biases + gated * (c_q * width + width)


def parameters(problem: Problem, *, gated: bool | None = None, layer_norms: bool = True) -> int:
    """Parameters of the operation's whole module: with LayerNorms and the pair-bias projection.

    Gated as AlphaFold 2 has it unless said otherwise: all but the template attention.
    """
    p, template = problem, problem.operation == "template_pointwise"
    gated = not template if gated is None else gated
    c_kv = p.c_t if template else p.c_in
    shared = p.operation == "msa_global_column"
    total = attention_parameters(p.c_in, c_kv, p.c, p.N_head, gated=gated, shared_kv=shared)
    bias_width = {"msa_row": p.c_z, "triangle_starting": p.c_in, "triangle_ending": p.c_in}.get(p.operation, 0)
    total += bias_width * p.N_head
    if layer_norms and not template:
        total += 2 * p.c_in + (2 * p.c_z if p.operation == "msa_row" else 0)
    return total


def scores(problem: Problem | CoreProblem) -> int:
    """How many logits there are: 629,145,600 for column attention at S=512, R=300 and 8 heads."""
    return _core(problem).scores


def score_bytes(problem: Problem | CoreProblem) -> int:
    """Bytes of one tensor of all scores in the problem's dtype."""
    core = _core(problem)
    return core.scores * BYTES[core.dtype]


def core_flops(problem: Problem | CoreProblem) -> int:
    """FLOPs of the two products of the core, forward, or forward and backward when training."""
    core = _core(problem)
    return 4 * core.scores * core.c * (3 if core.training else 1)


def least_bytes_moved(problem: Problem | CoreProblem) -> int:
    """Bytes that any implementation of the core must read or write: q, k, v, bias and mask once, o once.

    When training, these once more (the backward pass needs them), the cotangent, and each gradient.
    """
    core = _core(problem)
    o, kv, bias = _tensor_bytes(core)
    forward = o + kv + bias + core.mask * math.prod(core.batch) * core.K + o
    return 2 * forward + output_bytes(core) if core.training else forward


def output_bytes(problem: Problem | CoreProblem) -> int:
    """Bytes of what the core returns, and so allocates: o and, when training, the gradients of q, k, v and bias."""
    core = _core(problem)
    o, kv, bias = _tensor_bytes(core)
    return o + o + kv + core.bias_grad * bias if core.training else o


def _tensor_bytes(core: CoreProblem) -> tuple[int, int, int]:
    """Bytes of q (o is as large), of k and v together, and of the bias."""
    size, batch = BYTES[core.dtype], math.prod(core.batch)
    bias = 0 if core.bias_shape is None else math.prod(core.bias_shape) * BYTES[core.bias_dtype or core.dtype]
    return batch * core.H * core.Q * core.c * size, 2 * batch * (core.H_kv or core.H) * core.K * core.c * size, bias


def module_flops(problem: Problem) -> int:
    """FLOPs of the gated module: the core and its projections (forward, or forward and backward when training)."""
    p = problem
    template, shared = p.operation == "template_pointwise", p.operation == "msa_global_column"
    rows = p.B * p.R * (p.S if p.operation.startswith("msa") else p.R)
    kv_rows, c_kv = (rows * p.T, p.c_t) if template else (rows, p.c_in)
    width, kv_width = p.N_head * p.c, p.c if shared else p.N_head * p.c
    q_rows = p.B * p.R if shared else rows
    products = q_rows * p.c_in * width + 2 * kv_rows * c_kv * kv_width + rows * width * p.c_in
    products += 0 if template else rows * p.c_in * width
    if p.has_bias:
        products += p.B * p.R * p.R * p.N_head * (p.c_z if p.operation == "msa_row" else p.c_in)
    return 2 * products * (3 if p.direction == "training" else 1) + core_flops(p)


def _core(problem: Problem | CoreProblem) -> CoreProblem:
    return problem.core() if isinstance(problem, Problem) else problem
