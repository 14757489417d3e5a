"""Preemption by swapping: blocks go to host memory and come back; nothing is computed twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import ConstantCostModel
from simulator import ChunkedPrefillScheduler, ConfigError, KVCache, Trace, simulate
from simulator.identities import check_identities
from simulator.prefix_cache import PrefixCache
from simulator.schedulers import VllmScheduler
from tests.simulator.facts import facts
from tests.strategies import SCHEDULER_STRATEGIES, AffineCostModel, kv_caches, steady, traces
from tests.timeline import asked, tokens_ms

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
MS = 1_000_000


def test_swapped_sequence_goes_on_where_it_was() -> None:
    """Two prompts of 8 tokens, 6 answers each, in 5 blocks of 4; a block takes 1 ms each way.

    0-10 both prompts (4 blocks held, 1 free). Step 10-12: each needs a third block, one is free:
    b moves out (2 blocks, 2 ms), so a's step ends at 14. a then decodes alone (3 blocks, 4 tokens
    more: 16, 18, 20, 22). b needs 3 blocks (8 + 1 tokens), 2 are free: it waits for a's end at 22.
    22: 2 blocks come back (2 ms), its one uncomputed token takes a prompt step of 10: ends at 34.
    """
    trace = asked((0, 8, 6), (0, 8, 6))

    result = simulate(
        trace, ChunkedPrefillScheduler(), PRICES, KVCache(5, 4), swap_ns_per_block=1 * MS
    )

    assert tokens_ms(result, 0) == [10, 14, 16, 18, 20, 22]
    assert tokens_ms(result, 1) == [10, 34, 36, 38, 40, 42]
    assert result.swapped_blocks == 4
    assert result.requests.preemptions.tolist() == [0, 1]
    assert result.requests.lost_tokens.tolist() == [0, 0]
    assert result.steps.prefill_tokens.sum() == 17


def test_recomputing_the_same_needs_the_whole_prompt_again() -> None:
    """As above without swapping: b computes 8 + 1 tokens again instead of 1."""
    trace = asked((0, 8, 6), (0, 8, 6))

    result = simulate(trace, ChunkedPrefillScheduler(), PRICES, KVCache(5, 4))

    assert result.steps.prefill_tokens.sum() == 8 + 8 + 9
    assert result.requests.lost_tokens.tolist() == [0, 8]
    assert result.swapped_blocks == 0


@pytest.mark.parametrize("policy", SCHEDULER_STRATEGIES)
@steady(20)
@given(data=st.data())
def test_leaps_steps_and_the_slow_path_agree_when_swapping(
    policy: str, data: st.DataObject
) -> None:
    """Bit for bit, with tight memory; every identity holds and every request ends."""
    trace: Trace = data.draw(traces())
    new_scheduler = data.draw(SCHEDULER_STRATEGIES[policy])
    kv = data.draw(kv_caches(trace))
    price = data.draw(st.sampled_from([0, 7, 100_000]))

    def run(**options: object) -> object:
        return simulate(
            trace, new_scheduler(), AffineCostModel(True), kv, swap_ns_per_block=price, **options
        )

    result = run()
    check_identities(result)
    assert (result.requests.lost_tokens == 0).all()
    for options in ({"leap": False}, {"leap": 7}, {"slow_path": True}, {"check_promises": True}):
        assert facts(run(**options)) == facts(result)


def test_swapping_async_delivers_every_token() -> None:
    """Tight memory with a step in flight: all answers complete, nothing is lost."""
    trace = asked(*[(0, 8, 12)] * 6)

    result = simulate(
        trace, VllmScheduler(64, 6), PRICES, KVCache(9, 4), swap_ns_per_block=MS, leap=False
    )

    assert result.requests.preemptions.sum() > 0
    assert result.requests.emitted_tokens.tolist() == [12] * 6
    assert result.requests.lost_tokens.sum() == 0


def test_swapping_with_a_prefix_cache_is_refused() -> None:
    trace = asked((0, 8, 1))
    with pytest.raises(ConfigError, match="recompute, or use a KVCache"):
        simulate(trace, VllmScheduler(), PRICES, PrefixCache(5, 4), swap_ns_per_block=np.int64(1))
