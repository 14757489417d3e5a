"""Where requests come from: open, capped and closed loop. Times in ms, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import ConstantCostModel
from simulator import (
    ChunkedPrefillScheduler,
    ConfigError,
    ContinuousScheduler,
    KVCache,
    State,
    StaticScheduler,
    Trace,
    simulate,
)
from simulator.feed import CappedFeed, ClosedFeed, OpenFeed, SequenceMaker
from simulator.identities import check_identities
from simulator.units import NS_PER_MS
from tests.simulator.facts import assert_same
from tests.simulator.policies import ShortestPromptAlone
from tests.strategies import steady, traces
from tests.timeline import asked, ms, tokens_ms

TEN = ConstantCostModel(prefill_ms=10, decode_ms=10)
ROOMY = KVCache(1000)


def one_at_a_time() -> ContinuousScheduler:
    """One seat: a request with one output token takes 10."""
    return ContinuousScheduler(2048, 1)


def thinking(*rows: tuple[float, int, int], think_ms: list[int]) -> Trace:
    """A trace with think times."""
    return asked(*rows, think_ns=np.array(think_ms, np.int64) * NS_PER_MS)


def test_sequence_carries_what_its_client_declared_and_nothing_of_the_answer() -> None:
    trace = asked(
        (0, 8, 3),
        (1, 9, 4),
        priority=np.array([2, 0]),
        client=("ann", None),
        max_tokens=np.array([0, 64]),
    )
    make = SequenceMaker(trace)

    first, second = make(0, 0), make(1, 7)

    assert (first.priority, first.client, first.max_tokens) == (2, "ann", None)
    assert (second.arrival_ns, second.prompt_tokens, second.max_tokens) == (7, 9, 64)


def test_open_loop_hands_out_what_is_due_in_order() -> None:
    feed = OpenFeed(asked((0, 1, 1), (5, 2, 1), (5, 3, 1), (9, 4, 1)))

    assert [sequence.row for sequence in feed.pull(5 * NS_PER_MS)] == [0, 1, 2]
    assert feed.next_ns == 9 * NS_PER_MS
    assert [sequence.row for sequence in feed.pull(9 * NS_PER_MS)] == [3]
    assert feed.next_ns is None
    assert feed.pull(99 * NS_PER_MS) == []


def test_cap_delays_what_comes_too_early_and_both_clocks_are_kept() -> None:
    """Cap 2, everybody takes 10, two seats.

    0 and 1 run 0-10. Wanted at 1 and 2: sent at 10, when places are free; 10-20.
    Wanted at 30: sent at 30.
    """
    trace = asked((0, 5, 1), (0, 5, 1), (1, 5, 1), (2, 5, 1), (30, 5, 1))

    result = simulate(trace, ContinuousScheduler(), TEN, ROOMY, max_concurrency=2)

    log = result.requests
    assert ms(log.scheduled_ns) == [0, 0, 1, 2, 30]
    assert ms(log.arrival_ns) == [0, 0, 10, 10, 30]
    assert ms(log.finish_ns) == [10, 10, 20, 20, 40]


def test_cap_that_is_never_reached_changes_nothing() -> None:
    trace = asked((0, 5, 3), (4, 5, 9), (11, 5, 2))

    runs = [
        simulate(trace, ContinuousScheduler(), TEN, ROOMY, **cap)
        for cap in ({}, {"max_concurrency": 3})
    ]

    assert_same(*runs)


def test_request_sent_while_others_leap_takes_its_place_before_the_next_is_let_go() -> None:
    """Cap 2. A runs 0-100. B is wanted at 20 and sent at 20; it waits in the engine for A.
    C is wanted at 20 too, but the cap lets it go only when A ends, at 100."""
    trace = asked((0, 5, 10), (20, 5, 1), (20, 5, 1))

    result = simulate(trace, ShortestPromptAlone(), TEN, ROOMY, max_concurrency=2)

    assert ms(result.requests.arrival_ns) == [0, 20, 100]
    assert ms(result.requests.finish_ns) == [100, 110, 120]


def test_rejected_request_leaves_its_place_under_the_cap_at_once() -> None:
    """Cap 1. A runs 0-10; B, wanted at 3 and sent at 10, can never fit; C follows at once."""
    trace = asked((0, 5, 1), (3, 500, 1), (4, 5, 1))

    result = simulate(trace, one_at_a_time(), TEN, KVCache(4), max_concurrency=1)

    assert ms(result.requests.arrival_ns) == [0, 10, 10]
    assert result.requests.state.tolist() == [State.FINISHED, State.REJECTED, State.FINISHED]
    assert ms(result.requests.finish_ns) == [10, None, 20]


def test_closed_loop_sends_the_next_request_after_the_answer_and_a_pause() -> None:
    """Two users, one seat, everybody takes 10.

    User 1: row 0 at 0, 0-10; thinks 5, sends row 2 at 15: waits for row 1's end at 20; 20-30.
    User 2: row 1 at 3, 10-20; thinks 7, sends row 3 at 27: 30-40.
    User 1: thinks 40 after 30, sends row 4 at 70: 70-80. Rows' own arrivals no longer matter.
    """
    trace = thinking(
        (0, 5, 1), (3, 5, 1), (100, 5, 1), (200, 5, 1), (300, 5, 1), think_ms=[0, 0, 5, 7, 40]
    )

    result = simulate(trace, one_at_a_time(), TEN, ROOMY, users=2)

    assert ms(result.requests.arrival_ns) == [0, 3, 15, 27, 70]
    assert ms(result.requests.finish_ns) == [10, 20, 30, 40, 80]
    check_identities(result, users=2)


def test_closed_loop_never_has_more_in_flight_than_users() -> None:
    """Three users, no pauses: three finish every 10, three start at once."""
    result = simulate(asked(*[(0, 5, 1)] * 9), ContinuousScheduler(), TEN, ROOMY, users=3)

    assert ms(result.requests.arrival_ns) == [0, 0, 0, 10, 10, 10, 20, 20, 20]
    assert result.steps.running.tolist() == [3, 3, 3]


def test_user_whose_request_is_rejected_goes_on_from_that_instant() -> None:
    """One user. Row 0 is rejected at 2, row 1 at 2 + 3, row 2 is sent at 5 + 4: 9-19."""
    trace = thinking((2, 500, 1), (0 + 3, 500, 1), (4, 5, 1), think_ms=[0, 3, 4])

    result = simulate(trace, one_at_a_time(), TEN, KVCache(4), users=1)

    assert ms(result.requests.arrival_ns) == [2, 5, 9]
    assert ms(result.requests.finish_ns) == [None, None, 19]


def test_rejections_in_the_middle_of_a_leap_happen_when_they_happen() -> None:
    """Two users. A runs 0-100. B's user: rejected at 13, again at 13 + 4; C at 17 + 6 waits."""
    rows = ((0, 5, 10), (13, 500, 1), (50, 500, 1), (60, 5, 1))
    trace = thinking(*rows, think_ms=[0, 0, 4, 6])

    result = simulate(trace, ShortestPromptAlone(), TEN, KVCache(4), users=2)

    assert ms(result.requests.arrival_ns) == [0, 13, 17, 23]
    assert ms(result.requests.finish_ns) == [100, None, None, 110]


