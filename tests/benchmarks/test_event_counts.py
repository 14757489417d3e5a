"""How often the event queue and the scheduler are asked: exact where seconds are noisy."""

from __future__ import annotations

import pytest

from simulator import ChunkedPrefillScheduler, KVCache, Request, Result, Trace, simulate
from workloads import generate

from .loads import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from .prices import BLOCK_SIZE, BLOCKS, tangent


def served(requests: Trace | list[Request], **options: bool) -> Result:
    """The requests under the limits and prices of the speed comparison."""
    scheduler = ChunkedPrefillScheduler(MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS)
    return simulate(requests, scheduler, tangent(0.1), KVCache(BLOCKS, BLOCK_SIZE), **options)


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_a_lone_request_is_two_events_however_long_its_answer(async_scheduling: bool) -> None:
    for output_tokens in (2, 200, 10_000):
        lone = [Request("a", 0, 1000, output_tokens)]
        result = served(lone, async_scheduling=async_scheduling)
        assert result.events == 2  # the start and the end of the answer
        assert len(result.steps) == output_tokens


def test_without_leaps_every_step_is_an_event() -> None:
    result = served([Request("a", 0, 1000, 200)], leap=False)
    assert result.events == 1 + len(result.steps) == 201


@pytest.mark.parametrize("async_scheduling", [False, True])
@pytest.mark.parametrize("rate", [2, 8, 16, 30])
def test_an_event_needs_an_arrival_a_prompt_step_or_a_finish(
    rate: float, async_scheduling: bool
) -> None:
    trace = generate(requests=1000, rate=rate, prompt="fixed:1000", output="fixed:200")
    result = served(trace, async_scheduling=async_scheduling)
    prompt_steps = int((result.steps.prefill_seqs > 0).sum())
    assert result.events <= 1 + len(trace) + prompt_steps + len(trace)


def test_the_same_steps_are_taken_with_and_without_leaps() -> None:
    trace = generate(requests=300, rate=8, prompt="fixed:1000", output="fixed:200")
    leaps, steps = served(trace), served(trace, leap=False)
    assert len(leaps.steps) == len(steps.steps)
    assert leaps.steps.end_ns.tolist() == steps.steps.end_ns.tolist()
    assert leaps.events * 2 < steps.events
