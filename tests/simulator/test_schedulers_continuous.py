"""Continuous batching, prompts first, worked out by hand. Times in ms."""

from __future__ import annotations

from costmodels import ConstantCostModel
from simulator import ContinuousScheduler, KVCache, simulate
from tests.timeline import PerItem, asked, ms, steps_ms, tokens_ms

ROOMY = KVCache(1000)
PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)


def test_streams_wait_while_prompts_keep_coming() -> None:
    """A decodes from 10. B arrives at 11, C at 15: A's next token comes after both prompts.

    0-10 A's prompt, 10-12 A, 12-22 B's prompt, 22-32 C's prompt, 32-34 all three.
    """
    trace = asked((0, 8, 4), (11, 8, 2), (15, 8, 2))

    result = simulate(trace, ContinuousScheduler(), PRICES, ROOMY)

    assert tokens_ms(result, 0) == [10, 12, 34, 36]
    assert tokens_ms(result, 1) == [22, 34]
    assert tokens_ms(result, 2) == [32, 34]
    assert result.steps.decode_seqs.tolist() == [0, 1, 0, 0, 3, 1]


def test_prompts_that_fit_the_budget_share_a_step() -> None:
    """Budget 20, 1 ms a token: prompts 8 + 12, then 15, then 6 (15 + 6 is too many)."""
    trace = asked((0, 8, 1), (0, 12, 1), (0, 15, 1), (0, 6, 1))

    result = simulate(trace, ContinuousScheduler(20, 4), PerItem(), ROOMY)

    assert steps_ms(result) == [(0, 20), (20, 35), (35, 41)]


def test_order_is_kept_even_if_a_later_prompt_would_fit() -> None:
    """Budget 20: 15, then 6 does not fit, so 5 behind it waits too."""
    trace = asked((0, 15, 1), (0, 6, 1), (0, 5, 1))

    result = simulate(trace, ContinuousScheduler(20, 4), PerItem(), ROOMY)

    assert result.steps.prefill_tokens.tolist() == [15, 11]


def test_prompt_longer_than_the_budget_runs_uncut_in_a_step_of_its_own() -> None:
    """Budget 20: 5 alone (50 would not fit beside it), 50 alone, 5."""
    trace = asked((0, 5, 1), (0, 50, 1), (0, 5, 1))

    result = simulate(trace, ContinuousScheduler(20, 4), PerItem(), ROOMY)

    assert result.steps.prefill_tokens.tolist() == [5, 50, 5]


def test_decodes_do_not_count_against_the_budget() -> None:
    """Budget 4 = seats: four streams decode together, every 2."""
    result = simulate(asked(*[(0, 4, 3)] * 4), ContinuousScheduler(4, 4), PRICES, ROOMY)

    assert result.steps.decode_seqs.tolist() == [0, 0, 0, 0, 4, 4]


def test_seat_is_free_for_the_step_after_a_finish() -> None:
    """Two seats. A and B: prompts 0-10; A ends at 12, C starts at 12; B goes on at 22."""
    trace = asked((0, 8, 2), (0, 8, 3), (1, 8, 1))

    result = simulate(trace, ContinuousScheduler(2048, 2), PRICES, ROOMY)

    assert ms(result.requests.first_start_ns) == [0, 0, 12]
    assert tokens_ms(result, 1) == [10, 12, 24]


def test_watermark_is_left_free_while_somebody_runs() -> None:
    """10 blocks of 16, watermark 2 blocks. A holds 5; B needs 4: 5 free - 2 < 4, so it waits for
    A. Alone it could take all ten."""
    trace = asked((0, 80, 3), (0, 64, 1), (100, 160, 1))

    result = simulate(trace, ContinuousScheduler(), PRICES, KVCache(10, 16, watermark=0.2))

    assert ms(result.requests.first_start_ns) == [0, 14, 100]
