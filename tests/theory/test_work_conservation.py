"""The engine never idles while there is work, and no order of service creates or destroys work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import ContinuousScheduler, KVCache, Result, State, Trace, simulate
from simulator.units import NS_PER_MS
from tests.simulator.policies import ShortestPromptAlone
from tests.strategies import SCHEDULER_STRATEGIES, cost_models, kv_caches, steady, traces
from tests.timeline import PerItem
from workloads.arrivals import poisson


@pytest.mark.parametrize("policy", SCHEDULER_STRATEGIES)
@steady(30)
@given(data=st.data())
def test_device_is_idle_only_while_nobody_is_in_the_system(
    policy: str, data: st.DataObject
) -> None:
    """Unless a static batch is told to wait until it is full."""
    trace = data.draw(traces())
    kv = data.draw(kv_caches(trace))
    scheduler = data.draw(SCHEDULER_STRATEGIES[policy])()
    if policy == "static":
        scheduler.wait_for_full_batch = False

    result = simulate(trace, scheduler, data.draw(cost_models()), kv)

    log, steps = result.requests, result.steps
    served = log.state == State.FINISHED
    arrivals, ends = log.arrival_ns[served], log.finish_ns[served]
    starts = steps.end_ns - steps.duration_ns
    before = np.concatenate(([0], steps.end_ns[:-1]))
    for idle_from, idle_to in zip(before[starts > before], starts[starts > before], strict=True):
        assert not ((arrivals < idle_to) & (ends > idle_from)).any()
        assert idle_to in arrivals


def served_one_at_a_time(scheduler: object) -> Result:
    rng = np.random.default_rng([4, 1])
    prompts = np.maximum(1, rng.exponential(1000, 4000)).astype(np.int64)
    trace = Trace(poisson(4000, 80.0, seed=4), prompts, np.ones(4000, np.int64))
    return simulate(trace, scheduler, PerItem(token_ms=0.01), KVCache(10_000))


def test_order_of_service_moves_waits_but_neither_work_nor_busy_periods() -> None:
    """Shortest first at load 0.8: the same steps' total, the same idle times, shorter waits."""
    in_order = served_one_at_a_time(ContinuousScheduler(None, 1))
    shortest = served_one_at_a_time(ShortestPromptAlone())

    def idle_times(result: Result) -> list[tuple[int, int]]:
        steps = result.steps
        starts, ends = steps.end_ns - steps.duration_ns, steps.end_ns
        gaps = np.flatnonzero(starts[1:] > ends[:-1])
        return list(zip(ends[gaps].tolist(), starts[gaps + 1].tolist(), strict=True))

    def mean_wait_ms(result: Result) -> float:
        log = result.requests
        return float((log.first_start_ns - log.arrival_ns).mean()) / NS_PER_MS

    assert idle_times(in_order) == idle_times(shortest)
    assert in_order.steps.duration_ns.sum() == shortest.steps.duration_ns.sum()
    assert in_order.end_ns == shortest.end_ns
    assert mean_wait_ms(shortest) < 0.7 * mean_wait_ms(in_order)


def test_saturated_batches_work_without_a_pause() -> None:
    """Everybody at once: from the first step to the last there is no gap."""
    trace = Trace(np.zeros(200, np.int64), np.full(200, 50), np.arange(1, 201))

    result = simulate(trace, ContinuousScheduler(512, 16), PerItem(0.1, 0.2, 3.0), KVCache(200))

    steps = result.steps
    assert (steps.end_ns[1:] - steps.duration_ns[1:] == steps.end_ns[:-1]).all()
    assert result.end_ns == steps.duration_ns.sum()
