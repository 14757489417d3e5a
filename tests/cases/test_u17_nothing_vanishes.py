"""U17: nothing appears or vanishes, and overload is said aloud."""

from __future__ import annotations

import numpy as np
import pytest

from costmodels import ConstantCostModel
from simulator import SCHEDULERS, ContinuousScheduler, KVCache, Result, State, Trace, simulate
from simulator.identities import check_identities
from simulator.metrics import summarize
from simulator.units import NS_PER_MS
from tests.timeline import asked, ms


def one_at_a_time(arrivals_ms: list[float], service_ms: float) -> Result:
    """One seat, one token each."""
    trace = asked(*[(arrival, 8, 1) for arrival in arrivals_ms])
    prices = ConstantCostModel(prefill_ms=service_ms, decode_ms=1)
    return simulate(trace, ContinuousScheduler(2048, 1), prices, KVCache(10))


def test_area_under_requests_in_system_is_the_sum_of_times_in_system() -> None:
    """Service 15, arrivals 0, 10, 20: E2E 15, 20, 25. Area over [0, 45] 60; mean 60 / 45."""
    result = one_at_a_time([0, 10, 20], 15)
    summary = summarize(result)

    e2e = result.requests.finish_ns - result.requests.arrival_ns
    assert ms(e2e) == [15, 20, 25]
    assert summary["duration_s"] == 0.045
    assert summary["in_system"]["mean"] == pytest.approx(60 / 45, rel=1e-9)
    rate_times_time = summary["request_throughput"] * summary["e2el_ms"]["mean"] / 1000
    assert rate_times_time == pytest.approx(3 / 45 * 20, rel=1e-9)


def test_overload_is_flagged_and_its_numbers_are_those_of_this_run() -> None:
    """Service 10, 1,000 arrivals every 8: waits 0, 2, .. 1,998."""
    result = one_at_a_time([8 * k for k in range(1000)], 10)
    summary = summarize(result)

    waits = result.requests.first_start_ns - result.requests.arrival_ns
    assert ms(waits) == [2 * k for k in range(1000)]
    assert summary["queue_ms"]["mean"] == 999
    assert result.end_ns == 10_000 * NS_PER_MS
    assert summary["request_throughput"] == pytest.approx(100, rel=1e-9)
    assert summary["offered_rate"] == pytest.approx(125, rel=2e-3)
    assert summary["saturated"] is True


def test_load_that_is_served_is_not_flagged() -> None:
    assert summarize(one_at_a_time([12 * k for k in range(1000)], 10))["saturated"] is False


@pytest.mark.parametrize("stop_ms", [None, 1500])
@pytest.mark.parametrize("blocks", [60, 1000])
@pytest.mark.parametrize("policy", SCHEDULERS)
def test_every_request_is_in_one_state_and_the_areas_agree(
    policy: str, blocks: int, stop_ms: int | None
) -> None:
    """With and without preemptions, stopped and drained.

    60 blocks make them, except where memory for what may still be generated is kept free (sglang).
    """
    rng = np.random.default_rng(17)
    trace = Trace(
        arrival_ns=np.sort(rng.integers(0, 3000, 150)) * NS_PER_MS,
        prompt_tokens=rng.integers(1, 200, 150),
        output_tokens=rng.integers(1, 120, 150),
    )
    stop_ns = None if stop_ms is None else stop_ms * NS_PER_MS
    prices = ConstantCostModel(prefill_ms=9, decode_ms=4)

    result = simulate(trace, SCHEDULERS[policy](), prices, KVCache(blocks), stop_ns=stop_ns)
    summary = summarize(result)

    check_identities(result)
    assert (result.requests.preemptions.sum() > 0) == (blocks == 60 and policy != "sglang")
    states = ("finished", "rejected", "unfinished", "not_arrived")
    assert sum(summary[state] for state in states) == summary["rows_in"] == 150
    assert (summary["not_arrived"] > 0) == (stop_ms is not None)
    log = result.requests
    inside = np.isin(log.state, (State.FINISHED, State.UNFINISHED))
    left = np.where(log.state == State.FINISHED, log.finish_ns, result.end_ns)
    times_s = (left - log.arrival_ns)[inside].sum() / 1e9
    area_s = summary["in_system"]["mean"] * summary["duration_s"]
    assert area_s == pytest.approx(times_s, rel=1e-9)
