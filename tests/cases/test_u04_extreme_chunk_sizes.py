"""U04: one 8-token prompt, output 1, idle engine; a step costs 10 + 1 x tokens ms.

The six rows of the sweep over chunk {64, 256, 1024} and budget {128, 512} are tested with the
sweep (`tests/experiments`); here, that equal effective settings give equal runs.
"""

from __future__ import annotations

import pytest

from simulator import ChunkedPrefillScheduler, ConfigError, KVCache, simulate
from tests.simulator.facts import assert_same
from tests.timeline import PerItem, asked, ms

COSTS = PerItem(token_ms=1, decode_ms=1, step_ms=10)


def ttft_and_steps(scheduler: ChunkedPrefillScheduler) -> tuple[float | None, int]:
    result = simulate(asked((0, 8, 1)), scheduler, COSTS, KVCache(100))
    return ms(result.requests.first_token_ns)[0], len(result.steps)


@pytest.mark.parametrize(
    ("chunk", "budget", "ttft", "steps"),
    [
        (1, 2048, 88, 8),
        (8, 2048, 18, 1),
        (64, 2048, 18, 1),
        (64, 4, 28, 2),
        (None, 2048, 18, 1),
        (64, 10**9, 18, 1),
    ],
)
def test_chunk_and_budget_at_the_corners(
    chunk: int | None, budget: int, ttft: float, steps: int
) -> None:
    scheduler = ChunkedPrefillScheduler(budget, min(budget, 128), chunk)

    assert ttft_and_steps(scheduler) == (ttft, steps)


def test_effective_chunk_of_64_under_a_budget_of_4_is_4() -> None:
    assert ChunkedPrefillScheduler(4, 4, chunk_size=64).effective_chunk_size == 4


@pytest.mark.parametrize("chunk", [0, -1])
def test_chunk_below_one_is_refused(chunk: int) -> None:
    """From Python `None` means no chunking; the command line also takes -1 for it, and says so."""
    with pytest.raises(ConfigError, match=f"chunk_size is {chunk}, must be at least 1"):
        ChunkedPrefillScheduler(chunk_size=chunk)


def test_chunks_above_the_budget_are_the_same_setting() -> None:
    trace = asked((0, 700, 30), (5, 300, 40), (60, 900, 1), (61, 2000, 9))
    large, larger, smaller = (
        ChunkedPrefillScheduler(128, 64, chunk_size=chunk) for chunk in (256, 1024, 64)
    )

    runs = [simulate(trace, policy, COSTS, KVCache(1000)) for policy in (large, larger, smaller)]

    assert large.effective_chunk_size == larger.effective_chunk_size == 128
    assert smaller.effective_chunk_size == 64
    assert_same(runs[0], runs[1])
    assert runs[0].requests.finish_ns.tolist() != runs[2].requests.finish_ns.tolist()
