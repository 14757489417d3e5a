"""Leaps whose prices are a line: sums in closed form equal the sums of the steps, to the bit."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from simulator.leap import BITS, line_sum, steps_reaching, steps_until, steps_within
from tests.strategies import steady

FIRSTS = st.integers(1 << BITS, 1 << 45)
SLOPES = st.one_of(st.just(0), st.integers(1, 1 << 20), st.integers(1, 1 << 38))
COUNTS = st.integers(1, 400)
SHARES = st.floats(0, 1.3)


def durations(first: int, slope: int, steps: int) -> list[int]:
    """Step k costs floor((first + k slope) / 2**16) ns."""
    return [(first + slope * k) // 2**BITS for k in range(steps)]


@steady(200)
@given(first=st.integers(0, 1 << 45), slope=SLOPES, steps=st.integers(0, 400))
def test_sum_of_a_line_is_exact(first: int, slope: int, steps: int) -> None:
    assert line_sum(first, slope, steps) == sum(durations(first, slope, steps))


@steady(300)
@given(first=FIRSTS, slope=SLOPES, steps=COUNTS, share=SHARES)
def test_steps_reaching_an_instant_are_the_first_whose_sum_does(
    first: int, slope: int, steps: int, share: float
) -> None:
    ends = list(accumulate(durations(first, slope, steps)))
    cut_ns = max(1, int(share * ends[-1]))

    expected = next((k + 1 for k, end in enumerate(ends) if end >= cut_ns), steps)
    assert steps_reaching(first, slope, steps, cut_ns) == (expected, ends[expected - 1])


@steady(100)
@given(first=FIRSTS, slope=SLOPES, steps=COUNTS, data=st.data())
def test_instant_at_the_very_end_of_a_step_is_reached_by_that_step(
    first: int, slope: int, steps: int, data: st.DataObject
) -> None:
    ends = list(accumulate(durations(first, slope, steps)))
    step = data.draw(st.integers(0, steps - 1))

    assert steps_reaching(first, slope, steps, ends[step])[0] == step + 1
    assert steps_reaching(first, slope, steps, ends[step] + 1)[0] == min(step + 2, steps)


@steady(300)
@given(
    first=FIRSTS,
    slope=SLOPES,
    steps=COUNTS,
    depth=st.sampled_from([1, 2]),
    cut=st.one_of(st.none(), SHARES),
    stop=st.one_of(st.none(), SHARES),
)
def test_arrival_and_stop_end_a_leap_where_stepping_would(
    first: int, slope: int, steps: int, depth: int, cut: float | None, stop: float | None
) -> None:
    """An arrival ends it with the step it falls in (async: one more); no step ends after a stop."""
    ends = list(accumulate(durations(first, slope, steps)))
    cut_ns, stop_ns = (None if part is None else int(part * ends[-1]) for part in (cut, stop))

    expected = steps
    if cut_ns is not None:
        reached = sum(end < cut_ns for end in ends)
        expected = min(steps, reached + depth) if cut_ns > 0 else 1
    if stop_ns is not None:
        expected = min(expected, sum(end <= stop_ns for end in ends))
    total_ns = ends[expected - 1] if expected else 0
    taken = steps, line_sum(first, slope, steps)
    if cut_ns is not None:
        taken = steps_until(first, slope, steps, cut_ns, depth)
    if stop_ns is not None:
        taken = steps_within(first, slope, *taken, stop_ns)
    assert taken == (expected, total_ns)
