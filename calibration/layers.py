"""A decoder layer: its random weights, and its MLP or experts.

Weights are never zeros, since some devices are faster on zeros.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch.nn.functional as F  # noqa: N812  # the name all torch code gives it
from torch import Tensor

from .experts import Experts, Routed, activated, route, through_experts, through_shared
from .sizes import DecoderSizes
from .timing import Lap

DENSE_MLP = ("gate_up", "activation", "down")
SPARSE_MLP = ("router", "experts", "shared_expert")
"""Laps of `through_mlp`, without and with experts."""


class Random(Protocol):
    """Normal random numbers on a device."""

    def __call__(self, *shape: int, scale: float = 1.0) -> Tensor:
        """scale: standard deviation."""


class Layer(NamedTuple):
    """Weights of one layer; (out, in) each, so that a GEMM is `F.linear`.

    gate_up, down: of the MLP; a layer with experts has those instead, and two empty tensors here.
    """

    qkv: Tensor
    qkv_bias: Tensor | None
    output: Tensor
    gate_up: Tensor
    down: Tensor
    norm: Tensor
    experts: Experts | None = None


def random_layer(sizes: DecoderSizes, random: Random) -> Layer:
    """One layer of a model."""
    hidden, heads = sizes.hidden, sizes.heads * sizes.head_dim
    dense = 0 if sizes.experts else sizes.intermediate
    return Layer(
        qkv=random(sizes.qkv, hidden, scale=hidden**-0.5),
        qkv_bias=random(sizes.qkv) if sizes.attention_bias else None,
        output=random(hidden, heads, scale=heads**-0.5),
        gate_up=random(2 * dense, hidden, scale=hidden**-0.5),
        down=random(hidden, dense, scale=max(dense, 1) ** -0.5),
        norm=1 + random(hidden, scale=0.1),
        experts=_experts(sizes, random) if sizes.experts else None,
    )


def _experts(sizes: DecoderSizes, random: Random) -> Experts:
    n, hidden, each, shared = (
        *(sizes.experts, sizes.hidden, sizes.intermediate),
        sizes.shared_intermediate,
    )
    weights = Experts(
        router=random(n, hidden, scale=hidden**-0.5),
        gate_up=random(n, 2 * each, hidden, scale=hidden**-0.5),
        down=random(n, hidden, each, scale=each**-0.5),
    )
    if not shared:
        return weights
    return weights._replace(
        shared_gate_up=random(2 * shared, hidden, scale=hidden**-0.5),
        shared_down=random(hidden, shared, scale=shared**-0.5),
        shared_gate=random(1, hidden, scale=hidden**-0.5),
    )


def through_mlp(
    layer: Layer, rows: Tensor, experts_per_token: int, lap: Lap
) -> tuple[Tensor, Routed | None]:
    """The MLP of a layer, (tokens, hidden), or its experts and where they were routed."""
    if layer.experts is None:
        gate_up = F.linear(rows, layer.gate_up)
        lap("gate_up")
        rows = activated(gate_up)
        lap("activation")
        added = F.linear(rows, layer.down)
        lap("down")
        return added, None
    routed = route(layer.experts, rows, experts_per_token)
    lap("router")
    added = through_experts(layer.experts, rows, routed)
    lap("experts")
    if layer.experts.shared_down is not None:
        added += through_shared(layer.experts, rows)
        lap("shared_expert")
    return added, routed
