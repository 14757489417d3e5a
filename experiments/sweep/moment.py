"""One busy moment, the same for every scheduler: a long prompt arrives on running streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.run import run_config
from simulator.result import NOT_YET, Result
from simulator.units import NS_PER_MS, NS_PER_S

from .lanes import choose_points
from .point import shared_trace
from .spec import Point, SweepSpec

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]

MOST_REQUESTS = 20_000
"""The moment is looked for among the first requests only, which bounds time and memory."""
MOST_STEPS = 70
"""Steps in sight of the busiest lane; more would be hairlines."""
ENOUGH_STREAMS = 16
"""More running streams than this make a moment no more telling."""


def moment_frame(spec: SweepSpec, rows: pd.DataFrame) -> pd.DataFrame | None:
    """Steps around the chosen arrival, one point after another; None if there is no such moment.

    rows: the table of the sweep. Columns: point, start_ms (0 is the arrival), duration_ms,
    prefill_tokens, prefill_seqs, decode_seqs, running; and the same in every row of a point:
    prompt_tokens, arrival_s, first_token_ms, window_start_ms, window_end_ms.
    """
    import pandas as pd

    points = choose_points(spec, rows)
    results = [_simulate(spec, point) for point in points]
    row = choose_request(results)
    if row is None:
        return None
    span = choose_window(results, row)
    parts = [
        pd.DataFrame({"point": point.index, **_steps(result, row, span)})
        for point, result in zip(points, results, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def choose_request(results: Sequence[Result]) -> int | None:
    """The trace row whose arrival shows most: a long prompt, running streams, little queueing.

    Counts only what holds in every result; None if no prompt arrived on running streams.
    """
    if not results:
        return None
    prompts = results[0].trace.prompt_tokens.astype(np.float64)
    score = prompts * prompts
    for result in results:
        waited = result.requests.first_token_ns - result.requests.arrival_ns
        answered = result.requests.first_token_ns != NOT_YET
        streams = np.minimum(_streams_at_arrival(result), ENOUGH_STREAMS)
        speed = np.where(answered, streams / np.maximum(waited, 1), 0.0)
        score = score * speed ** (1 / len(results))
    best = int(np.argmax(score)) if len(score) else 0
    return best if len(score) and score[best] > 0 else None


def choose_window(results: Sequence[Result], row: int) -> tuple[int, int]:
    """Nanoseconds before and after the arrival to show: until the slowest first token.

    Cut where the busiest lane has `MOST_STEPS` steps, but not before the quickest first token.
    """
    waits = [_first_token(result, row) for result in results]
    crowded = []
    for result in results:
        ends = result.steps.end_ns - result.requests.arrival_ns[row]
        later = ends[ends > 0][:MOST_STEPS]
        crowded.append(int(later[-1]) if len(later) else 0)
    after = min(max(waits) * 23 // 20, max(min(crowded), min(waits) * 5 // 4))
    return after // 8, after


def _simulate(spec: SweepSpec, point: Point) -> Result:
    config = spec.config(point)
    trace = shared_trace(config)
    if len(trace) > MOST_REQUESTS:
        trace = trace.take(np.arange(MOST_REQUESTS))
    return run_config(config, trace=trace).result


def _first_token(result: Result, row: int) -> int:
    return int(result.requests.first_token_ns[row] - result.requests.arrival_ns[row])


def _streams_at_arrival(result: Result) -> Ints:
    """Sequences that held a seat, and were not being prefilled, in the step under way; 0: none."""
    steps, arrival = result.steps, result.requests.arrival_ns
    at = np.searchsorted(steps.end_ns, arrival, side="right")
    inside = at < len(steps.end_ns)
    at = np.minimum(at, len(steps.end_ns) - 1)
    under_way = inside & (steps.end_ns[at] - steps.duration_ns[at] <= arrival)
    return np.where(under_way, steps.running[at] - steps.prefill_seqs[at], 0)


def _steps(result: Result, row: int, span: tuple[int, int]) -> dict[str, Any]:
    """Any: columns and numbers that fill a column."""
    before, after = span
    steps, arrival = result.steps, int(result.requests.arrival_ns[row])
    end = steps.end_ns - arrival
    start = end - steps.duration_ns
    seen = (end > -before) & (start < after)
    return {
        "start_ms": start[seen] / NS_PER_MS,
        "duration_ms": steps.duration_ns[seen] / NS_PER_MS,
        "prefill_tokens": steps.prefill_tokens[seen],
        "prefill_seqs": steps.prefill_seqs[seen],
        "decode_seqs": steps.decode_seqs[seen],
        "running": steps.running[seen],
        "prompt_tokens": int(result.trace.prompt_tokens[row]),
        "arrival_s": arrival / NS_PER_S,
        "first_token_ms": _first_token(result, row) / NS_PER_MS,
        "window_start_ms": -before / NS_PER_MS,
        "window_end_ms": after / NS_PER_MS,
    }
