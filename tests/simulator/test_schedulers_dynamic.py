"""Chunks sized by price, worked out by hand. 1 ms a prompt token, 10 ms a decode."""

from __future__ import annotations

import pytest

from simulator import ConfigError, EngineView, KVCache, Plan, simulate
from simulator.schedulers import DynamicChunkScheduler
from tests.timeline import PerItem, asked, tokens_ms

ROOMY = KVCache(1000)
STREAM_AND_PROMPT = asked((0, 4, 8), (5, 30, 1))


def chunks(**settings: object) -> list[int]:
    """Prompt tokens of the steps until the 30 tokens of the second request are done."""
    policy = DynamicChunkScheduler(64, 8, min_prefill_tokens=3, **settings)
    result = simulate(STREAM_AND_PROMPT, policy, PerItem(), ROOMY)
    return [tokens for tokens in result.steps.prefill_tokens.tolist()[2:] if tokens]


def test_chunks_fill_the_step_up_to_the_target() -> None:
    """A decode is 10 of the 20 ms: 10 prompt tokens; with a target of 25 it is 15."""
    assert chunks(tpot_target_ms=20) == [10, 10, 10]
    assert chunks(tpot_target_ms=25) == [15, 15]
    assert chunks(tpot_target_ms=40) == [30]


def test_fewer_streams_leave_larger_chunks() -> None:
    """Two streams, one of which ends at 28: 5 tokens beside both, then 15 beside one."""
    trace = asked((0, 4, 2), (0, 4, 9), (5, 30, 1))
    policy = DynamicChunkScheduler(64, 8, tpot_target_ms=25, min_prefill_tokens=3)

    result = simulate(trace, policy, PerItem(), ROOMY)

    assert result.steps.prefill_tokens.tolist()[:4] == [8, 5, 15, 10]
    assert tokens_ms(result, 2) == [78]


def test_target_below_the_decodes_still_leaves_prompts_the_minimum() -> None:
    assert chunks(tpot_target_ms=5) == [3] * 6 + [12]  # the stream has ended


def test_without_streams_a_prompt_gets_the_whole_budget() -> None:
    result = simulate(
        asked((0, 100, 1)), DynamicChunkScheduler(64, 8, tpot_target_ms=1), PerItem(), ROOMY
    )
    assert result.steps.prefill_tokens.tolist() == [64, 36]


def test_the_policy_may_have_its_own_idea_of_prices() -> None:
    """It believes 2 ms a token: 5 in what the decode leaves of 20 ms."""
    assert chunks(tpot_target_ms=20, price=PerItem(token_ms=2.0))[:2] == [5, 5]


def test_without_prices_it_says_so() -> None:
    class Wrapped:
        inner = DynamicChunkScheduler()

        def plan(self, view: EngineView) -> Plan:
            return self.inner.plan(view)

    with pytest.raises(ConfigError, match="dynamic has no prices"):
        simulate(asked((0, 4, 4)), Wrapped(), PerItem(), ROOMY)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="tpot_target_ms is 0"):
        DynamicChunkScheduler(tpot_target_ms=0)
    with pytest.raises(ConfigError, match="has a token budget"):
        DynamicChunkScheduler(max_num_batched_tokens=None)
