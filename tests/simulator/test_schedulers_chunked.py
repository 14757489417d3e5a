"""Chunked prefill, worked out by hand. Times in ms."""

from __future__ import annotations

import pytest

from costmodels import ConstantCostModel
from simulator import AlternatingScheduler, ChunkedPrefillScheduler, ConfigError, KVCache, simulate
from tests.timeline import PerItem, asked, ms, steps_ms, tokens_ms

ROOMY = KVCache(1000)
PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)


def test_decodes_go_first_and_a_prompt_gets_what_is_left_of_the_budget() -> None:
    """Budget 8, 1 ms a prompt token, 10 ms a decode. A, B: prompt 4 each, 0-8. C: prompt 20.

    C gets 6 tokens beside two decodes, three times, then its last 2: steps of 26, 26, 26, 22.
    """
    trace = asked((0, 4, 6), (0, 4, 6), (1, 20, 1))

    result = simulate(trace, ChunkedPrefillScheduler(8, 8), PerItem(), ROOMY)

    assert result.steps.prefill_tokens.tolist() == [8, 6, 6, 6, 2, 0]
    assert result.steps.decode_seqs.tolist() == [0, 2, 2, 2, 2, 2]
    assert tokens_ms(result, 0) == tokens_ms(result, 1) == [8, 34, 60, 86, 108, 128]
    assert tokens_ms(result, 2) == [108]


def test_chunk_size_caps_one_prompt_and_others_share_the_step() -> None:
    """Chunks of 5, budget 12: A and B get 5 each and C 2; then A and B are done, C goes on."""
    trace = asked((0, 6, 1), (0, 5, 1), (0, 8, 1))

    result = simulate(trace, ChunkedPrefillScheduler(12, 8, chunk_size=5), PerItem(), ROOMY)

    assert result.steps.prefill_tokens.tolist() == [12, 6, 1]
    assert result.steps.prefill_seqs.tolist() == [3, 2, 1]
    assert ms(result.requests.first_token_ns) == [18, 12, 19]


def test_half_done_prompts_go_before_new_ones() -> None:
    """Budget 8: A 8 of 10; then A's 2, and 6 of B's 6 which fill the step; then C."""
    trace = asked((0, 10, 1), (0, 6, 1), (0, 3, 1))

    result = simulate(trace, ChunkedPrefillScheduler(8, 8), PerItem(), ROOMY)

    assert steps_ms(result) == [(0, 8), (8, 16), (16, 19)]
    assert ms(result.requests.first_start_ns) == [0, 8, 16]


def test_prompt_is_admitted_only_if_all_of_it_has_memory() -> None:
    """8 blocks of 4. A: prompt 20 (5 blocks) in chunks of 8. B: prompt 16 (4 blocks): 3 are left
    beyond what A needs, so it waits until A has left, although its first chunk would fit."""
    trace = asked((0, 20, 1), (0, 16, 1))

    result = simulate(
        trace, ChunkedPrefillScheduler(64, 8, chunk_size=8), PRICES, KVCache(8, block_size=4)
    )

    assert ms(result.requests.first_start_ns) == [0, 30]


@pytest.mark.parametrize("policy", [ChunkedPrefillScheduler, AlternatingScheduler])
def test_blocks_of_a_chunk_in_the_same_step_are_not_reserved_twice(policy: type) -> None:
    """5 blocks of 4. A: prompt 16 in chunks of 8, B: prompt 4, arriving at 1.

    At 10 A takes its last 2 of 4 blocks; the fifth is B's: it is admitted at once.
    """
    trace = asked((0, 16, 1), (1, 4, 1))

    result = simulate(trace, policy(64, 8, 8), PRICES, KVCache(5, block_size=4))

    assert ms(result.requests.first_token_ns) == [20, 20]


