"""U15: requests that can never fit are turned away on arrival. Cache of 64 blocks x 16 tokens."""

from __future__ import annotations

import pytest

from costmodels import ConstantCostModel
from simulator import SCHEDULERS, KVCache, Result, State, simulate
from simulator.metrics import summarize
from simulator.timings import Slo
from tests.timeline import asked, ms

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
CACHE = KVCache(64, block_size=16)


def run(*rows: tuple[float, int, int], policy: str = "chunked", **options: int) -> Result:
    return simulate(asked(*rows), SCHEDULERS[policy](), PRICES, CACHE, **options)


@pytest.mark.parametrize("policy", SCHEDULERS)
def test_request_beyond_the_cache_is_rejected_and_the_next_served_as_if_alone(policy: str) -> None:
    """R1 needs 125 blocks of 64. R2 arrives at 1 and ends at 11, as it does without R1."""
    result = run((0, 2000, 1), (1, 100, 1), policy=policy)
    alone = run((1, 100, 1), policy=policy)

    assert result.requests.state.tolist() == [State.REJECTED, State.FINISHED]
    assert result.requests.reason == ("exceeds_kv_capacity", None)
    assert ms(result.requests.finish_ns)[1:] == ms(alone.requests.finish_ns) == [11]
    assert result.end_ns == alone.end_ns


def test_request_beyond_the_model_length_is_rejected_with_that_reason() -> None:
    """Model length 512: a prompt of 600, and 500 + 100. Exactly 512 is served. Nothing is cut."""
    result = run((0, 600, 1), (0, 500, 100), (0, 412, 100), max_model_len=512)

    assert result.requests.reason == ("exceeds_model_len", "exceeds_model_len", None)
    assert result.requests.emitted_tokens.tolist() == [0, 0, 100]


def test_rejected_are_counted_and_in_the_goodput_denominator_but_in_no_latency() -> None:
    """Submitted 3 = finished 1 + rejected 2 + unfinished 0; 1 of 3 is good."""
    result = run((0, 2000, 1), (1, 100, 1), (2, 600, 1), max_model_len=512)

    summary = summarize(result, slo=Slo(ttft_ms=10))

    counts = ("submitted", "finished", "rejected", "unfinished")
    assert [summary[name] for name in counts] == [3, 1, 2, 0]
    assert summary["rejected_by_reason"] == {"exceeds_model_len": 2}
    assert summary["ttft_ms"]["n"] == summary["e2el_ms"]["n"] == 1
    assert summary["goodput_fraction"] == 1 / 3
