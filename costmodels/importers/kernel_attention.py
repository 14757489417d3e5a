"""Attention in the kernel tables of AIConfigurator, as points of an `operators` table.

What they lack is estimated: another number of heads, between two measured ones; the history of
prompt chunks, T(past + n) - T(past) and at least T(n); decodes and chunks in one step, their sum.

Two corrections of what was measured. A time above 1.5 x both neighbours is a spike and becomes
their mean. A decode faster than the memory can deliver its KV was measured with that in the L2
cache, where a whole model's is not: it is raised to the bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any  # Any: columns of whole numbers, times or text

import numpy as np
from numpy.typing import NDArray

from costmodels.curves import ONE_NS, curve_through
from costmodels.operators_table import AttentionPoint
from simulator.errors import ConfigError

from .imported import attention_of, points_of

SPIKE = 1.5

Columns = Mapping[str, NDArray[Any]]
Points = dict[int, float]


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


def line(at_low: float, at_high: float, ends: tuple[int, int], wanted: int) -> float:
    low, high = ends
    if low == high:
        return at_low
    return at_low + (at_high - at_low) * (wanted - low) / (high - low)


def attention_points(
    prefill: Columns, decode: Columns, *, heads: tuple[int, int], us_per_token: float
) -> tuple[AttentionPoint, ...]:
    """Points of one GPU that has (query heads, KV heads); us_per_token: to read its KV."""
    whole = _by_heads(prefill, ("isl",), *heads)
    points = with_history(points_of((isl, us) for (isl,), us in whole.items()))
    times = _by_heads(decode, ("batch_size", "step"), *heads)
    for seqs in sorted({seqs for seqs, _ in times}):
        row = {step: us for (held, step), us in sorted(times.items()) if held == seqs}
        for step, us in without_spikes(row).items():
            # The KV cache then holds step + 1 tokens: `step` from before, and the one written.
            points.append((0, 0, seqs, step, max(us, seqs * step * us_per_token)))
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
    return {key: line(low[key], high[key], ends, heads) for key in sorted(low.keys() & high.keys())}


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
