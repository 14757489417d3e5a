"""The moment worth looking at step by step: a long prompt arrives on running streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ENOUGH_STREAMS = 16
"""More running streams than this make a moment no more telling."""


class Seen(NamedTuple):
    """What one run shows. Times in ms on the run's clock.

    arrival_ms, wait_ms (arrival to first token; NaN: never): shape (requests,).
    end_ms, duration_ms, streams (sequences with a seat whose prompt the step does not prefill):
        shape (steps,), steps in order.
    """

    arrival_ms: Floats
    wait_ms: Floats
    end_ms: Floats
    duration_ms: Floats
    streams: Floats


def choose_row(prompt_tokens: Floats, runs: Sequence[Seen]) -> int | None:
    """The request whose arrival shows most: a long prompt, many streams, little queueing.

    prompt_tokens: shape (requests,); the same requests in every run. Counts only what holds in
    every run; None if no prompt arrived on running streams. Of equals the earliest.
    """
    if not runs or not len(prompt_tokens):
        return None
    score = prompt_tokens**2
    for run in runs:
        streams = np.minimum(_streams_at_arrival(run), ENOUGH_STREAMS)
        speed = np.nan_to_num(streams / np.maximum(run.wait_ms, 1e-6))
        score = score * speed ** (1 / len(runs))
    best = int(np.argmax(score))
    return best if score[best] > 0 else None


def choose_window(runs: Sequence[Seen], row: int, most_steps: int) -> tuple[float, float]:
    """Milliseconds to show before and after the arrival: until the slowest first token.

    Cut where the busiest run has had `most_steps` steps, but not before the quickest first token.
    """
    waits = [float(run.wait_ms[row]) for run in runs]
    crowded = []
    for run in runs:
        later = run.end_ms[run.end_ms > run.arrival_ms[row]][:most_steps]
        crowded.append(float(later[-1] - run.arrival_ms[row]) if len(later) else 0.0)
    after = min(1.15 * max(waits), max(min(crowded), 1.25 * min(waits)))
    return after / 8, after


def _streams_at_arrival(run: Seen) -> Floats:
    """Streams in the step under way at each arrival; 0 where none is."""
    if not len(run.end_ms):
        return np.zeros(len(run.arrival_ms))
    at = np.searchsorted(run.end_ms, run.arrival_ms, side="right")
    inside = at < len(run.end_ms)
    at = np.minimum(at, len(run.end_ms) - 1)
    under_way = inside & (run.end_ms[at] - run.duration_ms[at] <= run.arrival_ms)
    return np.where(under_way, run.streams[at], 0.0)
