"""One busy moment, the same for every scheduler of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.busy_moment import Seen, choose_row, choose_window
from experiments.config import RunConfig
from experiments.run import run_config
from simulator.result import NOT_YET
from simulator.units import NS_PER_MS, NS_PER_S

from .backends import Workers
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
COUNTS = ("prefill_tokens", "prefill_seqs", "decode_seqs", "running")
"""Of the sequences in a step."""

Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Lane:
    """A point to be seen step by step. file: its trace file, for the process that runs it."""

    place: int
    point: int
    config: RunConfig
    file: Handle | None


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """What is needed of its run. Times in ns; columns of requests, then of steps, by name."""

    place: int
    point: int
    requests: Mapping[str, Column]
    steps: Mapping[str, Column]

    def seen(self) -> Seen:
        """For the choice of the moment."""
        requests, steps = self.requests, self.steps
        arrival_ns, first_ns = requests["arrival_ns"], requests["first_token_ns"]
        return Seen(
            arrival_ms=arrival_ns / NS_PER_MS,
            wait_ms=np.where(first_ns != NOT_YET, first_ns - arrival_ns, np.nan) / NS_PER_MS,
            end_ms=steps["end_ns"] / NS_PER_MS,
            duration_ms=steps["duration_ns"] / NS_PER_MS,
            streams=(steps["running"] - steps["prefill_seqs"]).astype(np.float64),
        )


def moment_frame(spec: SweepSpec, rows: pd.DataFrame, pool: Workers) -> pd.DataFrame | None:
    """Steps around the chosen arrival, one point after another; None if there is no such moment.

    rows: the table of the sweep. pool: where its points are simulated once more.
    Columns: point, start_ms (0 is the arrival), duration_ms, prefill_tokens, prefill_seqs,
    decode_seqs, running; and the same in every row of a point: prompt_tokens, arrival_s,
    first_token_ms, window_start_ms, window_end_ms.
    """
    import pandas as pd

    lanes = [
        _lane(spec, place, point, pool.handles)
        for place, point in enumerate(choose_points(spec, rows))
    ]
    shown = sorted(pool.run(_show, lanes), key=lambda lane: lane.place)
    runs = [lane.seen() for lane in shown]
    prompts = shown[0].requests["prompt_tokens"] if shown else np.empty(0)
    row = choose_row(prompts.astype(np.float64), runs)
    if row is None:
        return None
    window_ms = choose_window(runs, row, MOST_STEPS)
    parts = [pd.DataFrame({"point": lane.point, **_steps(lane, row, window_ms)}) for lane in shown]
    return pd.concat(parts, ignore_index=True)


def _lane(spec: SweepSpec, place: int, point: Point, files: Mapping[str, Handle]) -> _Lane:
    config = spec.config(point, spec.runs[0])
    return _Lane(place, point.index, config, files.get(file_key(config) or ""))


def _show(lane: _Lane) -> _Shown:
    workload = shared_workload(lane.config, lane.file)
    if len(workload.trace) > MOST_REQUESTS:
        first = workload.trace.take(np.arange(MOST_REQUESTS))
        workload = replace(workload, trace=first)
    result = run_config(lane.config, workload=workload).result
    return _Shown(
        lane.place,
        lane.point,
        {
            "arrival_ns": result.requests.arrival_ns,
            "first_token_ns": result.requests.first_token_ns,
            "prompt_tokens": result.trace.prompt_tokens,
        },
        {name: getattr(result.steps, name) for name in ("end_ns", "duration_ns", *COUNTS)},
    )


def _steps(lane: _Shown, row: int, window_ms: tuple[float, float]) -> dict[str, Any]:
    """Any: columns, and numbers that fill a column."""
    before_ms, after_ms = window_ms
    steps, arrival_ns = lane.steps, int(lane.requests["arrival_ns"][row])
    end_ms = (steps["end_ns"] - arrival_ns) / NS_PER_MS
    duration_ms = steps["duration_ns"] / NS_PER_MS
    seen = (end_ms > -before_ms) & (end_ms - duration_ms < after_ms)
    first_token_ns = int(lane.requests["first_token_ns"][row])
    return {
        "start_ms": (end_ms - duration_ms)[seen],
        "duration_ms": duration_ms[seen],
        **{name: steps[name][seen] for name in COUNTS},
        "prompt_tokens": int(lane.requests["prompt_tokens"][row]),
        "arrival_s": arrival_ns / NS_PER_S,
        "first_token_ms": (first_token_ns - arrival_ns) / NS_PER_MS,
        "window_start_ms": -before_ms,
        "window_end_ms": after_ms,
    }
