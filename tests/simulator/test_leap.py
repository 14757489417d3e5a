"""Leaps: how many steps, what they cost, where they are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import ConstantCostModel
from simulator import (
    ChunkedPrefillScheduler,
    CostModel,
    KVCache,
    Sequence,
    SimulatorError,
    StepShape,
    simulate,
)
from simulator.decode_pool import DecodePool
from simulator.leap import Priced, price
from simulator.step_log import TokenLog
from tests.simulator.facts import assert_same
from tests.strategies import AffineCostModel, cost_models, steady
from tests.timeline import Scripted, asked

TWO_MS = ConstantCostModel(prefill_ms=10, decode_ms=2)
SHAPE = StepShape((), 3, 300, 150)
MS = 1_000_000


def pool_of(*members: tuple[int, int], block_size: int = 16) -> DecodePool:
    """A pool from (context, tokens left)."""
    pool = DecodePool(block_size, TokenLog(), track_longest=False)
    for row, (context, left) in enumerate(members):
        sequence = Sequence(row, 0, context, left + 1)
        sequence.computed_tokens, sequence._produced_tokens, sequence._order = context, 1, row
        pool.join(sequence)
    return pool


def test_leap_ends_with_the_next_finish() -> None:
    pool = pool_of((20, 30), (20, 7), (20, 11))

    assert pool.steps_ahead(1000, limit=50) == 7
    assert pool.steps_ahead(1000, limit=5) == 5


def test_leap_ends_before_the_step_that_finds_no_block() -> None:
    """Blocks of 16, contexts 16 and 20: a block at step 1 (token 17), one at step 13 (token 33)."""
    pool = pool_of((16, 30), (20, 30))

    assert pool.steps_ahead(2, limit=50) == 16
    assert pool.steps_ahead(1, limit=50) == 12


@pytest.mark.parametrize(
    ("cut_ms", "steps"),
    [(0.5, 1), (2, 1), (2.000001, 2), (4, 2), (5, 3), (19, 10), (40, 10), (0, 1), (None, 10)],
)
def test_arrival_cuts_a_leap_after_the_step_it_falls_in(cut_ms: float | None, steps: int) -> None:
    """Steps of 2 ms; an arrival at the very end of a step cuts there. Ten steps at most."""
    cut_ns = None if cut_ms is None else round(cut_ms * MS)

    leap = price(TWO_MS, SHAPE, 10, cut_ns, depth=1)

    assert (leap.steps, leap.total_ns, leap.last_ns) == (steps, 2 * MS * steps, 2 * MS)


def test_planning_ahead_cuts_one_step_later() -> None:
    """The step after the one an arrival falls in is planned by then."""
    assert price(TWO_MS, SHAPE, 10, 5 * MS, depth=2).steps == 4


def test_model_whose_price_falls_makes_the_leap_shorter_but_no_step_wrong() -> None:
    class Falling(Scripted):
        def step_ns(self, shape: StepShape) -> int:
            return int(self.leap_ns(shape, 1)[0])

        def leap_ns(self, shape: StepShape, steps: int) -> np.ndarray:
            context = shape.decode_context_tokens + np.arange(steps) * shape.decode_seqs
            return (10 * MS) // (1 + context // 50)

    trace = asked((0, 40, 90), (111, 8, 30), (222, 8, 30))
    runs = [
        simulate(trace, ChunkedPrefillScheduler(), Falling(), KVCache(100), leap=leap)
        for leap in (True, False)
    ]

    assert_same(*runs)


@pytest.mark.parametrize(
    ("limit_ms", "steps", "none_fits"),
    [(1, 3, True), (2, 1, False), (5.9, 2, False), (6, 3, False)],
)
def test_stop_time_keeps_the_steps_that_end_by_it(
    limit_ms: float, steps: int, none_fits: bool
) -> None:
    """Three steps of 2 ms."""
    leap = price(TWO_MS, SHAPE, 3, None, depth=1)

    kept, stopped = leap.ended_by(round(limit_ms * MS))

    assert (kept.steps, stopped) == (steps, none_fits)
    assert kept.total_ns == 2 * MS * steps
    single = Priced(1, 2 * MS, 2 * MS, 2 * MS)
    assert single.ended_by(2 * MS) == (single, False)
    assert single.ended_by(2 * MS - 1) == (single, True)


@pytest.mark.parametrize("price_ns", [0, -5])
def test_price_that_is_not_positive_is_refused(price_ns: int) -> None:
    class Free(Scripted):
        def step_ns(self, shape: StepShape) -> int:
            return price_ns

    with pytest.raises(SimulatorError, match=r"Free priced .* a step must take time"):
        price(Free(), SHAPE, 1, None, depth=1)


@steady(100)
@given(
    model=cost_models(),
    seqs=st.integers(1, 300),
    context=st.integers(1, 10**6),
    steps=st.integers(1, 60),
)
def test_price_of_a_leap_is_the_prices_of_its_steps(
    model: CostModel, seqs: int, context: int, steps: int
) -> None:
    shape = StepShape((), seqs, context, context // seqs + 1)

    leap = price(model, shape, steps, None, depth=1)

    singles = [model.step_ns(shape.after(k)) for k in range(steps)]
    assert np.atleast_1d(leap.durations).tolist() == singles
    assert leap.total_ns == sum(singles)


def test_output_longer_than_the_longest_leap_is_leapt_in_parts() -> None:
    """40,000 tokens: the prompt step and 39,999 decodes, in leaps of at most 16,384."""
    trace = asked((0, 5, 40_000))
    result = simulate(trace, ChunkedPrefillScheduler(), TWO_MS, KVCache(10_000))

    assert len(result.steps) == 40_000
    assert result.events == 1 + 1 + 3
    assert result.requests.finish_ns.tolist() == [10 * MS + 39_999 * 2 * MS]


def test_capped_leaps_take_as_many_events_as_it_takes() -> None:
    """100 tokens: the prompt, then 99 decodes in leaps of 7 (15), of 50 (2) or of 1 (99)."""
    for leap, leaps in ((7, 15), (50, 2), (1, 99), (False, 99)):
        trace = asked((0, 5, 100))
        result = simulate(
            trace, ChunkedPrefillScheduler(), AffineCostModel(), KVCache(100), leap=leap
        )
        assert result.events == 1 + 1 + leaps
