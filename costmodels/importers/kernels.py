"""From the kernel tables of AIConfigurator to the operators of a decoder layer.

They hold GEMMs by (m, n, k), attention of whole prompts and of decodes by heads, and all-reduces.
What they lack is estimated, and marked so by its name or in the note of the table:

- norms, rope, activation, KV write: 5 launches of 2.2 us and their traffic at 0.8 of the bandwidth;
- a GEMM of another size: interpolated in n and k;
- attention: see `kernel_attention.py`.

FP8 GEMMs were measured with the quantisation of their input. A checkpoint with static scales does
without finding the scale; where the kernel before writes FP8 (TensorRT-LLM, into o and down),
without scaling too. Both were measured alone, and are taken off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodels.model_config import ModelConfig
from costmodels.operators_table import AttentionPoint, Operator
from simulator.errors import ConfigError

from .imported import heads_of, points_of
from .kernel_attention import Columns, Points, around, attention_points, line, without_spikes

ELEMENTWISE_KERNELS = 5
LAUNCH_US = 2.2
BANDWIDTH_EFFICIENCY = 0.8
BYTES = 2
"""Per element of bf16. The three numbers above are assumptions, not measurements."""

NOTE = (
    "norms, rope and activation are estimated from bandwidth, the history of prompt chunks from "
    "causal prefills; mixed steps, sampler and host time are not in the table"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Tables of one GPU and back end as columns; `latency` in ms, shape (rows,) each.

    gemm: m, n, k of one dtype. prefill: batches of one prompt of `isl` tokens, num_heads,
    num_key_value_heads of the model's head_dim. decode: batch_size, step (tokens before the new
    one), heads as before. all_reduce: message_size in bf16 elements between the GPUs; None for one.
    bandwidth: of the memory, bytes per us. kv_bytes: of one element in the KV cache. head_gemm: of
    the output projection, if it is in another dtype. no_search, no_scaling: m and k of what finding
    the scales of an FP8 input takes, and of applying them, where a step does not do that.
    """

    gemm: Columns
    prefill: Columns
    decode: Columns
    all_reduce: Columns | None
    bandwidth: float
    kv_bytes: float = BYTES
    head_gemm: Columns | None = None
    no_search: Columns | None = None
    no_scaling: Columns | None = None


def refuse_experts(model: ModelConfig) -> None:
    """Only dense models are composed from these tables."""
    if model.experts:
        raise ConfigError(f"{model.name} has experts, which these tables are not read for")


def operators_of(
    kernels: Kernels, model: ModelConfig, tensor_parallel: int
) -> tuple[dict[str, Operator], tuple[AttentionPoint, ...]]:
    """(counted operators, attention points) of one GPU. ConfigError: a size was not measured."""
    refuse_experts(model)
    heads, kv_heads = heads_of(model, tensor_parallel)
    gemms = kernels.gemm
    head_gemms = gemms if kernels.head_gemm is None else kernels.head_gemm
    queries, keys = heads * model.head_dim, kv_heads * model.head_dim
    hidden, inner = model.hidden_size, model.intermediate_size // tensor_parallel
    traffic = BYTES * (8 * hidden + 2 * (queries + keys) + 4 * keys + 3 * inner)
    counted = {
        "qkv": _gemm(gemms, queries + 2 * keys, hidden),
        "o": _gemm(gemms, hidden, queries),
        "gate_up": _gemm(gemms, 2 * inner, hidden),
        "down": _gemm(gemms, hidden, inner),
        "elementwise (estimated)": _elementwise(traffic, kernels.bandwidth, int(gemms["m"].max())),
        "lm_head": _gemm(
            head_gemms, model.vocab_size // tensor_parallel, hidden, axis="sequences", per="step"
        ),
    }
    depths = {"qkv": hidden, "o": queries, "gate_up": hidden, "down": inner}
    for part, names in ((kernels.no_search, tuple(depths)), (kernels.no_scaling, ("o", "down"))):
        for name in names if part is not None else ():
            counted[name] = _without(counted[name], _by_depth(part or {}), depths[name])
    if kernels.all_reduce is not None:
        counted["all_reduce"] = _all_reduce(kernels.all_reduce, hidden)
    attention = attention_points(
        kernels.prefill,
        kernels.decode,
        heads=(heads, kv_heads),
        us_per_token=2 * kv_heads * model.head_dim * kernels.kv_bytes / kernels.bandwidth,
    )
    return counted, attention


def _gemm(gemms: Columns, n: int, k: int, *, axis: str = "tokens", per: str = "layer") -> Operator:
    """C[m, n] = A[m, k] B[k, n] over m, for those m that have the sizes around n and k."""
    columns, depths = gemms["n"], gemms["k"]
    n_ends, k_ends = (
        around(np.unique(sizes).tolist(), size) for sizes, size in ((columns, n), (depths, k))
    )
    corners = [
        _times_by_m(gemms, (columns == column) & (depths == depth))
        for column in n_ends
        for depth in k_ends
    ]
    points = []
    for m in sorted(set.intersection(*({*times} for times in corners))):
        a, b, c, d = (times[m] for times in corners)
        points.append((m, line(line(a, b, k_ends, k), line(c, d, k_ends, k), n_ends, n)))
    if not points:
        raise ConfigError(f"no GEMM near n {n}, k {k} was measured: the model is too large")
    return Operator(axis=axis, per=per, points=points_of(points))


def _times_by_m(gemms: Columns, rows: NDArray[np.bool_]) -> Points:
    """m -> us, without spikes; where kernels compete the last row counts.

    Some tables hold single times of twice their neighbours', at other m for every n and k.
    """
    times_us = 1000 * gemms["latency"][rows]
    return without_spikes(dict(zip(gemms["m"][rows].tolist(), times_us.tolist(), strict=True)))


def _by_depth(columns: Columns) -> dict[int, Points]:
    """k -> m -> us."""
    found: dict[int, Points] = {}
    rows = zip(*(columns[name].tolist() for name in ("m", "k", "latency")), strict=True)
    for m, k, latency in rows:
        found.setdefault(k, {})[m] = 1000 * latency
    return found


def _without(gemm: Operator, part: dict[int, Points], k: int) -> Operator:
    """The GEMM less a part of it that was measured alone, for those m that have both."""
    ends = around(part, k)
    low, high = part[ends[0]], part[ends[1]]
    points = (
        (m, max(us - line(low[m], high[m], ends, k), 0.0))
        for m, us in gemm.points
        if m in low and m in high
    )
    return replace(gemm, points=tuple(points))


def _elementwise(bytes_per_token: int, bandwidth: float, tokens: int) -> Operator:
    us_per_token = bytes_per_token / (bandwidth * BANDWIDTH_EFFICIENCY)
    launches_us = ELEMENTWISE_KERNELS * LAUNCH_US
    points = points_of((count, launches_us + count * us_per_token) for count in (1, tokens))
    return Operator(axis="tokens", points=points)


def _all_reduce(columns: Columns, hidden: int) -> Operator:
    rows = zip(columns["message_size"].tolist(), columns["latency"].tolist(), strict=True)
    points = points_of((BYTES * size, 1000 * latency) for size, latency in rows)
    return Operator(axis="bytes", calls=2, bytes_per_token=BYTES * hidden, points=points)
