"""Alternating prompt and decode steps, worked out by hand. Times in ms."""

from __future__ import annotations

from costmodels import ConstantCostModel
from simulator import AlternatingScheduler, KVCache, simulate
from tests.timeline import asked, ms, steps_ms, tokens_ms

ROOMY = KVCache(1000)
PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)


def test_chunk_then_decode_by_turns_until_the_prompt_is_done() -> None:
    """A decodes from 10. B: prompt 12 in chunks of 4, arriving at 11.

    10-12 D, 12-22 P, 22-24 D, 24-34 P, 34-36 D, 36-46 P, 46-48 D (both).
    """
    trace = asked((0, 4, 6), (11, 12, 2))

    result = simulate(trace, AlternatingScheduler(64, 8, chunk_size=4), PRICES, ROOMY)

    assert tokens_ms(result, 0) == [10, 12, 24, 36, 48, 50]
    assert tokens_ms(result, 1) == [46, 48]
    prompts, decodes = result.steps.prefill_seqs, result.steps.decode_seqs
    assert not (prompts * decodes).any()
    assert prompts.tolist() == [1, 0, 1, 0, 1, 0, 1, 0, 0]


def test_prompts_follow_each_other_while_nobody_decodes() -> None:
    """Prompt 12 in chunks of 4 on an idle engine: 0-10-20-30."""
    result = simulate(asked((0, 12, 1)), AlternatingScheduler(64, 8, chunk_size=4), PRICES, ROOMY)

    assert steps_ms(result) == [(0, 10), (10, 20), (20, 30)]


def test_decodes_follow_each_other_while_nobody_waits() -> None:
    result = simulate(asked((0, 4, 4)), AlternatingScheduler(), PRICES, ROOMY)

    assert tokens_ms(result, 0) == [10, 12, 14, 16]


def test_prompt_step_comes_first_after_a_decode_step() -> None:
    """B arrives during the decode step 10-12: its prompt is next, before A's second decode."""
    result = simulate(asked((0, 4, 4), (11, 4, 1)), AlternatingScheduler(), PRICES, ROOMY)

    assert ms(result.requests.first_start_ns) == [0, 12]
    assert tokens_ms(result, 0) == [10, 12, 24, 26]


def test_prompt_of_the_step_may_use_the_whole_budget() -> None:
    """Budget 8, two streams: the prompt of 8 is not cut, since decodes have steps of their own."""
    trace = asked((0, 4, 9), (0, 4, 9), (11, 8, 1))

    result = simulate(trace, AlternatingScheduler(8, 8), PRICES, ROOMY)

    assert result.steps.prefill_tokens.tolist()[:3] == [8, 0, 8]
