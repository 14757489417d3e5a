"""One busy moment, the same for every scheduler of a sweep."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.busy_moment import Seen, choose_row, choose_window
from experiments.config import RunConfig
from experiments.run import prepare, simulate_parts
from simulator.result import NOT_YET
from simulator.units import NS_PER_MS, NS_PER_S

from .backends import Workers
from .lanes import choose_points, foreseen_points
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
class Lane:
    """A point to be seen step by step. file: its trace file, for the process that runs it."""

    point: int
    config: RunConfig
    file: Handle | None


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What is needed of its run. Times in ns; columns of requests, then of steps, by name."""

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


def foreseen_lanes(
    spec: SweepSpec, running: Container[int], files: Mapping[str, Handle]
) -> list[Lane]:
    """Lanes that `moment_frame` will need if these points run, as far as that can be told now."""
    return [_lane(spec, point, files) for point in foreseen_points(spec, running)]


def moment_frame(
    spec: SweepSpec, rows: pd.DataFrame, pool: Workers, shown: Mapping[int, Shown]
) -> pd.DataFrame | None:
    """Steps around the chosen arrival, one point after another; None if there is no such moment.

    rows: the table of the sweep. shown: points that were shown before, by index. pool: where the
    others are simulated once more.
    Columns: point, start_ms (0 is the arrival), duration_ms, prefill_tokens, prefill_seqs,
    decode_seqs, running; and the same in every row of a point: prompt_tokens, arrival_s,
    first_token_ms, window_start_ms, window_end_ms.
    """
    import pandas as pd

    points = choose_points(spec, rows)
    missing = [_lane(spec, each, pool.handles) for each in points if each.index not in shown]
    known = {**shown, **{each.point: each for each in pool.run(_show, missing)}}
    lanes = [known[point.index] for point in points]
    runs = [lane.seen() for lane in lanes]
    prompts = lanes[0].requests["prompt_tokens"] if lanes else np.empty(0)
    row = choose_row(prompts.astype(np.float64), runs)
    if row is None:
        return None
    window_ms = choose_window(runs, row, MOST_STEPS)
    parts = [pd.DataFrame({"point": lane.point, **_steps(lane, row, window_ms)}) for lane in lanes]
    return pd.concat(parts, ignore_index=True)


def try_to_show(lane: Lane) -> Shown | None:
    """A lane that was foreseen; None if its run goes wrong, as its point then may do too."""
    try:
        return _show(lane)
    except Exception:  # the point's own record says what a user's policy raised
        return None


def _show(lane: Lane) -> Shown:
    workload = shared_workload(lane.config, lane.file)
    if len(workload.trace) > MOST_REQUESTS:
        first = workload.trace.take(np.arange(MOST_REQUESTS))
        workload = replace(workload, trace=first)
    result = simulate_parts(prepare(lane.config, workload=workload))
    return Shown(
        lane.point,
        {
            "arrival_ns": result.requests.arrival_ns,
            "first_token_ns": result.requests.first_token_ns,
            "prompt_tokens": result.trace.prompt_tokens,
        },
        {name: getattr(result.steps, name) for name in ("end_ns", "duration_ns", *COUNTS)},
    )


def _lane(spec: SweepSpec, point: Point, files: Mapping[str, Handle]) -> Lane:
    config = spec.config(point, spec.runs[0])
    return Lane(point.index, config, files.get(file_key(config) or ""))


def _steps(lane: Shown, row: int, window_ms: tuple[float, float]) -> dict[str, Any]:
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
