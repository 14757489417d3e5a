"""Requests and results in whole milliseconds, for timelines worked out by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator import Result, StepShape, Trace
from simulator.result import NOT_YET
from simulator.units import NS_PER_MS


def asked(*rows: tuple[float, int, int], **columns: object) -> Trace:
    """A trace from (arrival in ms, prompt tokens, output tokens), in order of arrival."""
    return Trace(
        arrival_ns=np.array([round(arrival * NS_PER_MS) for arrival, _, _ in rows], np.int64),
        prompt_tokens=np.array([prompt for _, prompt, _ in rows], np.int64),
        output_tokens=np.array([output for _, _, output in rows], np.int64),
        **columns,
    )


def ms(column: NDArray[np.int64]) -> list[float | None]:
    """A column of nanoseconds in ms; None where it never happened."""
    return [None if value == NOT_YET else value / NS_PER_MS for value in column.tolist()]


def tokens_ms(result: Result, row: int) -> list[float]:
    """When each token of one request appeared."""
    return [time_ns / NS_PER_MS for time_ns in result.token_times_ns(row)]


def steps_ms(result: Result) -> list[tuple[float, float]]:
    """(start, end) of every step."""
    steps = result.steps
    starts, ends = ms(steps.end_ns - steps.duration_ns), ms(steps.end_ns)
    return list(zip(starts, ends, strict=True))


class PerItem:
    """A step costs so many ms per prompt token and per decoding sequence, priced slots included."""

    needs_longest_context = False

    def __init__(
        self, token_ms: float = 1.0, decode_ms: float = 10.0, step_ms: float = 0.0
    ) -> None:
        self.token_ms, self.decode_ms, self.fixed_ms = token_ms, decode_ms, step_ms

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, ns."""
        price = self.token_ms * shape.prefill_tokens + self.decode_ms * shape.decode_seqs
        return round((self.fixed_ms + price) * NS_PER_MS)

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """All the same, ns."""
        return np.full(steps, self.step_ns(shape), dtype=np.int64)


class Scripted:
    """Step k costs the k-th duration, whatever is in it; asked step by step, never for a leap."""

    needs_longest_context = False

    def __init__(self, *durations_ms: float) -> None:
        self._durations_ms = iter(durations_ms)

    def step_ns(self, shape: StepShape) -> int:
        """The next duration, ns."""
        return round(next(self._durations_ms) * NS_PER_MS)

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """A script has single steps only."""
        raise AssertionError("a scripted run is stepped")
