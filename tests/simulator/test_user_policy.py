"""What a policy of one's own may see and do; above all, what it may not see."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import ConstantCostModel
from simulator import ALL, NONE, EngineView, KVCache, Plan, Scheduler, Sequence, Trace, simulate
from simulator.decode_pool import DecodePool
from tests.simulator.policies import RoundRobin, ShortestPromptAlone, Whim
from tests.strategies import SCHEDULER_STRATEGIES, AffineCostModel, kv_caches, steady, traces
from tests.timeline import asked, ms, tokens_ms

POLICIES = SCHEDULER_STRATEGIES | {
    "round robin": st.just(lambda: RoundRobin(2)),
    "whim": st.just(lambda: Whim(11)),
    "shortest prompt alone": st.just(ShortestPromptAlone),
}
PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
ROOMY = KVCache(1000)


def public(thing: object) -> dict[str, object]:
    """Everything with a public name that is not a method."""
    names = [name for name in dir(thing) if not name.startswith("_")]
    values = {name: getattr(thing, name) for name in names}
    values = {name: value for name, value in values.items() if not callable(value)}
    unordered = {name: sorted(map(repr, v)) for name, v in values.items() if isinstance(v, set)}
    return values | unordered


class Spy:
    """Writes down all that the policy inside could look at, and what it then planned."""

    def __init__(self, policy: Scheduler) -> None:
        self._policy = policy
        self.seen: list[tuple[int, str]] = []
        for name in ("step_token_limit", "queue_key", "holds_slots_until_batch_end", "bind_prices"):
            if hasattr(policy, name):
                setattr(self, name, getattr(policy, name))

    def plan(self, view: EngineView) -> Plan:
        """Look, then plan."""
        plan = self._policy.plan(view)
        looks = {**public(view), "decoding": public(view.decoding), "kv": public(view.kv)}
        for queue in ("waiting", "prefilling", "running"):
            looks[queue] = [public(sequence) for sequence in getattr(view, queue)]
        looks["members"] = [view.decoding.context_of(member) for member in view.decoding]
        looks["blocks"] = [view.blocks_of(sequence) for sequence in view.running]
        self.seen.append((view.now_ns, repr(looks) + repr(plan)))
        return plan


@pytest.mark.parametrize("policy", POLICIES)
@steady(25)
@given(data=st.data())
def test_nothing_depends_on_how_long_an_unfinished_answer_will_be(
    policy: str, data: st.DataObject
) -> None:
    """Lengthen an answer: until it ends in the shorter run, all that is seen and planned is equal.

    Nobody is rejected: how long an answer may become is what admission control is told.
    """
    trace: Trace = data.draw(traces())
    new_scheduler = data.draw(POLICIES[policy])
    drawn = data.draw(kv_caches(trace))
    kv = KVCache(drawn.blocks + 60, drawn.block_size)
    row = data.draw(st.integers(0, len(trace) - 1))
    longer = trace.output_tokens.copy()
    longer[row] += data.draw(st.integers(1, 20))

    runs, spies = [], []
    for outputs in (trace.output_tokens, longer):
        spy = Spy(new_scheduler())
        changed = replace(trace, output_tokens=outputs)
        runs.append(simulate(changed, spy, AffineCostModel(True), kv, leap=False))
        spies.append(spy)

    end_ns = runs[0].requests.finish_ns[row]
    before = [[look for look in spy.seen if look[0] < end_ns] for spy in spies]
    assert before[0] == before[1]
    steps = [run.steps.end_ns[run.steps.end_ns <= end_ns].tolist() for run in runs]
    assert steps[0] == steps[1]


def test_sequence_shows_no_public_trace_of_its_true_output_length() -> None:
    """All public values of a fresh sequence, none of which is 777."""
    shown = public(Sequence(row=3, arrival_ns=5, prompt_tokens=11, output_tokens=777))

    assert shown == {
        "row": 3,
        "arrival_ns": 5,
        "prompt_tokens": 11,
        "known_tokens": 11,
        "computed_tokens": 0,
        "remaining_tokens": 11,
        "priority": 0,
        "client": None,
        "max_tokens": None,
        "predicted_output_tokens": None,
        "preemptions": 0,
    }


def test_pool_does_not_tell_who_ends_next() -> None:
    """No public member of the pool has to do with the end of a sequence."""
    public_names = {name for name in dir(DecodePool) if not name.startswith("_")}

    assert not {name for name in public_names if "finish" in name or "left" in name}


def test_policy_may_use_the_limit_that_a_client_declared() -> None:
    """Smallest declared limit first, one at a time: b (5), a (9), then c, which declared none."""

    class SmallestLimitFirst:
        def plan(self, view: EngineView) -> Plan:
            if view.running:
                return Plan(ALL)
            head = min(view.waiting, key=lambda sequence: sequence.max_tokens or 10**9)
            return Plan(NONE, ((head, head.remaining_tokens),))

    trace = asked((0, 8, 1), (0, 8, 1), (0, 8, 1), max_tokens=np.array([9, 5, 0]))

    result = simulate(trace, SmallestLimitFirst(), PRICES, ROOMY)

    assert ms(result.requests.finish_ns) == [20, 10, 30]


def test_round_robin_gives_every_stream_its_turn() -> None:
    """Three streams, one decodes at a time: after the prompts (0-30) each gets every third step."""
    trace = asked((0, 8, 4), (0, 8, 4), (0, 8, 4))

    result = simulate(trace, RoundRobin(streams=1), PRICES, ROOMY)

    assert tokens_ms(result, 0) == [10, 32, 38, 44]
    assert tokens_ms(result, 1) == [20, 34, 40, 46]
    assert tokens_ms(result, 2) == [30, 36, 42, 48]


def test_round_robin_with_tight_memory_preempts_and_still_serves_everybody() -> None:
    trace = asked(*[(0, 20, 30)] * 6)

    result = simulate(trace, RoundRobin(streams=2), PRICES, KVCache(8))

    assert result.requests.preemptions.sum() > 0
    assert result.requests.emitted_tokens.tolist() == [30] * 6


def test_preempted_prompt_starts_again_from_nothing() -> None:
    """A policy that throws a half-done prompt out once, at 20: 8 of 12 tokens are lost.

    Chunks of 4 at 0-10, 10-20; evicted and admitted again at 20: 20-30, 30-40, 40-50.
    """

    class ThrowsOutOnce:
        thrown = False

        def plan(self, view: EngineView) -> Plan:
            if view.now_ns == 20_000_000 and not self.thrown:
                self.thrown = True
                return Plan(preempt=tuple(view.running))
            return Plan(ALL, tuple((s, 4) for s in (*view.prefilling, *view.waiting)))

    result = simulate(asked((0, 12, 1)), ThrowsOutOnce(), PRICES, ROOMY)

    log = result.requests
    assert tokens_ms(result, 0) == [50]
    assert (log.lost_tokens[0], log.prefilled_tokens[0], log.recomputed_tokens[0]) == (8, 12, 8)
    assert (log.preemptions[0], log.preempted_ns[0]) == (1, 0)
    assert result.steps.preempted.tolist() == [0, 0, 1, 0, 0]


def test_queue_key_orders_the_waiting_queue() -> None:
    """Longest prompt first, one at a time; all arrive while the first one runs."""

    class LongestFirst:
        @staticmethod
        def queue_key(sequence: Sequence) -> int:
            return -sequence.prompt_tokens

        def plan(self, view: EngineView) -> Plan:
            if view.running:
                return Plan(ALL)
            head = next(iter(view.waiting))
            return Plan(NONE, ((head, head.remaining_tokens),))

    trace = asked((0, 1, 1), (1, 5, 1), (2, 9, 1), (3, 7, 1))

    result = simulate(trace, LongestFirst(), PRICES, ROOMY)

    assert ms(result.requests.finish_ns) == [10, 40, 20, 30]


def test_result_names_the_policy() -> None:
    """Its `name`, or the name of its class."""
    assert simulate(asked((0, 8, 1)), RoundRobin(1), PRICES, ROOMY).scheduler == "RoundRobin"


def test_policies_of_the_tests_use_public_names_only() -> None:
    """They stand for what users write: nothing of a sequence or view with an underscore."""
    for policy in (RoundRobin, Whim, ShortestPromptAlone):
        words = inspect.getsource(policy).replace("self._", "self.").split()
        assert not [word for word in words if "._" in word]
