"""Static batching, worked out by hand. Times in ms."""

from __future__ import annotations

import pytest

from costmodels import ConstantCostModel
from simulator import ConfigError, KVCache, State, StaticScheduler, StepShape, simulate
from simulator.units import NS_PER_MS
from tests.timeline import PerItem, Scripted, asked, ms, steps_ms, tokens_ms

ROOMY = KVCache(1000)
TEN = ConstantCostModel(prefill_ms=10, decode_ms=2)


def test_batch_is_closed_and_priced_whole_until_its_last_member_ends() -> None:
    """Batch of 2, 1 ms a prompt token, 10 ms a slot. A: prompt 4, output 1. B: 2, 3. C: 3, 1.

    0-8    both prompts, padded to 4 tokens each; A is done but keeps its slot.
    8-28   B decodes, two slots are priced.   28-48   again: B is done, the batch is over.
    48-51  C, which has waited since 0.
    """
    trace = asked((0, 4, 1), (0, 2, 3), (0, 3, 1))

    result = simulate(trace, StaticScheduler(2), PerItem(), ROOMY)

    assert [tokens_ms(result, row) for row in range(3)] == [[8], [8, 28, 48], [51]]
    assert steps_ms(result) == [(0, 8), (8, 28), (28, 48), (48, 51)]
    assert result.steps.prefill_tokens.tolist() == [6, 0, 0, 3]
    assert result.steps.decode_seqs.tolist() == [0, 1, 1, 0]
    assert result.steps.padded_seqs.tolist() == [0, 1, 1, 0]
    assert result.steps.running.tolist() == [2, 2, 2, 1]
    assert ms(result.requests.active_ns) == [8, 48, 3]


def test_without_padding_prompts_are_priced_as_they_are() -> None:
    """6 tokens instead of 8."""
    trace = asked((0, 4, 1), (0, 2, 3))

    result = simulate(trace, StaticScheduler(2, pad_prompts=False), PerItem(), ROOMY)

    assert tokens_ms(result, 0) == [6]


def test_finished_member_keeps_its_blocks_and_its_growing_context_is_priced() -> None:
    """Blocks of 2. A: prompt 3, output 2 (stores 4). B: prompt 2, output 4 (stores 5)."""
    seen: list[StepShape] = []

    class Recorder(Scripted):
        needs_longest_context = True

        def step_ns(self, shape: StepShape) -> int:
            seen.append(shape)
            return NS_PER_MS

    trace = asked((0, 3, 2), (0, 2, 4))
    kv = KVCache(9, block_size=2)

    result = simulate(trace, StaticScheduler(2, pad_prompts=False), Recorder(), kv, leap=False)

    assert seen == [
        StepShape(((3, 0), (2, 0)), 0, 0),
        StepShape((), 2, 5, 3),
        StepShape((), 2, 7, 4),
        StepShape((), 2, 9, 5),
    ]
    assert result.steps.used_blocks.tolist() == [3, 4, 4, 5]
    assert result.steps.context_tokens.tolist() == [0, 5, 7, 9]


def test_late_arrival_never_joins_a_running_batch() -> None:
    """Batch of 4 with one member, 0-10-12-14; the second arrives at 1 and starts at 14."""
    result = simulate(asked((0, 8, 3), (1, 8, 1)), StaticScheduler(4), TEN, ROOMY)

    assert ms(result.requests.first_start_ns) == [0, 14]


def test_partial_batch_starts_at_once_by_default() -> None:
    """Ten one-token requests in batches of 4: 4, 4 and the remainder of 2."""
    result = simulate(asked(*[(0, 8, 1)] * 10), StaticScheduler(4), TEN, ROOMY)

    assert result.steps.prefill_seqs.tolist() == [4, 4, 2]


def test_idle_engine_waits_for_a_full_batch_when_told_to() -> None:
    """Batch of 2: A waits from 0 to 100 for B; then C, the last there is, starts alone."""
    trace = asked((0, 8, 1), (100, 8, 1), (105, 8, 1))

    result = simulate(trace, StaticScheduler(2, wait_for_full_batch=True), TEN, ROOMY)

    assert ms(result.requests.first_start_ns) == [100, 100, 110]
    assert ms(result.requests.finish_ns) == [110, 110, 120]


