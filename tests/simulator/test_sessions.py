"""Sessions: a turn follows the answer to the one before it. Times in ms, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import ConstantCostModel
from simulator import (
    ChunkedPrefillScheduler,
    ConfigError,
    ContinuousScheduler,
    CostModel,
    KVCache,
    State,
    Trace,
    WorkloadError,
    simulate,
)
from simulator.identities import check_identities
from simulator.prefix_cache import PrefixCache
from simulator.schedulers import VllmScheduler
from simulator.units import NS_PER_MS
from tests.simulator.facts import assert_same
from tests.simulator.policies import ShortestPromptAlone
from tests.strategies import (
    SCHEDULER_STRATEGIES,
    WatchedKVCache,
    cost_models,
    kv_caches,
    steady,
    traces,
)
from tests.timeline import asked, ms
from workloads import generate_sessions

TEN = ConstantCostModel(prefill_ms=10, decode_ms=10)
LESSON = ConstantCostModel(prefill_ms=80, decode_ms=8)
ROOMY = KVCache(1000)


def conversation(
    *rows: tuple[float, int, int], parent: tuple[str | None, ...], think_ms: list[float]
) -> Trace:
    """Rows named by their number."""
    think_ns = np.array([round(pause * NS_PER_MS) for pause in think_ms], np.int64)
    return asked(*rows, parent=parent, think_ns=think_ns)


def test_turn_comes_its_think_time_after_the_turn_before_it_finished() -> None:
    """Turn 1: prompt 0-80, tokens at 80, 88, 96. Thinks 1,000: turn 2 at 1,096, done at 1,176 + 8.
    Thinks 0.5: turn 3 at 1,184.5, one token at 1,264.5. Their own arrivals of 0 mean nothing."""
    trace = conversation(
        (0, 100, 3), (0, 110, 2), (0, 120, 1), parent=(None, "0", "1"), think_ms=[0, 1000, 0.5]
    )

    result = simulate(trace, ChunkedPrefillScheduler(), LESSON, ROOMY)

    assert ms(result.requests.arrival_ns) == [0, 1096, 1184.5]
    assert ms(result.requests.scheduled_ns) == [0, 1096, 1184.5]
    assert ms(result.requests.finish_ns) == [96, 1184, 1264.5]
    check_identities(result)


def test_turn_without_a_pause_is_there_for_the_step_after_the_answer() -> None:
    """One seat. A answers at 10, its next turn comes at 10 and goes before C, which came at 10 in a
    later row; B came at 4 and goes first: 10-20, 20-30, 30-40."""
    trace = conversation(
        (0, 5, 1),
        (0, 9, 1),
        (4, 5, 1),
        (10, 5, 1),
        parent=(None, "0", None, None),
        think_ms=[0] * 4,
    )

    result = simulate(trace, ContinuousScheduler(2048, 1), TEN, ROOMY)

    assert ms(result.requests.arrival_ns) == [0, 10, 4, 10]
    assert ms(result.requests.finish_ns) == [10, 30, 20, 40]


def test_one_answer_may_be_followed_by_several_turns() -> None:
    """Answer at 10; two tools come back after 3 and 5. The second waits for the first: 13-23-33."""
    trace = conversation(
        (0, 5, 1), (0, 8, 1), (0, 9, 1), parent=(None, "0", "0"), think_ms=[0, 5, 3]
    )

    result = simulate(trace, ContinuousScheduler(2048, 1), TEN, ROOMY)

    assert ms(result.requests.arrival_ns) == [0, 15, 13]
    assert ms(result.requests.finish_ns) == [10, 33, 23]


def test_client_of_a_rejected_turn_goes_on_without_the_answer() -> None:
    """500 tokens never fit 4 blocks of 16: rejected at 2 and at 2 + 3; the third comes at 5 + 4."""
    trace = conversation(
        (2, 500, 1), (2, 500, 1), (2, 5, 1), parent=(None, "0", "1"), think_ms=[0, 3, 4]
    )

    result = simulate(trace, ContinuousScheduler(2048, 1), TEN, KVCache(4))

    assert ms(result.requests.arrival_ns) == [2, 5, 9]
    assert result.requests.state.tolist() == [State.REJECTED, State.REJECTED, State.FINISHED]
    assert ms(result.requests.finish_ns) == [None, None, 19]


def test_turns_whose_answer_did_not_come_in_time_have_not_arrived() -> None:
    """The run stops at 25. Turn 1 ends at 20, turn 2 comes at 22 and is cut; turn 3 never came."""
    trace = conversation(
        (0, 5, 2), (0, 9, 2), (0, 12, 2), parent=(None, "0", "1"), think_ms=[0, 2, 2]
    )

    result = simulate(trace, ContinuousScheduler(2048, 1), TEN, ROOMY, stop_ns=25 * NS_PER_MS)

    states = [State.FINISHED, State.UNFINISHED, State.NOT_ARRIVED]
    assert result.requests.state.tolist() == states


def test_turn_of_a_parent_that_is_not_in_the_trace_arrives_by_itself() -> None:
    trace = conversation((3, 5, 1), (7, 9, 1), parent=("gone", "0"), think_ms=[50, 2])

    result = simulate(trace, ContinuousScheduler(2048, 1), TEN, ROOMY)

    assert ms(result.requests.arrival_ns) == [3, 15]


def test_replay_at_recorded_arrivals_is_there_for_the_asking() -> None:
    """sessions=False: both at their own arrivals, answered or not."""
    trace = conversation((0, 5, 3), (4, 9, 1), parent=(None, "0"), think_ms=[0, 50])

    result = simulate(trace, ContinuousScheduler(), TEN, ROOMY, sessions=False)

    assert ms(result.requests.arrival_ns) == [0, 4]
    recorded = replace(trace, think_ns=None)
    assert_same(result, simulate(recorded, ContinuousScheduler(), TEN, ROOMY))


def test_what_contradicts_sessions_is_refused() -> None:
    trace = conversation((0, 5, 3), (4, 9, 1), parent=(None, "0"), think_ms=[0, 50])

    with pytest.raises(ConfigError, match=r"users 2: .*drop users, or replay it with sessions=Fal"):
        simulate(trace, ContinuousScheduler(), TEN, ROOMY, users=2)
    with pytest.raises(ConfigError, match="max_concurrency 2: "):
        simulate(trace, ContinuousScheduler(), TEN, ROOMY, max_concurrency=2)
    with pytest.raises(ConfigError, match="sessions need the trace column think_ns"):
        simulate(replace(trace, think_ns=None), ContinuousScheduler(), TEN, ROOMY, sessions=True)
    circle = replace(trace, parent=("1", "0"))
    with pytest.raises(WorkloadError, match="request '0': the turns before it lead back to itself"):
        simulate(circle, ContinuousScheduler(), TEN, ROOMY)


def test_rejections_in_the_middle_of_a_leap_release_the_next_turn_then() -> None:
    """A runs 0-100 alone. B, at 13, is rejected; its next turn, at 13 + 4, too; the next comes at
    17 + 6 and waits for A: 100-110."""
    trace = conversation(
        *((0, 5, 10), (13, 500, 1), (13, 500, 1), (13, 5, 1)),
        parent=(None, None, "1", "2"),
        think_ms=[0, 0, 4, 6],
    )

    result = simulate(trace, ShortestPromptAlone(), TEN, KVCache(4))

    assert ms(result.requests.arrival_ns) == [0, 13, 17, 23]
    assert ms(result.requests.finish_ns) == [100, None, None, 110]


@pytest.mark.parametrize(("output", "computed"), [(8, 23), (9, 8)])
@pytest.mark.parametrize("ahead", [False, True])
def test_next_turn_hits_the_blocks_that_the_answer_filled(
    output: int, computed: int, ahead: bool
) -> None:
    """Blocks of 16, turn 1 of 40 tokens. The last token of an answer is never computed, so with 9
    tokens of answer 48 tokens are, 3 full blocks: of the 40 + 9 + 7 of turn 2, 8 are left. With 8,
    47 are, 2 full blocks: of 40 + 8 + 7, 23 are left."""
    trace = generate_sessions(
        sessions=1, rate=1, turns=2, first_prompt=40, new_text=7, output=output, think_time_s=1
    )
    kv = PrefixCache(100, 16)

    result = simulate(trace, VllmScheduler(2048, 8), TEN, kv, async_scheduling=ahead)

    prefills = result.steps.prefill_tokens
    assert prefills[prefills > 0].tolist() == [40, computed]


def test_sessions_share_the_system_prompt_and_nothing_else() -> None:
    """System prompt of 40, 10 more each: session 2 hits its 2 full blocks of 16 and computes 18."""
    trace = generate_sessions(
        sessions=2,
        rate=1,
        arrival="constant",
        turns=1,
        first_prompt=10,
        new_text=1,
        output=30,
        system_prompt_tokens=40,
    )

    result = simulate(trace, VllmScheduler(2048, 8), TEN, PrefixCache(100, 16))

    prefills = result.steps.prefill_tokens
    assert prefills[prefills > 0].tolist() == [50, 18]


@st.composite
def conversations(draw: st.DrawFn) -> Trace:
    """Any trace whose rows follow an earlier one now and then, some with a system prompt."""
    trace = draw(traces())
    links = [draw(st.one_of(st.none(), st.integers(0, row))) for row in range(len(trace))]
    parent = tuple(
        None if link is None or link == row else str(link) for row, link in enumerate(links)
    )
    tokens = draw(st.lists(st.integers(0, 20), min_size=len(trace), max_size=len(trace)))
    group = ("system prompt",) * len(trace)
    return replace(
        trace, parent=parent, prefix_group=group, prefix_tokens=np.array(tokens, np.int64)
    )


WAYS: tuple[dict[str, object], ...] = (
    {"leap": False},
    {"leap": 2},
    {"leap": 50},
    {"slow_path": True},
    {"check_promises": True},
)


@pytest.mark.parametrize("policy", SCHEDULER_STRATEGIES)
@steady(40)
@given(data=st.data())
def test_leaps_steps_and_the_slow_path_agree_on_sessions(policy: str, data: st.DataObject) -> None:
    trace: Trace = data.draw(conversations())
    kv: WatchedKVCache = data.draw(kv_caches(trace))
    cost_model: CostModel = data.draw(cost_models())
    new_scheduler = data.draw(SCHEDULER_STRATEGIES[policy])
    load = {"async_scheduling": data.draw(st.booleans())}
    if data.draw(st.integers(0, 3)) == 0:
        load["stop_ns"] = data.draw(st.integers(1, 150)) * NS_PER_MS

    result = simulate(trace, new_scheduler(), cost_model, kv, **load)

    check_identities(result)
    check_pauses(result.requests, trace)
    for way in WAYS:
        assert_same(result, simulate(trace, new_scheduler(), cost_model, kv, **load, **way))


def check_pauses(log, trace: Trace) -> None:
    """Every turn that arrived came its pause after its parent ended, all others at their time."""
    for row, parent in enumerate(trace.parent):
        if log.state[row] == State.NOT_ARRIVED:
            continue
        if parent is None:
            assert log.arrival_ns[row] == trace.arrival_ns[row]
            continue
        earlier = int(parent)
        rejected = log.state[earlier] == State.REJECTED
        ended_ns = log.arrival_ns[earlier] if rejected else log.finish_ns[earlier]
        assert log.arrival_ns[row] == ended_ns + trace.think_ns[row]


@steady(40)
@given(data=st.data())
def test_leaps_and_steps_agree_on_sessions_with_prefix_caching(data: st.DataObject) -> None:
    trace: Trace = data.draw(conversations())
    longest = int((trace.prompt_tokens + trace.output_tokens).max())
    size = data.draw(st.sampled_from([1, 4, 16]))
    blocks = -(-longest // size)
    kv = PrefixCache(data.draw(st.integers(max(1, blocks - 2), 3 * blocks)), size)
    new_scheduler = data.draw(SCHEDULER_STRATEGIES["vllm"])
    load = {"async_scheduling": data.draw(st.booleans())}

    result = simulate(trace, new_scheduler(), TEN, kv, **load)

    check_pauses(result.requests, trace)
    for way in WAYS:
        assert_same(result, simulate(trace, new_scheduler(), TEN, kv, **load, **way))
