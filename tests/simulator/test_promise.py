"""Check mode: a policy that promises more than it keeps is named."""

from __future__ import annotations

import pytest

from costmodels import ConstantCostModel
from simulator import (
    ALL,
    BrokenPromiseError,
    ChunkedPrefillScheduler,
    EngineView,
    Holds,
    KVCache,
    Plan,
    simulate,
)
from tests.simulator.facts import assert_same
from tests.timeline import asked

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
ROOMY = KVCache(1000)


class AdmitsEveryTenth:
    """Lets requests wait until the clock shows a multiple of 10 ms, yet promises until a finish."""

    def __init__(self, holds: Holds) -> None:
        self.holds = holds

    def plan(self, view: EngineView) -> Plan:
        """Depends on the clock, so only ONE_STEP would be honest."""
        opens = view.now_ns % 10_000_000 == 0
        if view.waiting and (opens or not view.running):
            return Plan(prefill=tuple((s, s.remaining_tokens) for s in view.waiting))
        return Plan(ALL, holds=self.holds)


TRACE = asked((0, 8, 30), (5, 8, 3))


def test_policy_that_depends_on_the_clock_is_caught_with_both_plans() -> None:
    """It admits at 20 although at 10 it promised 29 decodes; plans 1-6 were at 0, 10, 12, .. 18."""
    expected = (
        r"AdmitsEveryTenth broke its promise at plan 7: Plan\(decode=<Decode.ALL.*"
        r"was to hold for \d+ more steps, now it wants Plan\(.*prefill=\(\(Sequence.*ONE_STEP"
    )

    with pytest.raises(BrokenPromiseError, match=expected):
        simulate(
            asked((0, 8, 30), (11, 8, 3)),
            AdmitsEveryTenth(Holds.UNTIL_FINISH),
            PRICES,
            ROOMY,
            check_promises=True,
        )


def test_same_policy_is_fine_without_the_promise() -> None:
    honest = AdmitsEveryTenth(Holds.ONE_STEP)

    checked = simulate(TRACE, honest, PRICES, ROOMY, check_promises=True)

    assert_same(checked, simulate(TRACE, honest, PRICES, ROOMY))


def test_broken_promise_changes_the_answer_unless_checked() -> None:
    """Why the mode exists: the leap runs past the instant at which the policy would have acted."""
    trace = asked((0, 8, 30), (11, 8, 3))

    leapt, stepped = (
        simulate(trace, AdmitsEveryTenth(Holds.UNTIL_FINISH), PRICES, ROOMY, leap=leap)
        for leap in (True, False)
    )

    assert stepped.requests.first_start_ns.tolist() == [0, 20_000_000]
    assert leapt.requests.first_start_ns.tolist() == [0, 68_000_000]


def test_promise_until_arrival_may_end_with_the_arrival() -> None:
    result = simulate(TRACE, ChunkedPrefillScheduler(), PRICES, ROOMY, check_promises=True)

    assert_same(result, simulate(TRACE, ChunkedPrefillScheduler(), PRICES, ROOMY))


def test_everybody_by_name_keeps_the_promise_of_all() -> None:
    class ByName:
        def plan(self, view: EngineView) -> Plan:
            if view.waiting:
                return Plan(prefill=tuple((s, s.remaining_tokens) for s in view.waiting))
            return Plan(tuple(view.decoding), holds=Holds.UNTIL_ARRIVAL)

    assert_same(
        simulate(TRACE, ByName(), PRICES, ROOMY, check_promises=True),
        simulate(TRACE, ByName(), PRICES, ROOMY),
    )


class RestsAfterPrompts:
    """Lets nobody decode in the step after a prompt, though a plan with prompts may promise it."""

    def __init__(self, holds: Holds) -> None:
        self.holds = holds
        self.rested = True

    def plan(self, view: EngineView) -> Plan:
        """The prompts that wait, then a nap of 1 ms, then decodes."""
        if view.waiting:
            self.rested = False
            chunks = tuple((s, s.remaining_tokens) for s in view.waiting)
            return Plan(ALL, chunks, holds=self.holds)
        if not self.rested:
            self.rested = True
            return Plan(wake_ns=view.now_ns + 1_000_000)
        return Plan(ALL)


def test_promise_of_a_prompt_step_is_checked_at_the_next_plan() -> None:
    honest = simulate(TRACE, RestsAfterPrompts(Holds.ONE_STEP), PRICES, ROOMY, check_promises=True)
    assert honest.requests.first_token_ns.tolist() == [10_000_000, 22_000_000]

    with pytest.raises(BrokenPromiseError, match=r"RestsAfterPrompts broke its promise at plan 3"):
        simulate(TRACE, RestsAfterPrompts(Holds.WHILE_ALONE), PRICES, ROOMY, check_promises=True)