def test_prompt_without_blocks_evicts_the_newer_prompt_behind_it() -> None:
    """16 blocks of 1. C, D: prompt 1, output 5. A, B: prompt 6 in chunks of 2, arriving at 1.

    0-10   C and D: 2 blocks.
    10-22  C, D grow to 4; A and B are admitted (12 blocks are free for all of them) and take 4.
    22-34  C, D: 6; A, B: 8; 2 are free.
    34-46  C, D: 8; A finds none, evicts B (4 tokens) and ends.
    46-58  C, D: 10 and end; B needs 6, has them, and starts again: 58-68, 68-78.
    """
    trace = asked((0, 1, 5), (0, 1, 5), (1, 6, 1), (1, 6, 1))

    result = simulate(
        trace, ChunkedPrefillScheduler(64, 8, chunk_size=2), PRICES, KVCache(16, block_size=1)
    )

    assert tokens_ms(result, 0) == tokens_ms(result, 1) == [10, 22, 34, 46, 58]
    assert ms(result.requests.finish_ns) == [58, 58, 46, 78]
    assert result.requests.lost_tokens.tolist() == [0, 0, 0, 4]
    assert result.requests.prefilled_tokens.tolist() == [1, 1, 6, 6]
    assert result.requests.recomputed_tokens.tolist() == [0, 0, 0, 4]
    assert ms(result.requests.preempted_ns) == [0, 0, 0, 12]


def test_newest_prompt_without_blocks_sits_out_until_a_stream_ends() -> None:
    """14 blocks of 1. D: prompt 1, output 4. A, B: prompt 6 in chunks of 2, arriving at 1.

    At 34 D takes one of the last 3 blocks and A 2: nothing is left for B, and nobody is behind
    it. D and A end at 46, B's last chunk runs 46-56.
    """
    trace = asked((0, 1, 4), (1, 6, 1), (1, 6, 1))

    result = simulate(
        trace, ChunkedPrefillScheduler(64, 8, chunk_size=2), PRICES, KVCache(14, block_size=1)
    )

    assert ms(result.requests.finish_ns) == [46, 46, 56]
    assert ms(result.requests.active_ns) == [46, 36, 34]
    assert result.requests.preemptions.tolist() == [0, 0, 0]


def test_no_budget_and_no_chunk_size_put_everything_into_one_step() -> None:
    trace = asked((0, 4, 2), (10.5, 100_000, 1), (10.5, 100_000, 1))

    result = simulate(trace, ChunkedPrefillScheduler(None), PRICES, KVCache(20_000))

    assert result.steps.prefill_tokens.tolist() == [4, 0, 200_000]


@pytest.mark.parametrize("policy", [ChunkedPrefillScheduler, AlternatingScheduler])
def test_effective_chunk_size_is_the_smaller_of_the_two(policy: type) -> None:
    for budget, chunk, effective in (
        (2048, None, 2048),
        (2048, 256, 256),
        (128, 256, 128),
        (None, 256, 256),
        (None, None, None),
    ):
        assert policy(budget, 8, chunk).effective_chunk_size == effective


@pytest.mark.parametrize("policy", [ChunkedPrefillScheduler, AlternatingScheduler])
def test_limits_below_one_or_a_budget_below_the_seats_are_refused(policy: type) -> None:
    for arguments, message in (
        ((0, 1), "max_num_batched_tokens is 0, must be at least 1"),
        ((-1, 1), "max_num_batched_tokens is -1"),
        ((8, 0), "max_num_seqs is 0"),
        ((8, 8, 0), "chunk_size is 0"),
        ((3, 4), "max_num_batched_tokens 3 is below max_num_seqs 4"),
    ):
        with pytest.raises(ConfigError, match=message):
            policy(*arguments)


@pytest.mark.parametrize("wrong", [2.5, "abc", True])
def test_limit_that_is_no_whole_number_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match=f"max_num_batched_tokens is {wrong!r}, must be a whole"):
        ChunkedPrefillScheduler(wrong, 1)
