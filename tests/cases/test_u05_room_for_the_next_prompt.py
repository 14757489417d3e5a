"""U05: room left in a step goes to the next prompt. A: 4 tokens, B: 8, budget 8, 1 ms a token."""

from __future__ import annotations

from simulator import NONE, ChunkedPrefillScheduler, EngineView, KVCache, Plan, simulate
from tests.timeline import PerItem, asked, ms

TRACE = asked((0, 4, 1), (0, 8, 1))


def test_second_prompt_shares_the_step_of_the_first() -> None:
    """Step 1: A's 4 and 4 of B's, 8 ms; step 2: the rest, 4 ms."""
    result = simulate(TRACE, ChunkedPrefillScheduler(8, 8), PerItem(), KVCache(10))

    assert result.steps.prefill_tokens.tolist() == [8, 4]
    assert ms(result.requests.first_token_ns) == [8, 12]


def test_one_prompt_per_step_is_another_policy_with_another_name() -> None:
    """A alone takes 4, then B 8."""

    class OnePromptPerStep:
        def plan(self, view: EngineView) -> Plan:
            head = next(iter(view.waiting))
            return Plan(NONE, ((head, head.remaining_tokens),))

    result = simulate(TRACE, OnePromptPerStep(), PerItem(), KVCache(10))

    assert result.scheduler == "OnePromptPerStep"
    assert ms(result.requests.first_token_ns) == [4, 12]
