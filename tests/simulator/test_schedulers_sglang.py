"""SGLang's policy, worked out by hand. Times in ms; planned in step, not ahead."""

from __future__ import annotations

import numpy as np
import pytest

from costmodels import ConstantCostModel
from simulator import ConfigError, KVCache, Result, Trace, simulate
from simulator.schedulers import SglangScheduler
from tests.timeline import PerItem, asked, ms, tokens_ms

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
ROOMY = KVCache(100_000, block_size=1)


def run(trace: Trace, kv: KVCache = ROOMY, prices: object = PRICES, **settings: object) -> Result:
    return simulate(trace, SglangScheduler(**settings), prices, kv, async_scheduling=False)


def test_prompts_go_first_and_streams_wait() -> None:
    """A: 0-10, a decode to 12. B arrived at 11: its prompt alone 12-22; A goes on."""
    result = run(asked((0, 8, 4), (11, 8, 1)))

    assert tokens_ms(result, 0) == [10, 12, 24, 26]
    assert tokens_ms(result, 1) == [22]


def test_the_cut_prompt_goes_first_in_the_next_step_and_shares_it() -> None:
    """Steps of 8 tokens: A 8, A 8, A's last 4 and 4 of B, B's last 2."""
    result = run(asked((0, 20, 1), (0, 6, 1)), prices=PerItem(), chunked_prefill_size=8)

    assert result.steps.prefill_tokens.tolist() == [8, 8, 8, 2]
    assert ms(result.requests.first_token_ns) == [24, 26]


def test_max_prefill_tokens_keeps_the_second_prompt_out_but_not_a_long_first_one() -> None:
    """At most 10: the 20 of A alone; B and C would be 11 together."""
    result = run(asked((0, 20, 1), (0, 6, 1), (0, 5, 1)), max_prefill_tokens=10)

    assert result.steps.prefill_tokens.tolist() == [20, 6, 5]


def test_with_mixed_chunks_streams_ride_along_and_count() -> None:
    """Chunks of 8 beside one stream are 7 prompt tokens: B's 10 take two steps of 12."""
    result = run(asked((0, 8, 4), (11, 10, 1)), chunked_prefill_size=8, enable_mixed_chunk=True)

    assert tokens_ms(result, 0) == [10, 12, 24, 36]
    assert result.steps.prefill_tokens.tolist() == [8, 0, 7, 3]


@pytest.mark.parametrize(("conservativeness", "start"), [(1.0, 58), (0.0, 12)])
def test_memory_is_kept_free_for_what_running_requests_may_generate(
    conservativeness: float, start: float
) -> None:
    """100 tokens. At 12 A holds 11 and may generate 78 more: 0.699 of them are kept, 34.5 are left.

    B wants 10 + 60. It starts when A's 25 tokens are done, or at once if nothing is kept.
    """
    trace = asked((0, 10, 25), (11, 10, 1), max_tokens=np.array([80, 60]))

    result = run(trace, KVCache(100, 1), schedule_conservativeness=conservativeness)

    assert ms(result.requests.first_start_ns)[1] == start


def test_without_memory_who_generated_least_is_retracted_the_longest_prompt_at_ties() -> None:
    """12 tokens. A: 3 + 6, B: 4 + 4, nothing kept free; B starts at 10, A waits for it until 20.

    At 24 A holds 5 and B 6, both generated 3: B is retracted. Its 7 tokens and the one it may
    still generate fit when A is done at 30.
    """
    trace = asked((0, 3, 6), (5, 4, 4), max_tokens=np.array([6, 4]))

    result = run(trace, KVCache(12, 1), schedule_conservativeness=0.0)

    assert tokens_ms(result, 0) == [10, 22, 24, 26, 28, 30]
    assert tokens_ms(result, 1) == [20, 22, 24, 40]
    assert result.requests.preemptions.tolist() == [0, 1]


def test_retracted_request_joins_the_queue_at_its_end() -> None:
    """As above, and C (2 + 1) waits since 11 for the only other seat: it goes before B."""
    trace = asked((0, 3, 6), (5, 4, 4), (11, 9, 1), max_tokens=np.array([6, 4, 1]))

    result = run(trace, KVCache(12, 1), schedule_conservativeness=0.0)

    assert ms(result.requests.first_token_ns) == [10, 20, 40]
    assert tokens_ms(result, 1)[-1] == 50


def test_bad_settings_are_refused() -> None:
    for settings, message in (
        ({"chunked_prefill_size": 0}, "chunk_size is 0"),
        ({"max_running_requests": 0}, "max_num_seqs is 0"),
        ({"schedule_conservativeness": -1.0}, "schedule_conservativeness is -1.0"),
    ):
        with pytest.raises(ConfigError, match=message):
            SglangScheduler(**settings)