def test_wait_for_a_full_batch_is_bounded_by_the_oldest_request() -> None:
    """Time-out 30. A waits 0-30. B (at 50) waits until 80, when C has been there since 60.

    D (at 200) is the last one: nobody else will come, it starts at once.
    """
    trace = asked((0, 8, 1), (50, 8, 1), (60, 8, 1), (200, 8, 1))
    patient = StaticScheduler(3, wait_for_full_batch=True, batch_timeout_s=0.03)

    result = simulate(trace, patient, TEN, ROOMY)

    assert ms(result.requests.first_start_ns) == [30, 80, 80, 200]
    assert result.end_ns == 210 * NS_PER_MS


def test_request_older_than_the_time_out_does_not_wait_again() -> None:
    """Batch of 2, time-out 5. A and B run 0-10-...-20; C came at 2 and is due since 7."""
    trace = asked((0, 8, 6), (0, 8, 6), (2, 8, 1), (500, 8, 1))
    impatient = StaticScheduler(2, wait_for_full_batch=True, batch_timeout_s=0.005)

    result = simulate(trace, impatient, TEN, ROOMY)

    assert ms(result.requests.first_start_ns) == [0, 0, 20, 500]


def test_batch_end_delivers_all_tokens_at_once() -> None:
    """A: 2 tokens, B: 4. The batch runs 0-10-12-14-16; both are delivered at 16."""
    trace = asked((0, 8, 2), (0, 8, 4))

    result = simulate(trace, StaticScheduler(2, deliver="batch_end"), TEN, ROOMY)

    assert ms(result.requests.first_token_ns) == [16, 16]
    assert ms(result.requests.finish_ns) == [16, 16]
    assert ms(result.requests.worst_gap_ns) == [0, 0]
    assert (result.gaps.gap_ns.tolist(), result.gaps.count.tolist()) == ([0], [4])
    assert ms(result.requests.active_ns) == [12, 16]


def test_batch_end_of_a_stopped_run_delivers_nothing() -> None:
    """Stopped at 13: A's two tokens exist, but its batch has not ended."""
    trace = asked((0, 8, 2), (0, 8, 4))

    result = simulate(
        trace,
        StaticScheduler(2, deliver="batch_end"),
        TEN,
        ROOMY,
        stop_ns=13 * NS_PER_MS,
    )

    assert result.requests.state.tolist() == [State.UNFINISHED] * 2
    assert ms(result.requests.finish_ns) == [None, None]
    assert result.requests.emitted_tokens.tolist() == [2, 2]


def test_member_without_a_block_is_evicted_and_waits_for_the_next_batch() -> None:
    """4 blocks of 4. A: prompt 7, output 4 (10 stored). B: prompt 4, output 4.

    0-10 prompts; 10-12; at 12 A needs a block: B is evicted; 12-14, 14-16: A and the batch end.
    16-26 B again, 26-28.
    """
    trace = asked((0, 7, 4), (0, 4, 4))

    result = simulate(trace, StaticScheduler(2), TEN, KVCache(4, block_size=4))

    assert tokens_ms(result, 0) == [10, 12, 14, 16]
    assert tokens_ms(result, 1) == [10, 12, 26, 28]


def test_batch_whose_only_active_member_is_evicted_ends_and_frees_its_slots() -> None:
    """3 blocks of 4. A: prompt 8, output 1, done at 10 with 2 blocks. B: prompt 4, output 3.

    At 10 B needs a second block, none is free and it is the newest: it is evicted, so the batch
    is over and A's blocks are free. B computes 5 tokens again 10-20, and decodes 20-22.
    """
    trace = asked((0, 8, 1), (0, 4, 3))

    result = simulate(trace, StaticScheduler(2), TEN, KVCache(3, block_size=4))

    assert tokens_ms(result, 0) == [10]
    assert tokens_ms(result, 1) == [10, 20, 22]
    assert result.requests.lost_tokens.tolist() == [0, 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs is 0"),
        ({"batch_timeout_s": -1.0}, "batch_timeout_s is -1.0, must be 0 s or more"),
        ({"batch_timeout_s": float("inf")}, "batch_timeout_s is inf"),
        ({"deliver": "later"}, "deliver is 'later', must be stream or batch_end"),
    ],
)
def test_impossible_settings_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StaticScheduler(**arguments)
