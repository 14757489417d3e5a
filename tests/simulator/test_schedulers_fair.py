"""Virtual token counters, worked out by hand, and their bound. Times in ms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import ConstantCostModel
from simulator import ChunkedPrefillScheduler, ConfigError, KVCache, Trace, simulate
from simulator.metrics import summarize
from simulator.schedulers import FairScheduler
from tests.strategies import steady
from tests.timeline import asked, ms

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
ROOMY = KVCache(1000)


def test_client_that_got_least_is_next() -> None:
    """One seat, a sends three requests before b's one. a costs 10 of service each, so b is next."""
    trace = asked(*[(0, 8, 1)] * 4, client=("a", "a", "a", "b"))

    result = simulate(trace, FairScheduler(max_num_seqs=1), PRICES, ROOMY)

    assert ms(result.requests.finish_ns) == [10, 30, 40, 20]


def test_weights_share_service_in_their_ratio() -> None:
    """a counts half: after a (5), b (10), a (10) the tie goes to a (15), then b (20), a."""
    trace = asked(*[(0, 8, 1)] * 6, client=("a", "a", "a", "a", "b", "b"))
    policy = FairScheduler(max_num_seqs=1, client_weights="a:2")

    result = simulate(trace, policy, PRICES, ROOMY)

    assert ms(result.requests.finish_ns) == [10, 30, 40, 60, 20, 50]


def test_client_that_comes_back_is_lifted_to_those_that_wait() -> None:
    """b comes at 21, when a has got 30: it starts level with a and takes turns, not all at once."""
    trace = asked(*[(0, 8, 1)] * 5, *[(21, 8, 1)] * 2, client=("a",) * 5 + ("b",) * 2)

    result = simulate(trace, FairScheduler(max_num_seqs=1), PRICES, ROOMY)

    assert ms(result.requests.finish_ns) == [10, 20, 30, 40, 60, 50, 70]


def test_output_tokens_count_as_they_appear() -> None:
    """One seat. a: 8 + 2 x 12 = 32 until 32; b's three cost 10 each, so all go before a's next."""
    trace = asked((0, 8, 12), *[(1, 8, 1)] * 4, client=("a", "b", "b", "b", "a"))

    result = simulate(trace, FairScheduler(max_num_seqs=1), PRICES, ROOMY)

    assert ms(result.requests.finish_ns)[1:] == [42, 52, 62, 72]


def flood(seed: int) -> Trace:
    """Client a floods the engine from 0 on, b sends its fewer requests a little later."""
    rng = np.random.Generator(np.random.PCG64(seed))
    arrival = np.sort(np.concatenate((np.zeros(60), rng.integers(1, 400, 30)))).astype(np.int64)
    return Trace(
        arrival_ns=arrival * 1_000_000,
        prompt_tokens=rng.integers(1, 60, 90),
        output_tokens=rng.integers(1, 40, 90),
        client=("a",) * 60 + ("b",) * 30,
    )


@steady(20)
@given(seed=st.integers(0, 10_000), seats=st.integers(1, 4))
def test_service_of_backlogged_clients_differs_by_no_more_than_the_bound(
    seed: int, seats: int
) -> None:
    """Sheng et al., theorem 4.4: 2 max(w_p x longest prompt, w_q x tokens a batch can hold).

    A batch of `seats` sequences holds at most 59 + 39 tokens of each.
    """
    policy = FairScheduler(512, seats)

    gap = summarize(simulate(flood(seed), policy, PRICES, ROOMY))["fairness"]["max_service_gap"]

    assert gap is None or gap <= 2 * max(1 * 59, 2 * 98 * seats)


def test_first_come_first_served_breaks_that_bound() -> None:
    """The same flood in order of arrival: a gets far more than the bound before b gets anything."""
    policy = ChunkedPrefillScheduler(512, 1)

    told = summarize(simulate(flood(1), policy, PRICES, ROOMY))["fairness"]

    assert told["max_service_gap"] > 2 * max(1 * 59, 2 * 98)


def test_a_weight_that_is_no_share_is_refused() -> None:
    for weights in ("a:0", "a:nan", {"a": -1.0}):
        with pytest.raises(ConfigError, match="client_weights of a is"):
            FairScheduler(client_weights=weights)
    with pytest.raises(ConfigError, match="must be written CLASS:NUMBER"):
        FairScheduler(client_weights="a=2")
