"""The engine against a plain second implementation of the same policies, token for token."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import SCHEDULERS, simulate
from tests.simulator.facts import facts
from tests.simulator.reference import Reference
from tests.strategies import SCHEDULER_STRATEGIES, cost_models, kv_caches, steady, traces


def limits_of(new_scheduler: partial) -> dict[str, object]:
    """The limits that a policy was made with."""
    scheduler = new_scheduler()
    names = ("max_num_batched_tokens", "max_num_seqs", "chunk_size", "pad_prompts")
    return {name: getattr(scheduler, name, None) for name in names}


@pytest.mark.parametrize("policy", ["static", "continuous", "chunked", "alternating"])
@steady(1200)
@given(data=st.data())
def test_engine_agrees_with_the_plain_one_in_every_number(policy: str, data: st.DataObject) -> None:
    trace = data.draw(traces())
    kv = data.draw(kv_caches(trace))
    cost_model = data.draw(cost_models())
    new_scheduler = data.draw(SCHEDULER_STRATEGIES[policy])
    if policy == "static":
        plain = {"wait_for_full_batch": False, "deliver": "stream"}
        new_scheduler = partial(SCHEDULERS["static"], *new_scheduler.args, **plain)

    ours = facts(simulate(trace, new_scheduler(), cost_model, kv))
    theirs = Reference(trace, cost_model, kv, policy, **limits_of(new_scheduler)).run().facts()

    for name, values in theirs.items():
        assert ours[name] == values, name
