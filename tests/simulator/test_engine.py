"""The loop, on a few requests whose whole timeline is worked out by hand. Times in ms."""

from __future__ import annotations

import pytest

from costmodels import ConstantCostModel, LinearCostModel
from simulator import (
    ChunkedPrefillScheduler,
    ConfigError,
    ContinuousScheduler,
    KVCache,
    Request,
    SimulatorError,
    State,
    StepShape,
    WorkloadError,
    simulate,
)
from simulator.units import NS_PER_MS
from tests.simulator.policies import RoundRobin
from tests.timeline import Scripted, asked, ms, steps_ms, tokens_ms

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
ROOMY = KVCache(1000)


def test_prompt_step_gives_the_first_token_and_each_decode_step_one_more() -> None:
    """Arrives 5: prompt 5-15, then decodes end at 17, 19, 21."""
    result = simulate(asked((5, 100, 4)), ChunkedPrefillScheduler(), PRICES, ROOMY)

    assert tokens_ms(result, 0) == [15, 17, 19, 21]
    assert steps_ms(result) == [(5, 15), (15, 17), (17, 19), (19, 21)]
    assert result.end_ns == 21 * NS_PER_MS
    assert result.steps.emitted_tokens.tolist() == [1, 1, 1, 1]
    assert result.steps.context_tokens.tolist() == [0, 100, 101, 102]


def test_arrival_during_a_step_is_scheduled_at_its_end_and_one_at_the_end_is_in_time() -> None:
    """A: prompt 0-10. B arrives at 3, C at 10, both start at 10 (their step ends at 22, A's
    decode in it). D arrives at 22.000001 and misses the step that starts at 22: it starts at 24."""
    trace = asked((0, 8, 20), (3, 8, 2), (10, 8, 2), (22.000001, 8, 1))

    result = simulate(trace, ChunkedPrefillScheduler(), PRICES, ROOMY)

    assert ms(result.requests.first_start_ns) == [0, 10, 10, 24]
    assert tokens_ms(result, 1) == tokens_ms(result, 2) == [22, 24]
    assert tokens_ms(result, 0)[:5] == [10, 22, 24, 36, 38]
    assert ms(result.requests.first_token_ns)[3] == 36


def test_equal_arrivals_are_served_in_file_order() -> None:
    """One at a time: each takes 10."""
    trace = asked(*[(7, 5, 1)] * 4)

    result = simulate(trace, ContinuousScheduler(2048, 1), PRICES, ROOMY)

    assert ms(result.requests.finish_ns) == [17, 27, 37, 47]


def test_requests_in_any_order_keep_their_ids() -> None:
    """Arrivals 5, 0, 3 in the input; sorted by arrival in the result."""
    requests = [
        Request(name, arrival * NS_PER_MS, prompt_tokens=8, output_tokens=1)
        for name, arrival in (("a", 5), ("b", 0), ("c", 3))
    ]

    result = simulate(requests, ContinuousScheduler(2048, 1), PRICES, ROOMY)

    assert result.trace.ids == ("b", "c", "a")
    assert ms(result.requests.finish_ns) == [10, 20, 30]


def test_preempted_request_recomputes_its_prompt_and_its_tokens() -> None:
    """4 blocks of 4 tokens. A: prompt 7, output 4. B: prompt 4, output 4.

    0-10   prompts: A holds 2 blocks, B 1; both emit token 1.
    10-12  A stores token 8, B token 5 in a new block: all 4 blocks held; both emit token 2.
    12-14  A needs a block for token 9: B, the newest, is evicted with its 5 tokens; A emits 3.
    14-16  B needs 2 blocks (4 prompt + 2 outputs), 1 is free: it waits; A emits 4 and ends.
    16-26  B computes 6 tokens again and emits token 3; nothing is emitted twice.
    26-28  B emits token 4.
    """
    trace = asked((0, 7, 4), (0, 4, 4))

    result = simulate(trace, ChunkedPrefillScheduler(), PRICES, KVCache(4, block_size=4))

    assert tokens_ms(result, 0) == [10, 12, 14, 16]
    assert tokens_ms(result, 1) == [10, 12, 26, 28]
    log = result.requests
    assert log.preemptions.tolist() == [0, 1]
    assert log.lost_tokens.tolist() == [0, 5]
    assert log.prefilled_tokens.tolist() == [7, 4]
    assert log.recomputed_tokens.tolist() == [0, 6]
    assert ms(log.preempted_ns) == [0, 4]
    assert ms(log.active_ns) == [16, 24]
    assert ms(log.worst_gap_ns) == [2, 14]
    assert ms(result.evictions.preempt_ns) == [12]
    assert ms(result.evictions.resume_ns) == [16]
    assert result.steps.used_blocks.tolist() == [3, 4, 3, 3, 2, 2]
    assert result.steps.running.tolist() == [2, 2, 1, 1, 1, 1]
    assert result.steps.preempted.tolist() == [0, 0, 1, 0, 0, 0]
    assert result.steps.prefill_tokens.tolist() == [11, 0, 0, 0, 6, 0]
    assert ms(result.gaps.gap_ns) == [2, 14]
    assert result.gaps.count.tolist() == [5, 1]


