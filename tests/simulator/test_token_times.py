"""Gaps and token times from spans of steps: the same as from a list of all tokens."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import ConstantCostModel
from simulator import ChunkedPrefillScheduler, KVCache, Result, State, simulate
from simulator.result import NOT_YET, Pieces
from simulator.token_times import pool_growth, pooled_gaps, worst_gaps
from tests.simulator.policies import RoundRobin, Whim
from tests.strategies import SCHEDULER_STRATEGIES, cost_models, kv_caches, loads, steady, traces
from tests.timeline import asked

POLICIES = SCHEDULER_STRATEGIES | {
    "round robin": st.just(lambda: RoundRobin(2)),
    "whim": st.just(lambda: Whim(7)),
}


def check_against_tokens(result: Result) -> None:
    """Every number that is derived from spans, recounted from each token."""
    log = result.requests
    pooled: Counter[int] = Counter()
    emitted: Counter[int] = Counter()
    for row in range(len(result.trace)):
        times = result.token_times_ns(row)
        gaps = [later - sooner for sooner, later in pairwise(times)]
        assert all(gap > 0 for gap in gaps)
        assert log.emitted_tokens[row] == len(times)
        assert log.worst_gap_ns[row] == max(gaps, default=NOT_YET)
        assert log.first_token_ns[row] == min(times, default=NOT_YET)
        if log.state[row] == State.FINISHED:
            assert log.finish_ns[row] == times[-1]
            assert len(times) == result.trace.output_tokens[row]
            pooled.update(gaps)
        emitted.update(times)
    assert dict(zip(result.gaps.gap_ns.tolist(), result.gaps.count.tolist(), strict=True)) == pooled
    ends = result.steps.end_ns.tolist()
    assert result.steps.emitted_tokens.tolist() == [emitted[end] for end in ends]


@pytest.mark.parametrize("policy", POLICIES)
@steady(30)
@given(data=st.data())
def test_gaps_and_counts_are_those_of_the_expanded_tokens(policy: str, data: st.DataObject) -> None:
    trace = data.draw(traces())
    kv = data.draw(kv_caches(trace))
    new_scheduler = data.draw(POLICIES[policy])
    load = data.draw(loads(trace))
    scheduler = new_scheduler()
    if getattr(scheduler, "delivers_at_batch_end", False):
        scheduler.delivers_at_batch_end = False

    check_against_tokens(simulate(trace, scheduler, data.draw(cost_models()), kv, **load))


def spans(*rows: tuple[int, int, int], pool_ends: np.ndarray) -> Pieces:
    """Pieces (row, first, last), as if every request came from a prompt long before."""
    row, first, last = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Pieces(row, first, last, np.zeros_like(row), pool_ends[first], pool_ends[last - 1])


def test_worst_gap_of_a_span_is_the_largest_step_inside_it() -> None:
    """Pool steps end at 1, 3, 6, 10, 15, 16, 17, 18: gaps 2, 3, 4, 5, 1, 1, 1.

    Row 0 has tokens at all of them, row 1 at 16, 17, 18, row 2 at 10 only, row 3 at 3, 6, 10;
    row 4 sits out between 3 and 16: one gap of 13.
    """
    ends = np.array([1, 3, 6, 10, 15, 16, 17, 18])
    pieces = spans((0, 0, 8), (1, 5, 8), (2, 3, 4), (3, 1, 4), (4, 0, 2), (4, 5, 7), pool_ends=ends)

    assert worst_gaps(pieces, ends, rows=6).tolist() == [5, 1, NOT_YET, 4, 13, NOT_YET]


@steady(60)
@given(
    durations=st.lists(st.integers(1, 9), min_size=2, max_size=70),
    cuts=st.lists(st.tuples(st.integers(0, 69), st.integers(1, 70)), min_size=1, max_size=12),
)
def test_worst_gaps_of_any_spans_are_the_maxima(
    durations: list[int], cuts: list[tuple[int, int]]
) -> None:
    ends, steps = np.cumsum(durations), len(durations)
    rows = [
        (row, min(first, steps - 1), min(max(last, first + 1), steps))
        for row, (first, last) in enumerate(cuts)
    ]
    rows = [(row, first, max(last, first + 1)) for row, first, last in rows]
    pieces = spans(*rows, pool_ends=ends)

    expected = [max(np.diff(ends[first:last]), default=NOT_YET) for _, first, last in rows]
    assert worst_gaps(pieces, ends, len(rows)).tolist() == expected


def test_gaps_weigh_each_step_by_who_decoded_before_and_in_it() -> None:
    """Ends 10, 20, 50. Row 0 decodes in all three, row 1 in the last two, row 2 in the last one.

    10 -> 20 once (row 0), 20 -> 50 twice (rows 0 and 1), none for row 2.
    """
    ends = np.array([10, 20, 50])
    pieces = spans((0, 0, 3), (1, 1, 3), (2, 2, 3), pool_ends=ends)

    gaps = pooled_gaps(pieces, ends, np.array([True, True, True]))
    assert (gaps.gap_ns.tolist(), gaps.count.tolist()) == ([10, 30], [1, 2])

    without_first = pooled_gaps(pieces, ends, np.array([False, True, True]))
    assert (without_first.gap_ns.tolist(), without_first.count.tolist()) == ([30], [1])


def test_growth_marks_every_step_that_starts_a_block() -> None:
    """Blocks of 4. A span at context 6 over steps 0-9 takes a block at contexts 8 and 12: steps
    2 and 6. One at context 8 over steps 1-3 takes one at once, at step 1."""
    pieces = Pieces(
        row=np.array([0, 1]),
        first=np.array([0, 1]),
        last=np.array([10, 4]),
        context=np.array([6, 8]),
        starts=np.zeros(2, np.int64),
        ends=np.zeros(2, np.int64),
    )

    assert pool_growth(pieces, 10, block_size=4).tolist() == [0, 1, 1, 0, 0, 0, 1, 0, 0, 0]


def test_token_times_of_one_request_are_in_order_and_complete() -> None:
    """A: prompt 0-10, decodes at 12, then beside B's prompt (arrived 11) at 24, then 26."""
    prices = ConstantCostModel(prefill_ms=10, decode_ms=2)
    trace = asked((0, 8, 4), (11, 8, 1))

    result = simulate(trace, ChunkedPrefillScheduler(), prices, KVCache(100))

    assert [time / 1e6 for time in result.token_times_ns(0)] == [10, 12, 24, 26]
    assert [time / 1e6 for time in result.token_times_ns(1)] == [24]
    check_against_tokens(result)
