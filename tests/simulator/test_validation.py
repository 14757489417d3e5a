"""A plan that the engine cannot carry out is refused before anything has changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from costmodels import ConstantCostModel
from simulator import (
    ALL,
    NONE,
    EngineView,
    Holds,
    InvalidPlanError,
    KVCache,
    Plan,
    simulate,
)
from tests.timeline import asked

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)

Choice = Callable[[EngineView], Plan]


class TwoRunning:
    """Two prompts of 6 tokens in one step, then, when both decode, the plan under test."""

    def __init__(self, choice: Choice, step_token_limit: int | None) -> None:
        self.choice = choice
        self.step_token_limit = step_token_limit

    def plan(self, view: EngineView) -> Plan:
        """The first two, then whatever is tried."""
        if not view.running:
            first, second, *_ = view.waiting
            return Plan(prefill=((first, 6), (second, 6)))
        return self.choice(view)


def refused(
    choice: Choice, kv: KVCache | None = None, *, step_token_limit: int | None = None
) -> str:
    """Why the plan was refused; a third prompt of 20 tokens waits meanwhile."""
    trace = asked((0, 6, 9), (0, 6, 9), (0, 20, 2))
    with pytest.raises(InvalidPlanError) as error:
        simulate(
            trace, TwoRunning(choice, step_token_limit), PRICES, kv or KVCache(100, block_size=4)
        )
    return str(error.value)


def first(view: EngineView):
    return next(iter(view.decoding))


def head(view: EngineView):
    return next(iter(view.waiting))


def test_tokens_over_the_budget() -> None:
    """2 decodes + 15 prompt tokens."""
    message = refused(lambda view: Plan(ALL, ((head(view), 15),)), step_token_limit=16)

    assert message == "plan has 17 tokens, max_num_batched_tokens is 16"


def test_blocks_that_are_not_free() -> None:
    """Each holds 2 of 8 blocks; the prompt's 20 tokens need 5, both decodes none (6 % 4 > 0)."""
    message = refused(lambda view: Plan(ALL, ((head(view), 20),)), KVCache(8, block_size=4))

    assert message == "plan needs 5 KV blocks, 4 are free: preempt somebody or take less"


def test_decode_growth_counts_too() -> None:
    """15 blocks of 2: contexts 6 and 6 hold 6 blocks. Their decodes need 2 and 16 prompt tokens 8.

    Evicting one of the two frees 3 and saves its decode's block: then 8 + 1 of 12 are needed.
    """
    kv = KVCache(15, block_size=2)

    for everybody in (lambda view: ALL, lambda view: tuple(view.decoding)):
        message = refused(lambda view: Plan(everybody(view), ((head(view), 16),)), kv)  # noqa: B023
        assert message == "plan needs 10 KV blocks, 9 are free: preempt somebody or take less"


@pytest.mark.parametrize("new", [0, -3, 21])
def test_chunk_that_is_empty_or_larger_than_what_is_left(new: int) -> None:
    message = refused(lambda view: Plan(NONE, ((head(view), new),)))

    assert message.startswith("plan gives Sequence(row=2, computed=0 of 20)")
    assert f"{new} prompt tokens, it needs 1 to 20" in message


def test_prompt_of_a_sequence_that_decodes() -> None:
    message = refused(lambda view: Plan(NONE, ((first(view), 1),)))

    assert "which neither waits nor prefills" in message


def test_decode_of_a_sequence_that_waits() -> None:
    assert "does not generate now" in refused(lambda view: Plan((head(view),)))


def test_decode_of_one_sequence_twice() -> None:
    message = refused(lambda view: Plan((first(view), first(view))))

    assert message == "plan decodes one sequence twice in one step"


def test_two_chunks_for_one_sequence() -> None:
    message = refused(lambda view: Plan(NONE, ((head(view), 4), (head(view), 4))))

    assert message == "plan gives one sequence two chunks in one step: merge them"


def test_decode_and_preemption_of_the_same_sequence() -> None:
    message = refused(lambda view: Plan((first(view),), preempt=(first(view),)))

    assert "does not generate now" in message


def test_preemption_of_who_does_not_run_or_twice() -> None:
    assert "not all running" in refused(lambda view: Plan(preempt=(head(view),)))
    assert "or one twice" in refused(lambda view: Plan(preempt=(first(view), first(view))))


@pytest.mark.parametrize("holds", [Holds.UNTIL_ARRIVAL, Holds.UNTIL_FINISH])
def test_long_promise_of_a_plan_that_does_more_than_decode_for_all(holds: Holds) -> None:
    prompts = refused(lambda view: Plan(ALL, ((head(view), 4),), holds=holds))
    one_of_two = refused(lambda view: Plan((first(view),), holds=holds))

    assert f"plan holds {holds.value} but has prompts" in prompts
    assert "or WHILE_ALONE if everybody decodes once they are computed" in prompts
    assert "only a plan with decode=ALL may hold longer than ONE_STEP" in one_of_two


def test_refused_plan_changes_nothing() -> None:
    """The view is as it was before the plan that is refused."""
    seen: list[tuple[int, int, int, int]] = []

    def choice(view: EngineView) -> Plan:
        seen.append((len(view.waiting), len(view.running), len(view.decoding), view.kv.free_blocks))
        views.append(view)
        return Plan(ALL, ((head(view), 21),), preempt=(first(view),))

    views: list[EngineView] = []
    refused(choice)

    view = views[0]
    after = (len(view.waiting), len(view.running), len(view.decoding), view.kv.free_blocks)
    assert seen == [after] == [(1, 2, 2, 96)]
