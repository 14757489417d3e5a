"""Mixture of experts: a router sends every token to a few MLPs, and their answers are added up.

Tokens are sorted by expert, so that each GEMM is one grouped call over the experts that have any:
what it costs depends on the tokens and on how many experts were activated. Source: Jiang et al.,
"Mixtral of Experts" (2024), section 2.1; Qwen2-MoE adds one shared expert behind a gate.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  # the name all torch code gives it
from torch import Tensor

ALIGNED = 16
"""Grouped kernels want rows of whole 16 bytes."""


class Experts(NamedTuple):
    """Weights of one layer's experts. router: (experts, hidden); gate_up: (experts, 2 x
    intermediate, hidden); down: (experts, hidden, intermediate); shared_*: None if there is none.
    """

    router: Tensor
    gate_up: Tensor
    down: Tensor
    shared_gate_up: Tensor | None = None
    shared_down: Tensor | None = None
    shared_gate: Tensor | None = None


class Routed(NamedTuple):
    """Which tokens go where: shares and experts of every token, (tokens, experts per token)."""

    shares: Tensor
    experts: Tensor

    @property
    def used(self) -> int:
        """How many experts have any token."""
        return int((self.experts.flatten().bincount() > 0).sum())


def route(weights: Experts, rows: Tensor, experts_per_token: int) -> Routed:
    """The router: softmax over a GEMM, the best of it."""
    chances = F.linear(rows, weights.router).float().softmax(-1)
    shares, experts = chances.topk(experts_per_token, dim=-1)
    return Routed((shares / shares.sum(-1, keepdim=True)).to(rows.dtype), experts)


def through_experts(weights: Experts, rows: Tensor, routed: Routed) -> Tensor:
    """Every token through its experts; (tokens, hidden)."""
    chosen = routed.experts.flatten()
    order = chosen.argsort()
    source = order // routed.experts.shape[-1]
    counts = torch.zeros(len(weights.router), dtype=torch.int32, device=rows.device)
    counts.scatter_add_(0, chosen, torch.ones_like(chosen, dtype=torch.int32))
    ends = counts.cumsum(0, dtype=torch.int32)
    hidden = activated(grouped_linear(rows[source], weights.gate_up, ends))
    answers = grouped_linear(hidden, weights.down, ends)
    answers *= routed.shares.flatten()[order, None]
    return torch.zeros_like(rows).index_add_(0, source, answers)


def through_shared(weights: Experts, rows: Tensor) -> Tensor:
    """Every token through the expert that all share; (tokens, hidden)."""
    assert weights.shared_gate_up is not None
    assert weights.shared_down is not None
    assert weights.shared_gate is not None
    answers = F.linear(activated(F.linear(rows, weights.shared_gate_up)), weights.shared_down)
    return answers * F.linear(rows, weights.shared_gate).sigmoid()


def activated(gate_up: Tensor) -> Tensor:
    """SiLU of the gate, times up; (rows, intermediate)."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def grouped_linear(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Rows up to each end times the weights of that expert; weights: (experts, out, in)."""
    if has_grouped_gemm(rows.device, rows.dtype):
        return F.grouped_mm(rows, weights.transpose(-2, -1), offs=ends)
    parts = torch.split(rows, ends.diff(prepend=ends.new_zeros(1)).tolist())
    return torch.cat(
        [F.linear(part, expert) for part, expert in zip(parts, weights, strict=True) if len(part)]
    )


@cache
def has_grouped_gemm(device: torch.device, dtype: torch.dtype) -> bool:
    """Does torch's grouped GEMM run there? Else it is one GEMM per activated expert."""
    if not hasattr(F, "grouped_mm"):
        return False
    rows, weights = (torch.ones(*s, device=device, dtype=dtype) for s in ((4, 16), (2, 16, 16)))
    ends = torch.tensor([1, 4], device=device, dtype=torch.int32)
    try:
        done = F.grouped_mm(rows, weights.transpose(-2, -1), offs=ends)
    except (RuntimeError, ValueError):
        return False
    return bool((done == ALIGNED).all())
