"""Planning a step while the one before it runs (`async_scheduling`). Times in ms."""

from __future__ import annotations

from costmodels import ConstantCostModel
from simulator import (
    ALL,
    ChunkedPrefillScheduler,
    EngineView,
    KVCache,
    Plan,
    simulate,
)
from tests.timeline import asked, ms, tokens_ms

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
ROOMY = KVCache(1000)


def test_planning_ahead_sees_an_arrival_one_step_later() -> None:
    """A decodes in steps of 2 from 10. B arrives at 11, during 10-12.

    Sync: it joins the step that starts at 12 and costs 12. Async: that step is planned already
    (at 10), so B joins the one that starts at 14.
    """
    trace = asked((0, 8, 9), (11, 8, 1))

    sync = simulate(trace, ChunkedPrefillScheduler(), PRICES, ROOMY)
    ahead = simulate(trace, ChunkedPrefillScheduler(), PRICES, ROOMY, async_scheduling=True)

    assert ms(sync.requests.first_token_ns) == [10, 24]
    assert ms(ahead.requests.first_token_ns) == [10, 26]


def test_planning_ahead_keeps_a_seat_until_the_last_token_is_delivered() -> None:
    """One seat. A: prompt 0-10, its last token 10-12. B may start at 12, when A has left.

    Async, at 10 the step after 10-12 is planned: A still has its seat, so nothing is; B starts
    at 12 all the same, since nothing else keeps the device.
    """
    trace = asked((0, 8, 2), (0, 8, 1))

    result = simulate(trace, ChunkedPrefillScheduler(2048, 1), PRICES, ROOMY, async_scheduling=True)

    assert ms(result.requests.finish_ns) == [12, 22]


def test_request_evicted_with_its_last_token_in_flight_ends_and_loses_nothing() -> None:
    """Async: while its last step (10-12) runs, a policy evicts A. The token is delivered at 12."""

    class Evictor:
        def plan(self, view: EngineView) -> Plan:
            if view.waiting:
                return Plan(prefill=tuple((s, s.remaining_tokens) for s in view.waiting))
            if not len(view.decoding):
                return Plan(preempt=tuple(view.running))
            return Plan(ALL)

    result = simulate(asked((0, 8, 2)), Evictor(), PRICES, ROOMY, async_scheduling=True)

    assert tokens_ms(result, 0) == [10, 12]
    assert result.requests.preemptions.tolist() == [1]
    assert result.requests.lost_tokens.tolist() == [0]
    assert result.requests.preempted_ns.tolist() == [0]
