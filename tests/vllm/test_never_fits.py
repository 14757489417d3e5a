"""A request that can never fit, in the way for ever as in vLLM. Cache of 4 blocks x 16 tokens."""

from __future__ import annotations

from typing import Any

import pytest

from costmodels import ConstantCostModel
from simulator import (
    SCHEDULERS,
    ConfigError,
    KVCache,
    Plan,
    Result,
    SchedulerStalledError,
    State,
    simulate,
)
from simulator.metrics import summarize
from simulator.schedulers import VllmScheduler
from tests.timeline import asked, ms

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
FINISHED, UNFINISHED = State.FINISHED, State.UNFINISHED


def run(*rows: tuple[float, int, int], scheduler: Any = None, **options: Any) -> Result:
    cache = KVCache(4, block_size=16)
    return simulate(asked(*rows), scheduler or VllmScheduler(), PRICES, cache, **options)


@pytest.mark.parametrize("async_scheduling", [False, True])
@pytest.mark.parametrize(
    "policy", sorted(SCHEDULERS.keys() - {"sjf"})
)  # where shorter ones overtake
def test_it_blocks_all_behind_it(policy: str, async_scheduling: bool) -> None:
    """62 + 3 tokens fit: the last one is never stored. 100 do not; 10 behind them would."""
    result = run(
        (0, 62, 3),
        (1, 100, 3),
        (2, 10, 3),
        scheduler=SCHEDULERS[policy](),
        never_fits="wait",
        async_scheduling=async_scheduling,
    )
    assert result.requests.state.tolist() == [FINISHED, UNFINISHED, UNFINISHED]
    assert result.requests.reason == (None, None, None)
    assert result.end_ns == result.requests.finish_ns[0]
    assert ms(result.requests.finish_ns)[0] == 14


def test_it_blocks_those_who_come_later() -> None:
    result = run((0, 100, 3), (500, 10, 3), never_fits="wait")
    assert result.requests.state.tolist() == [UNFINISHED, UNFINISHED]
    assert summarize(result)["unfinished"] == 2


def test_one_that_outgrows_the_cache_preempts_itself_and_never_returns() -> None:
    """20 + 50 tokens: the 64 that fit are computed; with one more to come it makes way."""
    result = run((0, 20, 50), (1, 10, 3), never_fits="wait")
    assert result.requests.state.tolist() == [UNFINISHED, FINISHED]
    assert result.requests.preemptions.tolist() == [1, 0]
    assert result.requests.emitted_tokens.tolist() == [45, 3]


def test_a_request_beyond_the_model_length_is_rejected_all_the_same() -> None:
    result = run((0, 100, 3), (1, 10, 3), never_fits="wait", max_model_len=64)
    assert result.requests.reason == ("exceeds_model_len", None)
    assert result.requests.state.tolist() == [State.REJECTED, FINISHED]


def test_without_reserving_it_needs_an_end() -> None:
    thrashing = VllmScheduler(8, 4, scheduler_reserve_full_isl=False)
    with pytest.raises(ConfigError, match="start again for ever, as in vLLM: give stop_ns"):
        run((0, 20, 50), scheduler=thrashing, never_fits="wait")
    result = run((0, 20, 50), scheduler=thrashing, never_fits="wait", stop_ns=10**9)
    assert result.requests.state.tolist() == [UNFINISHED]
    assert result.requests.preemptions[0] > 1


def test_other_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="never_fits is 'waits', must be reject or wait"):
        run((0, 10, 3), never_fits="waits")


def test_a_policy_that_plans_nothing_is_still_found_out() -> None:
    class Idle:
        def plan(self, view: Any) -> Plan:
            return Plan()

    with pytest.raises(SchedulerStalledError):
        run((0, 10, 3), scheduler=Idle(), never_fits="wait")
