"""One busy moment, the same for every scheduler of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.busy_moment import Seen, choose_row, choose_window
from experiments.run import run_config
from simulator.result import NOT_YET, Result
from simulator.units import NS_PER_MS, NS_PER_S

from .lanes import choose_points
from .point import shared_workload
from .sharing import Handle, file_key
from .spec import Point, SweepSpec

if TYPE_CHECKING:
    import pandas as pd

MOST_REQUESTS = 5_000
"""The moment is looked for among the first requests only, which bounds time and memory."""
MOST_STEPS = 150
"""Steps in sight of the busiest lane; more would be hairlines."""


def moment_frame(
    spec: SweepSpec, rows: pd.DataFrame, files: Mapping[str, Handle]
) -> pd.DataFrame | None:
    """Steps around the chosen arrival, one point after another; None if there is no such moment.

    rows: the table of the sweep. files: its trace files.
    Columns: point, start_ms (0 is the arrival), duration_ms, prefill_tokens, prefill_seqs,
    decode_seqs, running; and the same in every row of a point: prompt_tokens, arrival_s,
    first_token_ms, window_start_ms, window_end_ms.
    """
    import pandas as pd

    points = choose_points(spec, rows)
    results = [_simulate(spec, point, files) for point in points]
    runs = [_seen(result) for result in results]
    row = choose_row(results[0].trace.prompt_tokens.astype(np.float64), runs) if runs else None
    if row is None:
        return None
    window_ms = choose_window(runs, row, MOST_STEPS)
    parts = [
        pd.DataFrame({"point": point.index, **_steps(result, row, window_ms)})
        for point, result in zip(points, results, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def _simulate(spec: SweepSpec, point: Point, files: Mapping[str, Handle]) -> Result:
    config = spec.config(point, spec.runs[0])
    file = files.get(file_key(config) or "")
    workload = shared_workload(config, file)
    if len(workload.trace) > MOST_REQUESTS:
        first = workload.trace.take(np.arange(MOST_REQUESTS))
        workload = replace(workload, trace=first)
    return run_config(config, workload=workload).result


def _seen(result: Result) -> Seen:
    steps, log = result.steps, result.requests
    answered = log.first_token_ns != NOT_YET
    return Seen(
        arrival_ms=log.arrival_ns / NS_PER_MS,
        wait_ms=np.where(answered, log.first_token_ns - log.arrival_ns, np.nan) / NS_PER_MS,
        end_ms=steps.end_ns / NS_PER_MS,
        duration_ms=steps.duration_ns / NS_PER_MS,
        streams=(steps.running - steps.prefill_seqs).astype(np.float64),
    )


def _steps(result: Result, row: int, window_ms: tuple[float, float]) -> dict[str, Any]:
    """Any: columns, and numbers that fill a column."""
    before_ms, after_ms = window_ms
    steps, arrival_ns = result.steps, int(result.requests.arrival_ns[row])
    end_ms = (steps.end_ns - arrival_ns) / NS_PER_MS
    duration_ms = steps.duration_ns / NS_PER_MS
    seen = (end_ms > -before_ms) & (end_ms - duration_ms < after_ms)
    counts = ("prefill_tokens", "prefill_seqs", "decode_seqs", "running")
    first_token_ns = int(result.requests.first_token_ns[row])
    return {
        "start_ms": (end_ms - duration_ms)[seen],
        "duration_ms": duration_ms[seen],
        **{name: getattr(steps, name)[seen] for name in counts},
        "prompt_tokens": int(result.trace.prompt_tokens[row]),
        "arrival_s": arrival_ns / NS_PER_S,
        "first_token_ms": (first_token_ns - arrival_ns) / NS_PER_MS,
        "window_start_ms": -before_ms,
        "window_end_ms": after_ms,
    }
