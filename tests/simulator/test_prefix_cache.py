"""Prefix caching: what is hit, what goes first, and that no way through a run changes it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import simulate
from simulator.identities import check_identities
from tests.simulator.facts import assert_same
from tests.simulator.shared_prefixes import WatchedPrefixCache, prefix_caches, sharing_traces
from tests.simulator.test_scheduler_conformance import WAYS, check_end
from tests.strategies import SCHEDULER_STRATEGIES, cost_models, loads, steady


@pytest.mark.parametrize("policy", SCHEDULER_STRATEGIES)
@steady(40)
@given(data=st.data())
def test_leaps_steps_and_the_slow_path_agree_with_a_prefix_cache(
    policy: str, data: st.DataObject
) -> None:
    trace = data.draw(sharing_traces())
    kv = data.draw(prefix_caches(trace))
    cost_model = data.draw(cost_models())
    new_scheduler = data.draw(SCHEDULER_STRATEGIES[policy])
    load = data.draw(loads(trace))
    if trace.parent is not None:  # turns that wait for the one before, or that overlap it
        capped = "users" in load or "max_concurrency" in load
        load["sessions"] = not capped and data.draw(st.booleans())

    result = simulate(trace, new_scheduler(), cost_model, kv, **load)

    check_end(result, kv, stopped="stop_ns" in load)
    limit = getattr(new_scheduler(), "step_token_limit", None)
    check_identities(result, users=load.get("users"), step_token_limit=limit)
    for way in WAYS:
        again = simulate(trace, new_scheduler(), cost_model, kv, **load, **way)
        assert_same(result, again)
        check_end(again, kv, stopped="stop_ns" in load)
