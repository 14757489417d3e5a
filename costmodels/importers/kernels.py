"""From the kernel tables of AIConfigurator to the operators of a decoder layer.

They hold GEMMs by (m, n, k), attention of whole prompts and of decodes by heads, and all-reduces.
What they lack is estimated, and marked so by its name or in the note of the table:

- norms, rope, activation, KV write: 5 launches of 2.2 us and their traffic at 0.8 of the bandwidth;
- a GEMM of another size: interpolated in n and k; attention of another number of heads: in heads;
- the history of prompt chunks: T(past + n) - T(past), and at least T(n);
- decodes and chunks in one step: the sum of both.

Two corrections of what was measured. A time above 1.5 x both neighbours is a spike and becomes
their mean. A decode faster than the memory can deliver its KV was measured with that in the L2
cache, where a whole model's is not: it is raised to the bandwidth.

FP8 GEMMs were measured with the quantisation of their input. A checkpoint with static scales does
without finding the scale; where the kernel before writes FP8 (TensorRT-LLM, into o and down),
without scaling too. Both were measured alone, and are taken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any  # Any: columns of whole numbers, times or text

import numpy as np
from numpy.typing import NDArray

from costmodels.curves import ONE_NS, curve_through
from costmodels.model_config import ModelConfig
from costmodels.operators_table import AttentionPoint, Operator
from simulator.errors import ConfigError

from .imported import attention_of, heads_of, points_of

ELEMENTWISE_KERNELS = 5
LAUNCH_US = 2.2
BANDWIDTH_EFFICIENCY = 0.8
BYTES = 2
"""Per element of bf16. The three numbers above are assumptions, not measurements."""
SPIKE = 1.5

NOTE = (
    "norms, rope and activation are estimated from bandwidth, the history of prompt chunks from "
    "causal prefills; mixed steps, sampler and host time are not in the table"
)

Columns = Mapping[str, NDArray[Any]]
Points = dict[int, float]
Gemms = dict[int, dict[tuple[int, int], float]]


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


def operators_of(
    kernels: Kernels, model: ModelConfig, tensor_parallel: int
) -> tuple[dict[str, Operator], tuple[AttentionPoint, ...]]:
    """(counted operators, attention points) of one GPU. ConfigError: a size was not measured."""
    heads, kv_heads = heads_of(model, tensor_parallel)
    gemms = _gemms(kernels.gemm)
    head_gemms = gemms if kernels.head_gemm is None else _gemms(kernels.head_gemm)
    queries, keys = heads * model.head_dim, kv_heads * model.head_dim
    hidden, inner = model.hidden_size, model.intermediate_size // tensor_parallel
    traffic = BYTES * (8 * hidden + 2 * (queries + keys) + 4 * keys + 3 * inner)
    counted = {
        "qkv": _gemm(gemms, queries + 2 * keys, hidden),
        "o": _gemm(gemms, hidden, queries),
        "gate_up": _gemm(gemms, 2 * inner, hidden),
        "down": _gemm(gemms, hidden, inner),
        "elementwise (estimated)": _elementwise(traffic, kernels.bandwidth, max(gemms)),
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
    return counted, _attention(kernels, heads, kv_heads, model.head_dim)


def _gemms(columns: Columns) -> Gemms:
    gemms: Gemms = {}
    rows = zip(*(columns[name].tolist() for name in ("m", "n", "k", "latency")), strict=True)
    for m, n, k, latency in rows:
        gemms.setdefault(m, {})[n, k] = 1000 * latency
    return gemms


def _gemm(gemms: Gemms, n: int, k: int, *, axis: str = "tokens", per: str = "layer") -> Operator:
    """C[m, n] = A[m, k] B[k, n] over m, for those m that have the sizes around n and k."""
    sizes = {size for times in gemms.values() for size in times}
    columns, depths = ({size[i] for size in sizes} for i in (0, 1))
    (n_low, n_high), (k_low, k_high) = around(columns, n), around(depths, k)
    points = []
    for m, times in sorted(gemms.items()):
        corners = [times.get((a, b)) for a in (n_low, n_high) for b in (k_low, k_high)]
        known = [corner for corner in corners if corner is not None]
        if len(known) == 4:
            low = _line(known[0], known[1], (k_low, k_high), k)
            high = _line(known[2], known[3], (k_low, k_high), k)
            points.append((m, _line(low, high, (n_low, n_high), n)))
    if not points:
        raise ConfigError(f"no GEMM near n {n}, k {k} was measured: the model is too large")
    return Operator(axis=axis, per=per, points=points_of(points))


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
        (m, max(us - _line(low[m], high[m], ends, k), 0.0))
        for m, us in gemm.points
        if m in low and m in high
    )
    return replace(gemm, points=tuple(points))


def around(values: Iterable[int], wanted: int) -> tuple[int, int]:
    """The measured sizes around one, the same twice if it was measured, the last two beyond.

    >>> around([32, 64, 128], 100), around([32, 64, 128], 64), around([32, 64, 128], 500)
    ((64, 128), (64, 64), (64, 128))
    """
    ordered = sorted(values)
    if wanted in ordered or len(ordered) == 1:
        size = wanted if wanted in ordered else ordered[0]
        return size, size
    for low, high in pairwise(ordered):
        if wanted < high:
            return low, high
    return ordered[-2], ordered[-1]


def _line(at_low: float, at_high: float, ends: tuple[int, int], wanted: int) -> float:
    low, high = ends
    if low == high:
        return at_low
    return at_low + (at_high - at_low) * (wanted - low) / (high - low)


def _elementwise(bytes_per_token: int, bandwidth: float, tokens: int) -> Operator:
    us_per_token = bytes_per_token / (bandwidth * BANDWIDTH_EFFICIENCY)
    launches_us = ELEMENTWISE_KERNELS * LAUNCH_US
    points = points_of((count, launches_us + count * us_per_token) for count in (1, tokens))
    return Operator(axis="tokens", points=points)


def _all_reduce(columns: Columns, hidden: int) -> Operator:
    rows = zip(columns["message_size"].tolist(), columns["latency"].tolist(), strict=True)
    points = points_of((BYTES * size, 1000 * latency) for size, latency in rows)
    return Operator(axis="bytes", calls=2, bytes_per_token=BYTES * hidden, points=points)


def _attention(
    kernels: Kernels, heads: int, kv_heads: int, head_dim: int
) -> tuple[AttentionPoint, ...]:
    whole = _by_heads(kernels.prefill, ("isl",), heads, kv_heads)
    points = with_history(points_of((isl, us) for (isl,), us in whole.items()))
    decode = _by_heads(kernels.decode, ("batch_size", "step"), heads, kv_heads)
    bytes_per_token = 2 * kv_heads * head_dim * kernels.kv_bytes
    for seqs in sorted({seqs for seqs, _ in decode}):
        row = {step: us for (held, step), us in sorted(decode.items()) if held == seqs}
        for step, us in without_spikes(row).items():
            # The KV cache then holds step + 1 tokens: `step` from before, and the one written.
            least_us = seqs * step * bytes_per_token / kernels.bandwidth
            points.append((0, 0, seqs, step, max(us, least_us)))
    return attention_of(points)


def _by_heads(
    columns: Columns, keys: tuple[str, ...], heads: int, kv_heads: int
) -> dict[tuple[int, ...], float]:
    """Keys -> us at these heads; between two measured numbers of query heads linear."""
    query, kv = columns["num_heads"], columns["num_key_value_heads"]
    measured = {*query[kv == kv_heads].tolist()}
    if not measured or heads > max(measured) or heads < min(measured):
        pairs = sorted({*zip(query.tolist(), kv.tolist(), strict=True)})
        raise ConfigError(
            f"attention of {heads} query and {kv_heads} KV heads was not measured "
            f"(measured pairs: {', '.join(f'{q}/{k}' for q, k in pairs) or 'none'})"
        )
    ends = around(measured, heads)
    low, high = (_times(columns, keys, (query == end) & (kv == kv_heads)) for end in ends)
    return {
        key: _line(low[key], high[key], ends, heads) for key in sorted(low.keys() & high.keys())
    }


def _times(
    columns: Columns, keys: tuple[str, ...], rows: NDArray[np.bool_]
) -> dict[tuple[int, ...], float]:
    """Medians, where a point was measured more than once."""
    found: dict[tuple[int, ...], list[float]] = {}
    places = zip(*(columns[key][rows].tolist() for key in keys), strict=True)
    for place, latency in zip(places, columns["latency"][rows].tolist(), strict=True):
        found.setdefault(place, []).append(1000 * latency)
    return {place: float(np.median(times)) for place, times in found.items()}


def without_spikes(times: Points) -> Points:
    """Count -> us, with isolated spikes replaced by the mean of their neighbours.

    >>> without_spikes({1: 10.0, 2: 40.0, 4: 20.0})
    {1: 10.0, 2: 15.0, 4: 20.0}
    """
    counts = sorted(times)
    smooth = dict(times)
    for before, count, after in zip(counts, counts[1:], counts[2:], strict=False):
        if times[count] > SPIKE * max(times[before], times[after]):
            smooth[count] = (times[before] + times[after]) / 2
    return smooth


def with_history(whole: tuple[tuple[int, float], ...]) -> list[AttentionPoint]:
    """Chunks after a past, from the times T of whole prompts."""
    curve = curve_through(whole, grows=True)
    longest = whole[-1][0]

    def after(past: int, new: int, time_us: float) -> float:
        if not past:
            return time_us
        return max((curve.at(past + new) - curve.at(past)) / ONE_NS / 1000, time_us)

    return [
        (new, past, 0, 0, after(past, new, time_us))
        for new, time_us in whole
        for past in (0, *(count for count, _ in whole))
        if past + new <= longest or not past
    ]
