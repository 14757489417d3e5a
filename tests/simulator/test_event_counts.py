"""How much work the engine does, in exact counts: of events, plans and prices asked for.

Seconds are noisy, counts are not. One event starts the process; then one per wait.
"""

from __future__ import annotations

import numpy as np
import pytest
import simpy
from numpy.typing import NDArray

from costmodels import ConstantCostModel
from simulator import (
    ChunkedPrefillScheduler,
    ContinuousScheduler,
    EngineView,
    KVCache,
    Plan,
    StaticScheduler,
    StepShape,
    Trace,
    simulate,
)
from simulator.units import NS_PER_MS
from tests.timeline import asked

ROOMY = KVCache(100_000)


class Counting(ConstantCostModel):
    """10 ms a prompt step, 2 ms a decode step; counts how often it is asked."""

    __slots__ = ("leaps", "steps")

    def __init__(self) -> None:
        super().__init__(prefill_ms=10, decode_ms=2)
        self.steps = self.leaps = 0

    def step_ns(self, shape: StepShape) -> int:
        """Price one step."""
        self.steps += 1
        return super().step_ns(shape)

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price many, in one call."""
        self.leaps += 1
        return np.full(steps, 2 * NS_PER_MS)


class CountingPlans(ChunkedPrefillScheduler):
    """`chunked`; counts how often it is asked."""

    plans = 0

    def plan(self, view: EngineView) -> Plan:
        """Count, then plan."""
        self.plans += 1
        return super().plan(view)


@pytest.mark.parametrize("output", [2, 20, 2000, 16_000])
def test_lone_request_takes_three_events_whatever_the_length_of_its_answer(output: int) -> None:
    """Start, prompt step, one leap. Two plans, two prices, one of them of a whole leap."""
    scheduler, prices = CountingPlans(), Counting()

    result = simulate(asked((0, 100, output)), scheduler, prices, ROOMY)

    assert (result.events, scheduler.plans, len(result.steps)) == (3, 2, output)
    assert (prices.steps, prices.leaps) == (2, int(output > 2))


def test_lone_request_that_arrives_later_takes_one_event_more() -> None:
    """The wait for it."""
    assert simulate(asked((5, 100, 9)), CountingPlans(), Counting(), ROOMY).events == 4


def test_step_by_step_takes_an_event_for_each_token() -> None:
    """Start and 50 steps."""
    result = simulate(asked((0, 100, 50)), CountingPlans(), Counting(), ROOMY, leap=False)

    assert result.events == 51


@pytest.mark.parametrize("streams", [1, 4, 100])
def test_streams_that_run_together_take_no_more_events_than_one(streams: int) -> None:
    """All arrive and end together: start, prompts, one leap."""
    trace = asked(*[(0, 10, 300)] * streams)

    assert simulate(trace, CountingPlans(), Counting(), ROOMY).events == 3


def test_each_finish_ends_a_leap() -> None:
    """Ten outputs of 10, 20, .. 100 tokens: start, prompts, ten leaps."""
    trace = asked(*[(0, 10, 10 * (k + 1)) for k in range(10)])

    assert simulate(trace, CountingPlans(), Counting(), ROOMY).events == 12


def test_arrival_that_can_be_admitted_ends_a_leap_and_one_that_cannot_does_not() -> None:
    """A decodes 10-208. B arrives at 51.

    With a free seat: leap to 52, B's prompt beside A's decode 52-64, then leaps to B's end and to
    A's: start, prompt, leap, fused step, leap, leap. With one seat A's leap goes on to its end,
    then B's prompt and decodes.
    """
    trace = asked((0, 10, 100), (51, 10, 5))

    def events(seats: int) -> int:
        return simulate(trace, ChunkedPrefillScheduler(2048, seats), Counting(), ROOMY).events

    assert events(2) == 6
    assert events(1) == 5


def test_arrivals_while_a_static_batch_runs_cost_nothing() -> None:
    """Start; prompts and leap of the batch; the 50 that came meanwhile as one more batch."""
    trace = asked((0, 10, 1000), *[(20 * k, 10, 2) for k in range(1, 51)])

    assert simulate(trace, StaticScheduler(64), Counting(), ROOMY).events == 5


def test_request_of_one_token_is_one_event_under_load() -> None:
    """1,000 arrivals every 8, service 10, one seat: start, and one event each."""
    arrivals = np.arange(1000) * 8 * NS_PER_MS
    trace = Trace(arrivals, np.full(1000, 7), np.ones(1000, np.int64))

    assert simulate(trace, ContinuousScheduler(2048, 1), Counting(), ROOMY).events == 1001


def test_memory_shortage_ends_a_leap_once_per_preemption() -> None:
    """4 blocks of 4. A: prompt 7, output 4. B: prompt 4, output 4 (see test_engine).

    Start; prompts; the step before B is evicted; the one that evicts it, which promises nothing;
    A's last; B's prompt again; B's last.
    """
    trace = asked((0, 7, 4), (0, 4, 4))

    result = simulate(trace, ChunkedPrefillScheduler(), Counting(), KVCache(4, block_size=4))

    assert (result.events, len(result.steps)) == (7, 6)


def test_events_reported_are_those_simpy_processed(monkeypatch: pytest.MonkeyPatch) -> None:
    processed = 0
    step = simpy.Environment.step

    def counted(environment: simpy.Environment) -> None:
        nonlocal processed
        step(environment)
        processed += 1

    monkeypatch.setattr(simpy.Environment, "step", counted)
    trace = asked((3, 10, 50), (51, 10, 5), (400, 10, 5))

    result = simulate(trace, ChunkedPrefillScheduler(), Counting(), ROOMY)

    assert processed == result.events
