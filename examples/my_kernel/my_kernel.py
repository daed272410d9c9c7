"""A kernel of one's own: attention through the log-sum-exp of its logits, with a backward pass by hand.

``python -m impls check my_kernel:attend`` judges it as it is. As ``BACKEND``, registered in pyproject.toml, it also
says beforehand what it cannot do; it then appears in ``python -m impls`` and can be named wherever a backend can.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from impls import Backend, CoreProblem, Traits
from impls.masks import hide, on_keys


class LogSumExp(torch.autograd.Function):
    """P = exp(s - logsumexp(s)), computed again in the backward pass; in float32 whatever the inputs."""

    @staticmethod
    def forward(ctx, q, k, v, mask):
        ctx.save_for_backward(q, k, v, mask)
        return (weights(q, k, mask) @ v.float()).to(q.dtype)

    @staticmethod
    def backward(ctx, do):
        q, k, v, mask = ctx.saved_tensors
        P, do = weights(q, k, mask), do.float()
        dP = do @ v.float().mT
        dS = P * (dP - (P * dP).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
        dq, dk, dv = dS @ k.float(), dS.mT @ q.float(), P.mT @ do
        return dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype), None


def weights(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    s = q.float() @ k.float().mT * q.shape[-1] ** -0.5
    if mask is not None:
        s = s.masked_fill(~on_keys(mask), -torch.inf)
    lse = s.logsumexp(-1, keepdim=True)
    return (s - lse.masked_fill(lse == -torch.inf, 0)).exp()


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    """Attention through the log-sum-exp of its logits."""
    if bias is not None:
        raise NotImplementedError("takes no bias")
    if q.dtype == torch.float64:
        raise NotImplementedError("float64: computes in float32")
    return LogSumExp.apply(q, hide(k, mask), hide(v, mask), mask)


def limits(problem: CoreProblem) -> Iterable[str]:
    if problem.bias_shape is not None:
        yield "takes no bias: use chunked"
    if problem.dtype == "float64":
        yield "float64: computes in float32; use eager"


BACKEND = Backend(
    "my_kernel",
    "attention through the log-sum-exp of its logits",
    attend,
    limits=limits,
    traits=Traits(score_sized="always: logits and weights, in float32"),
)
