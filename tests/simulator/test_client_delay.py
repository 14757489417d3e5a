"""What lies between a client and the engine's queue. Times in ms, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels import ConstantCostModel
from simulator import (
    ChunkedPrefillScheduler,
    ClientDelay,
    ConfigError,
    ContinuousScheduler,
    KVCache,
    Trace,
    simulate,
)
from simulator.identities import check_identities
from simulator.metrics import summarize
from simulator.schedulers import SCHEDULERS
from simulator.timings import dispatch_ns, e2el_ns, queue_ns, ttft_ns
from simulator.units import NS_PER_MS
from tests.simulator.facts import assert_same
from tests.strategies import traces
from tests.timeline import asked, ms

TEN = ConstantCostModel(prefill_ms=10, decode_ms=10)
ROOMY = KVCache(1000)
THREE_FOUR = ClientDelay(request_ns=3 * NS_PER_MS, response_ns=4 * NS_PER_MS)


def test_a_lone_request_is_delayed_both_ways_and_the_engine_is_as_fast_as_ever() -> None:
    """Sent at 100, in the queue at 103, tokens at 113 and 123, read at 117 and 127."""
    result = simulate(
        asked((100, 5, 2)), ContinuousScheduler(), TEN, ROOMY, client_delay=THREE_FOUR
    )

    rows, log = np.array([0]), result.requests
    assert (ms(log.scheduled_ns), ms(log.arrival_ns)) == ([100], [103])
    assert (ms(log.first_token_ns), ms(log.finish_ns)) == ([113], [123])
    assert ms(ttft_ns(result, rows)) == [17]
    assert ms(e2el_ns(result, rows)) == [27]
    assert ms(queue_ns(result, rows)) == ms(dispatch_ns(result, rows)) == [0]
    told = summarize(result)
    assert (told["ttft_ms"]["mean"], told["tpot_ms"]["mean"]) == (17, 10)


def test_a_capped_client_reads_the_answer_before_it_sends_again() -> None:
    """Cap 1. Request 0: sent 0, queue 3, finished 13, read 17. Request 1 (wanted at 5): sent 17,
    queue 20, finished 30, read 34."""
    trace = asked((0, 5, 1), (5, 5, 1))

    result = simulate(
        trace, ContinuousScheduler(), TEN, ROOMY, max_concurrency=1, client_delay=THREE_FOUR
    )

    rows, log = np.array([0, 1]), result.requests
    assert ms(log.arrival_ns) == [3, 20]
    assert ms(log.scheduled_ns) == [0, 5]
    assert ms(dispatch_ns(result, rows)) == [0, 12]
    assert ms(e2el_ns(result, rows)) == [17, 17]
    check_identities(result)


def test_a_user_thinks_after_reading() -> None:
    """As above with 10 of thinking: read 17, sent 27, queue 30, finished 40."""
    trace = asked((0, 5, 1), (0, 5, 1), think_ns=np.array([0, 10]) * NS_PER_MS)

    result = simulate(trace, ContinuousScheduler(), TEN, ROOMY, users=1, client_delay=THREE_FOUR)

    assert ms(result.requests.arrival_ns) == [3, 30]
    check_identities(result, users=1)


def test_a_conversation_goes_on_after_reading() -> None:
    trace = asked(
        (0, 5, 1),
        (0, 5, 1),
        ids=("a", "b"),
        parent=(None, "a"),
        think_ns=np.array([0, 10]) * NS_PER_MS,
    )

    result = simulate(trace, ContinuousScheduler(), TEN, ROOMY, client_delay=THREE_FOUR)

    assert ms(result.requests.arrival_ns) == [3, 30]


def test_a_short_prompt_overtakes_a_long_one_in_the_tokenizer() -> None:
    """1 ms a token: 30 tokens sent at 0 are in the queue at 30, 5 tokens sent at 10 at 15.

    The short one runs 15-25, the long one 30-40.
    """
    tokenizer = ClientDelay(prompt_token_ns=NS_PER_MS)

    result = simulate(
        asked((0, 30, 1), (10, 5, 1)), ContinuousScheduler(), TEN, ROOMY, client_delay=tokenizer
    )

    assert ms(result.requests.arrival_ns) == [30, 15]
    assert ms(result.requests.finish_ns) == [40, 25]
    assert ms(ttft_ns(result, np.array([0, 1]))) == [40, 15]


def test_negative_delay_is_refused() -> None:
    with pytest.raises(ConfigError, match="response_ns is -1"):
        ClientDelay(response_ns=-1)


@settings(max_examples=60)
@given(trace=traces(), request_ms=st.integers(0, 40), response_ms=st.integers(0, 40))
def test_an_open_loop_with_a_delay_is_the_same_trace_arriving_later(
    trace: Trace, request_ms: int, response_ms: int
) -> None:
    delay = ClientDelay(request_ns=request_ms * NS_PER_MS, response_ns=response_ms * NS_PER_MS)
    later = trace.changed("later", arrival_ns=trace.arrival_ns + delay.request_ns)

    ours, expected = (
        simulate(given_trace, ChunkedPrefillScheduler(64, 8), TEN, ROOMY, client_delay=outside)
        for given_trace, outside in ((trace, delay), (later, ClientDelay()))
    )

    for column in ("arrival_ns", "first_token_ns", "finish_ns"):
        assert np.array_equal(getattr(ours.requests, column), getattr(expected.requests, column))


@pytest.mark.parametrize("load", [{}, {"max_concurrency": 2}, {"users": 3}], ids=str)
@pytest.mark.parametrize("asynchronous", [False, True])
@settings(max_examples=25)
@given(trace=traces())
def test_leaping_changes_nothing_behind_a_delay(
    load: dict[str, int], asynchronous: bool, trace: Trace
) -> None:
    delay = ClientDelay(7 * NS_PER_MS, NS_PER_MS // 5, 11 * NS_PER_MS)
    leaped, stepped = (
        simulate(
            trace,
            SCHEDULERS["vllm"](64, 8),
            TEN,
            KVCache(64),
            leap=leap,
            client_delay=delay,
            async_scheduling=asynchronous,
            sessions=False,
            **load,
        )
        for leap in (True, False)
    )

    assert_same(leaped, stepped)
    check_identities(leaped, users=load.get("users"))
