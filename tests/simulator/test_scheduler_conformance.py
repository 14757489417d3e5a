"""Every policy, on any trace: how the engine gets through the steps never changes what happens."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import CostModel, Result, State, Trace, simulate
from simulator.identities import check_identities
from tests.simulator.facts import assert_same
from tests.simulator.policies import RoundRobin, ShortestPromptAlone, Whim
from tests.strategies import (
    SCHEDULER_STRATEGIES,
    NewScheduler,
    WatchedKVCache,
    cost_models,
    kv_caches,
    loads,
    steady,
    traces,
)

POLICIES: dict[str, st.SearchStrategy[NewScheduler]] = SCHEDULER_STRATEGIES | {
    "round robin": st.builds(partial, st.just(RoundRobin), st.integers(1, 4)),
    "whim": st.builds(partial, st.just(Whim), st.integers(0, 1000)),
    "shortest prompt alone": st.just(ShortestPromptAlone),
}

WAYS: tuple[dict[str, object], ...] = (
    {"leap": False},
    {"leap": 2},
    {"leap": 7},
    {"leap": 50},
    {"slow_path": True},
    {"check_promises": True},
)


@pytest.mark.parametrize("policy", POLICIES)
@steady(45)
@given(data=st.data())
def test_leaps_steps_and_the_slow_path_agree_bit_for_bit(policy: str, data: st.DataObject) -> None:
    trace: Trace = data.draw(traces())
    kv: WatchedKVCache = data.draw(kv_caches(trace))
    cost_model: CostModel = data.draw(cost_models())
    new_scheduler = data.draw(POLICIES[policy])
    load = data.draw(loads(trace))

    result = simulate(trace, new_scheduler(), cost_model, kv, **load)

    check_end(result, kv, stopped="stop_ns" in load)
    limit = getattr(new_scheduler(), "step_token_limit", None)
    check_identities(result, users=load.get("users"), step_token_limit=limit)
    for way in WAYS:
        again = simulate(trace, new_scheduler(), cost_model, kv, **load, **way)
        assert_same(result, again)
        check_end(again, kv, stopped="stop_ns" in load)


def check_end(result: Result, kv: WatchedKVCache, *, stopped: bool) -> None:
    """Every request ended, and no block was lost on the way."""
    assert np.all(result.steps.used_blocks <= kv.blocks)
    if not stopped:
        assert set(result.requests.state) <= {State.FINISHED, State.REJECTED}
        assert kv.last.used_blocks == 0
