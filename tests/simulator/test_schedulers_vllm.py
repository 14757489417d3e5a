"""vLLM's policy beside the recorded schedules (`tests/vllm`): what leaps must not hide."""

from __future__ import annotations

import numpy as np
import pytest

from costmodels import ConstantCostModel
from simulator import KVCache, simulate
from simulator.errors import ConfigError
from simulator.schedulers import VllmScheduler
from tests.timeline import asked, ms


@pytest.mark.parametrize("leap", [True, False])
def test_urgent_arrival_overtakes_a_head_that_waits_for_blocks(leap: bool) -> None:
    """20 blocks of 1. A: prompt 10, output 8. B, less urgent, needs 15 blocks from 1 on and waits.

    C, as urgent as A, arrives at 13 during A's decode 12-14 and needs 3 of the 8 free blocks: it
    starts at 14 in the middle of what would have been a leap to A's end.
    """
    trace = asked((0, 10, 8), (1, 15, 1), (13, 3, 1), priority=np.array([0, 1, 0]))
    prices = ConstantCostModel(prefill_ms=10, decode_ms=2)

    result = simulate(
        trace,
        VllmScheduler(policy="priority"),
        prices,
        KVCache(20, block_size=1),
        async_scheduling=False,
        leap=leap,
    )

    assert ms(result.requests.first_start_ns)[2] == 14


ALIGNED = VllmScheduler(8192, 8, prefill_alignment_tokens=1056)
PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)


def test_chunks_of_hybrid_models_end_on_multiples_of_the_state_block() -> None:
    """10,863 = 7 x 1,056 under the budget of 8,192, then 3 x 1,056, and the 303 behind them alone;
    900 have no multiple to end on and take the 800 that are left."""
    result = simulate(asked((0, 10_863, 2), (0, 900, 1)), ALIGNED, PRICES, KVCache(2000))
    steps = result.steps
    assert steps.prefill_tokens.tolist()[:3] == [7392 + 800, 3168 + 100, 303]
    assert steps.prefill_seqs.tolist()[:3] == [2, 2, 1]


def test_a_prompt_whose_next_block_does_not_fit_keeps_those_behind_waiting() -> None:
    """7,392 leave 800 of the budget: too few for a block of the second, and the third is behind."""
    trace = asked((0, 7392, 1), (0, 2000, 1), (0, 100, 1))
    steps = simulate(trace, ALIGNED, PRICES, KVCache(2000)).steps
    assert steps.prefill_tokens.tolist() == [7392, 1056 + 100, 944]


def test_without_blocks_prompts_fill_the_budget() -> None:
    trace = asked((0, 7392, 1), (0, 2000, 1), (0, 100, 1))
    steps = simulate(trace, VllmScheduler(8192, 8), PRICES, KVCache(2000)).steps
    assert steps.prefill_tokens.tolist() == [8192, 1300]


@pytest.mark.parametrize("alignment", [-1, 8193])
def test_a_block_that_no_step_holds_is_refused(alignment: int) -> None:
    with pytest.raises(ConfigError, match=f"prefill_alignment_tokens is {alignment}"):
        VllmScheduler(8192, 8, prefill_alignment_tokens=alignment)


def test_leaping_over_aligned_chunks_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    trace = asked(
        *(
            (float(at), int(prompt), int(output))
            for at, prompt, output in zip(
                np.sort(rng.uniform(0, 300, 40)),
                rng.integers(10, 1500, 40),
                rng.integers(1, 60, 40),
                strict=True,
            )
        )
    )
    policy = VllmScheduler(512, 8, prefill_alignment_tokens=96)
    runs = [
        simulate(trace, policy, PRICES, KVCache(300), **options)
        for options in ({}, {"leap": False}, {"slow_path": True}, {"check_promises": True})
    ]
    for other in runs[1:]:
        assert (other.requests.finish_ns == runs[0].requests.finish_ns).all()
        assert (other.steps.prefill_tokens == runs[0].steps.prefill_tokens).all()
    assert runs[0].requests.preemptions.sum() > 0
