"""Each transform changes what it names, nothing else, and leaves a note."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from simulator.errors import WorkloadError
from simulator.request import Request
from simulator.trace import Trace
from workloads import (
    at_rate,
    clip_lengths,
    filter_lengths,
    generate_sessions,
    head,
    merge,
    scale_rate,
    scale_time,
    spread_ties,
    window,
    with_arrivals,
)
from workloads.links import relinked

Identical = Callable[[Trace, Trace], None]
S = 10**9


@pytest.fixture
def trace() -> Trace:
    """Four requests at 0, 1, 1 and 4 s."""
    return Trace(
        arrival_ns=np.array([0, S, S, 4 * S]),
        prompt_tokens=np.array([100, 1030, 30, 512]),
        output_tokens=np.array([5, 6, 7, 8]),
        ids=("a", "b", "c", "d"),
        parent=(None, "a", None, "b"),
        block_hashes=((1,), (1, 2, 3), (), (1,)),
        hash_block_tokens=512,
        notes=("made by hand",),
        rows_in=4,
    )


@pytest.fixture
def sessions() -> Trace:
    """Two sessions of three turns, at 0 and 4 s: prompts 10, 40, 70."""
    trace = generate_sessions(
        sessions=2,
        rate=1,
        turns=3,
        first_prompt=6,
        new_text=10,
        output=20,
        system_prompt_tokens=4,
        think_time_s=1,
    )
    return with_arrivals(trace, np.repeat([0, 4 * S], 3))


def test_time_scale_halves_every_arrival_and_nothing_else(
    trace: Trace, identical: Identical
) -> None:
    halved = scale_time(trace, 0.5)
    assert halved.arrival_ns.tolist() == [0, S // 2, S // 2, 2 * S]
    assert halved.notes == ("made by hand", "arrivals scaled by 0.5")
    back = scale_time(halved, 2)
    identical(
        back, Trace(**{n: getattr(trace, n) for n in trace.__slots__} | {"notes": back.notes})
    )


def test_twice_the_rate_is_half_the_time(trace: Trace) -> None:
    assert scale_rate(trace, 2).arrival_ns.tolist() == scale_time(trace, 0.5).arrival_ns.tolist()
    assert scale_rate(trace, 2).notes[-1] == "rate scaled by 2"


def test_a_mean_rate_is_gaps_over_span(trace: Trace) -> None:
    """Three gaps in 4 s are 0.75/s; 1.5/s takes half the time."""
    faster = at_rate(trace, 1.5)
    assert faster.arrival_ns.tolist() == [0, S // 2, S // 2, 2 * S]
    assert faster.notes[-1] == "mean rate set to 1.5 requests/s"


def test_a_rate_cannot_be_set_where_everything_arrives_at_once(trace: Trace) -> None:
    with pytest.raises(WorkloadError, match="all 2 requests arrive at the same instant"):
        at_rate(window(trace, 1, 2), 3.0)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1e-300, 1e300])
def test_factors_that_break_the_clock_are_refused(trace: Trace, value: float) -> None:
    for change in (scale_rate, scale_time, at_rate):
        try:
            changed = change(trace, value)
        except WorkloadError:
            continue
        assert int(changed.arrival_ns.max()) < 2**62


def test_a_window_is_half_open_and_rebased(trace: Trace) -> None:
    inside = window(trace, 1, 4)
    assert inside.ids == ("b", "c")
    assert inside.arrival_ns.tolist() == [0, 0]
    assert inside.notes[-2:] == (
        "window from 1 s to 4 s: 2 of 4 requests kept",
        "turns whose earlier turn was left out: 1 start a conversation",
    )
    assert window(trace, 0.5).arrival_ns.tolist() == [S // 2, S // 2, 3 * S + S // 2]


def test_a_turn_whose_earlier_turn_was_left_out_starts_anew(trace: Trace) -> None:
    assert window(trace, 1).parent == (None, None, "b")


def test_a_turn_follows_the_nearest_earlier_turn_that_is_left(sessions: Trace) -> None:
    """Left are s0.2, s0.3 and s1.3; then s0.1, s0.3, s1.2 and s1.3."""
    fewer = sessions.take(np.array([1, 2, 5]))
    assert relinked(sessions, fewer).parent == (None, "s0.2", None)
    gap = relinked(sessions, sessions.take(np.array([0, 2, 4, 5])))
    assert gap.parent == (None, "s0.1", None, "s1.2")
    assert gap.notes[-1] == (
        "turns whose earlier turn was left out: 1 follow the one before that, 1 start a "
        "conversation"
    )
    assert relinked(sessions, sessions.take(np.arange(4))).notes == sessions.notes


def test_filters_keep_links_right(sessions: Trace) -> None:
    longer = filter_lengths(sessions, min_prompt=40)
    assert longer.ids == ("s0.2", "s0.3", "s1.2", "s1.3")
    assert longer.parent == (None, "s0.2", None, "s1.2")
    assert longer.prefix_tokens is not None
    assert longer.prefix_tokens.tolist() == [4] * 4
    assert head(sessions, 5).parent == (None, "s0.1", "s0.2", None, "s1.1")


def test_a_window_holds_whole_sessions(sessions: Trace) -> None:
    """All turns carry the start of their session, 0 and 4 s."""
    late = window(sessions, 1)
    assert late.ids == ("s1.1", "s1.2", "s1.3")
    assert late.arrival_ns.tolist() == [3 * S] * 3
    assert late.parent == (None, "s1.1", "s1.2")


def test_later_turns_stay_with_their_session_when_ties_are_spread(sessions: Trace) -> None:
    """Only first turns can tie: here two sessions at 0, and one at 4 s."""
    other = sessions.changed("again", arrival_ns=np.repeat([0, 4 * S], 3))
    both = merge({"a": head(other, 3), "b": other})
    spread = spread_ties(both, seed=1)
    starts = {
        name: spread.arrival_ns[row]
        for row, name in enumerate(spread.session or ())
        if spread.parent is not None and spread.parent[row] is None
    }
    assert 0 <= starts["a/s0"] < starts["b/s0"] < 4 * S == starts["b/s1"]
    assert spread.arrival_ns.tolist() == [starts[name] for name in spread.session or ()]
    assert spread.notes[-1].startswith("2 arrivals that shared a stamp")


def test_merged_clients_share_no_system_prompt(sessions: Trace) -> None:
    plain = Trace(np.array([S]), np.array([5]), np.array([5]))
    merged = merge({"x": sessions, "y": sessions, "z": plain})
    assert merged.prefix_group == (
        *("x/system prompt",) * 3,
        *("y/system prompt",) * 3,
        None,
        *("x/system prompt",) * 3,
        *("y/system prompt",) * 3,
    )
    assert merged.prefix_tokens is not None
    assert merged.prefix_tokens.tolist() == [4] * 6 + [0] + [4] * 6
    assert merged.parent is not None
    assert merged.parent[1:3] == ("x/s0.1", "x/s0.2")


def test_head_takes_the_first_to_arrive(trace: Trace) -> None:
    assert head(trace, 2).ids == ("a", "b")
    assert head(trace, 2).notes[-1] == "first 2 requests: 2 of 4 requests kept"
    assert head(trace, 99).ids == trace.ids


def test_length_limits_are_inclusive(trace: Trace) -> None:
    assert filter_lengths(trace, min_prompt=100, max_prompt=512).ids == ("a", "d")
    assert filter_lengths(trace, min_output=6, max_output=7).ids == ("b", "c")


def test_kept_requests_keep_their_row_number_as_id() -> None:
    n = np.arange(1, 6)
    trace = filter_lengths(Trace(n, n, n), min_prompt=3)
    assert [trace.id_of(row) for row in range(len(trace))] == ["2", "3", "4"]
    assert [head(trace, 1).id_of(0), window(trace, 4e-9).id_of(0)] == ["2", "3"]


def test_clipped_prompts_keep_the_hashes_of_their_full_blocks(trace: Trace) -> None:
    clipped = clip_lengths(trace, min_prompt=50, max_prompt=600, max_output=6)
    assert clipped.prompt_tokens.tolist() == [100, 600, 50, 512]
    assert clipped.output_tokens.tolist() == [5, 6, 6, 6]
    assert clipped.block_hashes == ((1,), (1,), (), (1,))
    assert (
        clipped.notes[-1]
        == "lengths clipped to min_prompt 50, max_prompt 600, max_output 6: 3 requests"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: window(t, 2, 3), "window from 2 s to 3 s keeps none of the 4 requests"),
        (lambda t: window(t, 3, 3), "must be 0 <= start < end"),
        (lambda t: window(t, -1, 3), "must be 0 <= start < end"),
        (lambda t: window(t, float("nan")), "must be 0 <= start < end"),
        (lambda t: head(t, 0), "requests 0 must be"),
        (lambda t: filter_lengths(t, min_output=9), "min_output 9 keeps none of the 4 requests"),
        (lambda t: filter_lengths(t), "give at least one of min_prompt"),
        (lambda t: clip_lengths(t, max_prompt=0), "greatest length 0 must be"),
        (lambda t: clip_lengths(t, min_prompt=9, max_prompt=8), "greatest length 8 must be"),
        (lambda t: with_arrivals(t, np.array([1])), "1 arrivals for 4 requests"),
        (lambda t: merge({}), "merge needs at least one trace"),
        (lambda t: spread_ties(window(t, 1, 2), 1), "all 2 requests share one arrival"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    trace: Trace, change: Callable[[Trace], Trace], reason: str
) -> None:
    with pytest.raises(WorkloadError, match=reason):
        change(trace)


def test_new_arrivals_reorder_the_requests_and_say_so(trace: Trace) -> None:
    moved = with_arrivals(trace, np.array([9, 3, 3, 1]))
    assert moved.ids == ("d", "b", "c", "a")
    assert moved.notes[-2:] == (
        "arrivals replaced",
        "input was not sorted by arrival: sorted (stable)",
    )


def test_ties_spread_until_the_next_stamp_in_file_order() -> None:
    """Stamps 0, 3 and 9 s: ticks of 3 and 6 s, and 4.5 s (their median) for the last."""
    counts = [400, 1, 500]
    arrival_ns = np.repeat(np.array([0, 3 * S, 9 * S]), counts)
    tokens = np.arange(1, 902)
    spread = spread_ties(Trace(arrival_ns, tokens, tokens), seed=3)
    assert spread.prompt_tokens.tolist() == tokens.tolist(), "file order kept"
    first, alone, last = np.split(spread.arrival_ns, np.cumsum(counts)[:2])
    assert alone.tolist() == [3 * S], "a request with a stamp of its own stays"
    assert 0 <= first.min() < first.max() < 3 * S
    assert 9 * S <= last.min() < last.max() < 13.5 * S
    assert first.mean() == pytest.approx(1.5 * S, rel=0.1)
    assert (last - 9 * S).mean() == pytest.approx(2.25 * S, rel=0.1)
    assert spread.notes[-1].startswith("900 arrivals that shared a stamp")
    again = spread_ties(Trace(arrival_ns, tokens, tokens), seed=3)
    np.testing.assert_array_equal(spread.arrival_ns, again.arrival_ns)


def test_merged_clients_keep_their_requests_apart() -> None:
    def turns(shift: int) -> Trace:
        return Trace.from_requests(
            [
                Request("1", shift, 32, 1, session="s", block_hashes=(7, 8), hash_block_tokens=16),
                Request("2", 10, 16, 1, session="s", parent="1", block_hashes=(7,)),
            ]
        )

    plain = Trace(np.array([10]), np.array([5]), np.array([5]), priority=np.array([3]))
    merged = merge({"x": turns(4), "y": turns(2), "z": plain})
    assert merged.arrival_ns.tolist() == [2, 4, 10, 10, 10]
    assert merged.ids == ("y/1", "x/1", "x/2", "y/2", "z/0")
    assert merged.client == ("y", "x", "x", "y", "z")
    assert merged.session == ("y/s", "x/s", "x/s", "y/s", None)
    assert merged.parent == (None, None, "x/1", "y/1", None)
    assert merged.priority is not None
    assert merged.priority.tolist() == [0, 0, 0, 0, 3]
    assert merged.block_hashes == ((2, 3), (0, 1), (0,), (2,), ())
    assert merged.hash_block_tokens == 16
    assert merged.notes[-1] == "merged clients: x 2, y 2, z 1"


def test_merging_adds_up_rows_and_drops_by_client() -> None:
    one = np.ones(1, dtype=np.int64)
    left = Trace(one, one, one, rows_in=3, dropped={"failed": 2}, notes=("read l",))
    right = Trace(one, one, one, rows_in=1)
    merged = merge({"l": left, "r": right})
    assert merged.rows_in == 4
    assert merged.dropped == {"l: failed": 2}
    assert merged.notes[0] == "l: read l"


def test_block_hashes_of_two_sizes_do_not_merge() -> None:
    one = np.ones(1, dtype=np.int64)
    small, large = (
        Trace(one, one, one, block_hashes=((1,),), hash_block_tokens=size) for size in (16, 512)
    )
    with pytest.raises(WorkloadError, match="different numbers of tokens: s 16, l 512"):
        merge({"s": small, "l": large})
