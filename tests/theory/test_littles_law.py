"""Little's law as an exact identity: what the engine holds over time is what requests spend in it.

Source: Little, A Proof for the Queuing Formula L = lambda W (Operations Research 9, 1961).
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import EngineView, Plan, Scheduler, State, simulate
from tests.strategies import SCHEDULER_STRATEGIES, cost_models, kv_caches, steady, traces


class Census:
    """Counts who is in the system whenever the policy inside is asked."""

    def __init__(self, policy: Scheduler) -> None:
        self._policy = policy
        self.count: dict[int, int] = {}
        for name in ("step_token_limit", "queue_key", "holds_slots_until_batch_end", "bind_prices"):
            if hasattr(policy, name):
                setattr(self, name, getattr(policy, name))

    def plan(self, view: EngineView) -> Plan:
        """Count, then plan; a step planned in parts is counted before its first part.

        Finished members of a static batch have left, whatever they hold.
        """
        active = len(view.prefilling) + len(view.decoding)
        self.count.setdefault(view.now_ns, len(view.waiting) + active)
        return self._policy.plan(view)


@pytest.mark.parametrize("policy", SCHEDULER_STRATEGIES)
@steady(30)
@given(data=st.data())
def test_area_under_the_census_is_the_sum_of_times_in_system(
    policy: str, data: st.DataObject
) -> None:
    """Exactly, in ns: per step the census at its start, and whoever arrives while it runs."""
    trace = data.draw(traces())
    kv = data.draw(kv_caches(trace))
    census = Census(data.draw(SCHEDULER_STRATEGIES[policy])())

    result = simulate(trace, census, data.draw(cost_models()), kv, leap=False)

    log, steps = result.requests, result.steps
    served = log.state == State.FINISHED
    arrivals = log.arrival_ns[served]
    times_ns = int((log.finish_ns - log.arrival_ns)[served].sum())
    busy_ns, idle_ns = 0, 0
    end = 0
    for start, duration in zip(steps.end_ns - steps.duration_ns, steps.duration_ns, strict=True):
        waited = arrivals[(arrivals > end) & (arrivals < start)]
        idle_ns += int((start - waited).sum()) + (start - end) * int(
            ((arrivals <= end) & (log.finish_ns[served] > end)).sum()
        )
        end = start + duration
        late = arrivals[(arrivals > start) & (arrivals < end)]
        busy_ns += census.count[int(start)] * int(duration) + int((end - late).sum())
    assert busy_ns + idle_ns == times_ns
    if served.any():
        span = int(log.finish_ns[served].max() - arrivals.min())
        mean_in_system = Fraction(busy_ns + idle_ns, span)
        throughput, mean_time = Fraction(int(served.sum()), span), Fraction(times_ns, served.sum())
        assert mean_in_system == throughput * mean_time
