"""Earliest deadline first, worked out by hand. Times in ms."""

from __future__ import annotations

import numpy as np
import pytest

from costmodels import ConstantCostModel
from simulator import ConfigError, KVCache, simulate
from simulator.schedulers import EdfScheduler
from tests.timeline import PerItem, asked, ms, tokens_ms

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
ROOMY = KVCache(1000)


@pytest.mark.parametrize("classes", ["client", "priority"])
def test_request_of_a_class_with_less_time_overtakes(classes: str) -> None:
    """One seat. At 10 the document is due at 1001, the chat at 52."""
    trace = asked(
        *((0, 8, 1), (1, 8, 1), (2, 8, 1)),
        client=("documents", "documents", "chat"),
        priority=np.array([2, 2, 1]),
    )
    limits = "chat:50+documents:1000" if classes == "client" else "1:50+2:1000"
    policy = EdfScheduler(max_num_seqs=1, ttft_ms=limits, classes=classes)

    assert ms(simulate(trace, policy, PRICES, ROOMY).requests.finish_ns) == [10, 30, 20]


@pytest.mark.parametrize(
    ("tpot_ms", "stream", "first_token"),
    [(2.0, [10, 12, 14, 16], 26), (1000.0, [10, 12, 24, 26], 24)],
)
def test_prompt_waits_while_a_stream_is_due_first(
    tpot_ms: float, stream: list[float], first_token: float
) -> None:
    """A's tokens are due every `tpot_ms` from 10 on; B, there at 11, is due at 111."""
    policy = EdfScheduler(ttft_ms=100.0, tpot_ms=tpot_ms)

    result = simulate(asked((0, 4, 4), (11, 8, 1)), policy, PRICES, ROOMY)

    assert tokens_ms(result, 0) == stream
    assert tokens_ms(result, 1) == [first_token]


def test_urgent_prompt_goes_before_the_rest_of_a_half_done_one() -> None:
    """Budget 4, 1 ms a token. The document's first 4 tokens, then the chat, then the other 8."""
    trace = asked((0, 12, 1), (1, 4, 1), client=("documents", "chat"))
    policy = EdfScheduler(4, 4, ttft_ms={"documents": 1000.0, "chat": 10.0})

    result = simulate(trace, policy, PerItem(), ROOMY)

    assert ms(result.requests.first_token_ns) == [16, 8]


def test_bad_limits_are_refused() -> None:
    with pytest.raises(ConfigError, match="ttft_ms of chat is 0"):
        EdfScheduler(ttft_ms={"chat": 0})
    with pytest.raises(ConfigError, match="classes is 'model'"):
        EdfScheduler(classes="model")