def test_batch_that_nobody_can_fill_starts_without_waiting() -> None:
    """Static batches of 4 that wait to be full. Two users can never be four: no wait, no stall."""
    batches = StaticScheduler(4, wait_for_full_batch=True)

    closed = simulate(asked(*[(0, 5, 1)] * 4), batches, TEN, ROOMY, users=2)
    capped = simulate(asked(*[(0, 5, 1)] * 4), batches, TEN, ROOMY, max_concurrency=2)

    assert ms(closed.requests.finish_ns) == [10, 10, 20, 20]
    assert ms(capped.requests.finish_ns) == [10, 10, 20, 20]


def test_batch_waits_while_a_user_still_thinks() -> None:
    """Batch of 2, two users. Rows 0, 1: 0-10. Row 2 is sent at 15, row 3 at 30: together 30-40."""
    trace = thinking(*[(0, 5, 1)] * 4, think_ms=[0, 0, 5, 20])

    result = simulate(trace, StaticScheduler(2, wait_for_full_batch=True), TEN, ROOMY, users=2)

    assert ms(result.requests.arrival_ns) == [0, 0, 15, 30]
    assert ms(result.requests.finish_ns) == [10, 10, 40, 40]


def test_loads_below_one_are_refused() -> None:
    trace = asked((0, 5, 1))

    with pytest.raises(ConfigError, match="users is 0, must be at least 1"):
        ClosedFeed(trace, 0)
    with pytest.raises(ConfigError, match="max_concurrency is -1, must be at least 1"):
        CappedFeed(trace, -1)


@steady(60)
@given(trace=traces(), users=st.integers(1, 6))
def test_in_a_closed_loop_users_are_in_the_system_or_thinking(trace: Trace, users: int) -> None:
    result = simulate(trace, ChunkedPrefillScheduler(64, 4), TEN, KVCache(20), users=users)

    check_identities(result, users=users)


@steady(60)
@given(trace=traces(), cap=st.integers(1, 6))
def test_cap_holds_and_nobody_is_held_back_while_there_is_room(trace: Trace, cap: int) -> None:
    """At most `cap` are in flight; one that was delayed arrives as another ends."""
    result = simulate(trace, ChunkedPrefillScheduler(64, 4), TEN, ROOMY, max_concurrency=cap)

    log = result.requests
    for row, arrival in enumerate(log.arrival_ns):
        in_flight = (log.arrival_ns <= arrival) & (log.finish_ns > arrival)
        assert in_flight.sum() <= cap
        assert arrival == log.scheduled_ns[row] or arrival in log.finish_ns
    assert tokens_ms(result, 0)
