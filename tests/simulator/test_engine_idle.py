"""When the engine waits, wakes, stalls and stops. Times in ms, worked out by hand."""

from __future__ import annotations

import pytest

from costmodels import ConstantCostModel
from simulator import (
    ALL,
    ChunkedPrefillScheduler,
    ContinuousScheduler,
    EngineView,
    InvalidPlanError,
    KVCache,
    Plan,
    SchedulerStalledError,
    State,
    simulate,
)
from simulator.units import NS_PER_MS
from tests.timeline import asked, steps_ms, tokens_ms

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
ROOMY = KVCache(1000)


def test_no_step_ends_after_the_stop_time() -> None:
    """A: prompt 0-10, decodes to 20. B: arrives 15, prompt 16-26 would end after 25. C: 30."""
    trace = asked((0, 8, 100), (15, 8, 1), (30, 8, 1))

    result = simulate(trace, ContinuousScheduler(), PRICES, ROOMY, stop_ns=25 * NS_PER_MS)

    states = [State.UNFINISHED, State.UNFINISHED, State.NOT_ARRIVED]
    assert result.requests.state.tolist() == states
    assert steps_ms(result) == [(0, 10), (10, 12), (12, 14), (14, 16)]
    assert tokens_ms(result, 0) == [10, 12, 14, 16]
    assert tokens_ms(result, 1) == []
    assert result.requests.prefilled_tokens.tolist() == [8, 0, 0]
    assert result.end_ns == 25 * NS_PER_MS


def test_arrival_at_the_stop_time_has_not_arrived() -> None:
    """Whether a step ends at the stop time (20) or not (21)."""
    for stop in (20, 21):
        trace = asked((0, 8, 100), (stop, 8, 1))
        result = simulate(trace, ChunkedPrefillScheduler(), PRICES, ROOMY, stop_ns=stop * NS_PER_MS)
        assert result.requests.state.tolist() == [State.UNFINISHED, State.NOT_ARRIVED]


def test_empty_plan_is_asked_again_when_it_said() -> None:
    """Arrives 0, the policy sleeps until 30; steps 30-40 and 40-42."""

    class LateRiser:
        def plan(self, view: EngineView) -> Plan:
            if view.now_ns < 30 * NS_PER_MS:
                return Plan(wake_ns=30 * NS_PER_MS)
            return Plan(ALL, tuple((s, s.remaining_tokens) for s in view.waiting))

    result = simulate(asked((0, 8, 2)), LateRiser(), PRICES, ROOMY)

    assert tokens_ms(result, 0) == [40, 42]


def test_alarm_that_is_no_longer_needed_does_not_prolong_the_run() -> None:
    """The policy would wait for a second request until 900; it comes at 5 and both end at 15."""

    class Pair:
        def plan(self, view: EngineView) -> Plan:
            if len(view.waiting) < 2:
                return Plan(wake_ns=900 * NS_PER_MS)
            return Plan(prefill=tuple((s, s.remaining_tokens) for s in view.waiting))

    result = simulate(asked((0, 8, 1), (5, 8, 1)), Pair(), PRICES, ROOMY)

    assert result.end_ns == 15 * NS_PER_MS


def test_policy_that_would_wait_for_ever_is_stopped_with_a_reason() -> None:
    class Lazy:
        def plan(self, view: EngineView) -> Plan:
            return Plan()

    with pytest.raises(SchedulerStalledError, match=r"Lazy planned nothing at 0\.03 s while 1 "):
        simulate(asked((30, 8, 1)), Lazy(), PRICES, ROOMY)


def test_alarm_set_for_now_is_refused() -> None:
    class Restless:
        def plan(self, view: EngineView) -> Plan:
            return Plan(wake_ns=view.now_ns)

    with pytest.raises(InvalidPlanError, match="wake_ns must be later"):
        simulate(asked((0, 8, 1)), Restless(), PRICES, ROOMY)