def test_sequence_that_sits_out_a_step_keeps_its_context_and_its_blocks() -> None:
    """Round robin, one stream at a time, blocks of 1 token. A: prompt 2, output 3. B: 3, 3.

    Prompts 0-10 (A) and 10-20 (B); then A, B, A, B in steps of 2. Contexts read: 2, 3, 3, 4.
    """
    trace = asked((0, 2, 3), (0, 3, 3))

    result = simulate(trace, RoundRobin(streams=1), PRICES, KVCache(20, block_size=1))

    assert tokens_ms(result, 0) == [10, 22, 26]
    assert tokens_ms(result, 1) == [20, 24, 28]
    assert result.steps.context_tokens.tolist() == [0, 0, 2, 3, 3, 4]
    assert result.steps.used_blocks.tolist() == [2, 5, 6, 7, 8, 5]
    assert ms(result.requests.active_ns) == [14, 14]
    assert ms(result.requests.worst_gap_ns) == [12, 4]


def test_request_that_cannot_fit_is_rejected_and_blocks_nobody() -> None:
    """R1 (40 tokens for a cache of 32) is turned away at 0; R2 is served at 1 as if alone."""
    trace = asked((0, 40, 1), (1, 10, 1))

    result = simulate(trace, ChunkedPrefillScheduler(), PRICES, KVCache(2))

    assert result.requests.state.tolist() == [State.REJECTED, State.FINISHED]
    assert result.requests.reason == ("exceeds_kv_capacity", None)
    assert ms(result.requests.finish_ns) == [None, 11]


def test_last_output_token_needs_no_place_in_the_cache() -> None:
    """Prompt 30 + 3 outputs store 32 tokens: 2 blocks of 16. One more output is too many."""
    result = simulate(asked((0, 30, 3), (0, 30, 4)), ChunkedPrefillScheduler(), PRICES, KVCache(2))

    assert result.requests.state.tolist() == [State.FINISHED, State.REJECTED]


def test_step_that_takes_no_time_is_refused() -> None:
    with pytest.raises(SimulatorError, match="a step must take time"):
        simulate(asked((0, 8, 1)), ChunkedPrefillScheduler(), Scripted(0), ROOMY)


def test_progress_is_reported_in_requests_that_ended() -> None:
    seen: list[int] = []

    simulate(
        asked(*[(0, 8, 1)] * 600),
        ContinuousScheduler(2048, 1),
        PRICES,
        ROOMY,
        progress=seen.append,
    )

    assert seen == [256, 512]


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_progress_is_reported_where_every_flight_ends_with_an_arrival(
    async_scheduling: bool,
) -> None:
    """A request every 100 ms takes 128 ms: it ends inside a leap that the next but one cuts."""
    prices = LinearCostModel(step_ms=2, prefill_step_ms=8)
    seen: list[int] = []

    simulate(
        asked(*[(100 * number, 8, 60) for number in range(600)]),
        ChunkedPrefillScheduler(),
        prices,
        ROOMY,
        async_scheduling=async_scheduling,
        progress=seen.append,
    )

    assert seen == [256, 512]


def test_empty_workload_and_contradicting_loads_are_refused() -> None:
    with pytest.raises(WorkloadError, match="no requests"):
        simulate([], ChunkedPrefillScheduler(), PRICES, ROOMY)
    with pytest.raises(ConfigError, match="users 2 and max_concurrency 3 exclude each other"):
        simulate(
            asked((0, 8, 1)), ChunkedPrefillScheduler(), PRICES, ROOMY, users=2, max_concurrency=3
        )
    with pytest.raises(TypeError, match="leaps"):
        simulate(asked((0, 8, 1)), ChunkedPrefillScheduler(), PRICES, ROOMY, leaps=False)


def test_same_cache_description_serves_many_runs() -> None:
    kv = KVCache(8)

    for _ in range(3):
        simulate(asked((0, 8, 5)), ChunkedPrefillScheduler(), PRICES, kv)

    assert kv.free_blocks == 8


def test_step_shape_tells_the_price_what_is_computed_and_what_is_read() -> None:
    """Chunks of 4, steps of 2. A: prompt 6 in steps 1 and 2. B comes during step 2."""
    seen: list[StepShape] = []

    class Recorder(Scripted):
        needs_longest_context = True

        def step_ns(self, shape: StepShape) -> int:
            seen.append(shape)
            return 2 * NS_PER_MS

    trace = asked((0, 6, 4), (3, 5, 1))
    simulate(trace, ChunkedPrefillScheduler(chunk_size=4), Recorder(), ROOMY, leap=False)

    assert seen == [
        StepShape(((4, 0),), 0, 0, 0),
        StepShape(((2, 4),), 0, 0, 0),
        StepShape(((4, 0),), 1, 6, 6),
        StepShape(((1, 4),), 1, 7, 7),
        StepShape((), 1, 8, 8),
    ]
