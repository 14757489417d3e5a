"""Prefix caching: what is hit and what goes first. Blocks of 4 tokens."""

from __future__ import annotations

from collections.abc import Sequence as Rows

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from costmodels import ConstantCostModel
from simulator import ChunkedPrefillScheduler, EngineView, KVCache, Plan, Result, Trace, simulate
from simulator.decode_pool import DecodePool
from simulator.errors import ConfigError, InvalidPlanError, WorkloadError
from simulator.feed import SequenceMaker
from simulator.identities import IdentityError, check_identities
from simulator.metrics import summarize
from simulator.prefix_cache import PrefixCache
from simulator.prefix_keys import PrefixKeys
from simulator.resume_cache import ResumeCache
from simulator.schedulers import VllmScheduler
from simulator.sequence import Sequence
from simulator.step_log import TokenLog
from tests.simulator.facts import assert_same
from tests.simulator.shared_prefixes import (
    NamingPrefixCache,
    WatchedPrefixCache,
    prefix_caches,
    sharing_traces,
)
from tests.simulator.test_identities import changed
from tests.simulator.test_scheduler_conformance import WAYS, check_end
from tests.strategies import SCHEDULER_STRATEGIES, cost_models, loads, steady, traces

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=10)


def sharing(*prompts: int, prefix: int | Rows[int], outputs: int | Rows[int] = 4) -> Trace:
    """Requests that arrive together and begin with the same `prefix` tokens."""
    rows = len(prompts)
    return Trace(
        arrival_ns=np.zeros(rows, np.int64),
        prompt_tokens=np.array(prompts),
        output_tokens=np.full(rows, outputs) if isinstance(outputs, int) else np.array(outputs),
        prefix_group=("all",) * rows,
        prefix_tokens=np.full(rows, prefix) if isinstance(prefix, int) else np.array(prefix),
    )


class Desk:
    """A cache and the sequences of a trace, without an engine."""

    def __init__(self, trace: Trace, blocks: int) -> None:
        self.cache = PrefixCache(blocks, block_size=4).prepared(trace, 0)
        self.cache.watch(DecodePool(4, TokenLog(), track_longest=False))
        make = SequenceMaker(trace)
        self.sequences = [make(row, 0) for row in range(len(trace))]

    def hits(self, row: int) -> int:
        """Leading tokens of a request that are cached now."""
        return self.cache.cached_tokens(self.sequences[row])

    def compute(self, row: int) -> Sequence:
        """Admit a request and compute its whole prompt."""
        sequence = self.sequences[row]
        self.cache.admit(sequence)
        return self.extend(sequence)

    def extend(self, sequence: Sequence) -> Sequence:
        """Compute the rest of an admitted prompt."""
        self.cache.extend(sequence, sequence.prompt_tokens)
        sequence.computed_tokens = sequence.prompt_tokens
        return sequence

    def end(self, sequence: Sequence) -> None:
        """The request ends."""
        self.cache.release(sequence, sequence.computed_tokens, ended=True)


def test_full_blocks_of_a_common_prefix_are_hit_and_shared() -> None:
    """A prefix of 10 tokens has two full blocks; the third block differs."""
    desk = Desk(sharing(12, 12, prefix=10), blocks=8)
    assert (desk.hits(0), desk.hits(1)) == (0, 0)
    first = desk.compute(0)
    assert desk.hits(1) == 8
    assert desk.cache.blocks_to_admit(desk.sequences[1], 12) == 1
    second = desk.compute(1)
    assert second._held[0][0] is first._held[0][0]
    assert desk.cache.used_blocks == 4


def test_the_last_known_token_is_always_computed() -> None:
    desk = Desk(sharing(8, 8, prefix=8), blocks=8)
    desk.compute(0)
    assert desk.hits(1) == 4


def test_shared_blocks_are_freed_by_their_last_holder() -> None:
    desk = Desk(sharing(12, 12, prefix=8), blocks=8)
    first, second = desk.compute(0), desk.compute(1)
    assert desk.cache.freed_by([first], [3]) == 1
    assert desk.cache.freed_by([first, second], [3, 3]) == 4
    desk.end(first)
    assert desk.cache.used_blocks == 3
    desk.end(second)
    assert desk.cache.used_blocks == 0


def test_content_outlives_its_request_and_costs_a_free_block_when_hit() -> None:
    desk = Desk(sharing(12, 12, prefix=12), blocks=3)
    desk.end(desk.compute(0))
    assert (desk.cache.free_blocks, desk.hits(1)) == (3, 8)
    assert desk.cache.blocks_to_admit(desk.sequences[1], 12) == 3


def test_the_tail_of_a_prefix_goes_before_its_head() -> None:
    desk = Desk(sharing(16, 4, 17, prefix=[16, 0, 16]), blocks=4)
    desk.end(desk.compute(0))
    desk.compute(1)
    assert desk.hits(2) == 12


def test_blocks_without_content_go_first() -> None:
    """Of 4 blocks one was never used and one holds half a block of tokens: both go first."""
    desk = Desk(sharing(10, 8, 10, prefix=[8, 0, 8]), blocks=4)
    desk.end(desk.compute(0))
    desk.compute(1)
    assert desk.hits(2) == 8


def test_what_was_used_longest_ago_goes_first_and_a_hit_is_a_use() -> None:
    prefixes = ("a", "b", "a", "c", "a", "b")
    trace = Trace(
        arrival_ns=np.zeros(6, np.int64),
        prompt_tokens=np.full(6, 5),
        output_tokens=np.ones(6, np.int64),
        prefix_group=prefixes,
        prefix_tokens=np.full(6, 4),
    )
    desk = Desk(trace, blocks=4)
    for row in (0, 1, 2):  # a, b, then a again: b is the older one now
        desk.end(desk.compute(row))
    filler = desk.compute(3)  # two blocks without content are left for it
    assert (desk.hits(4), desk.hits(5)) == (4, 4)
    desk.cache.grow(1)
    assert (desk.hits(4), desk.hits(5)) == (4, 0)
    desk.end(filler)


def test_a_content_held_twice_is_found_until_both_are_gone() -> None:
    """Both were admitted before either was computed, so both computed the prefix."""
    desk = Desk(sharing(8, 8, 4, 4, 9, prefix=[8, 8, 0, 0, 8]), blocks=4)
    twins = desk.sequences[:2]
    for sequence in twins:
        desk.cache.admit(sequence)
    for sequence in twins:
        desk.extend(sequence)
    assert desk.cache.used_blocks == 4
    desk.end(twins[0])
    desk.compute(2), desk.compute(3)  # the first one's blocks are reused
    assert desk.hits(4) == 8
    desk.end(twins[1])
    desk.cache.grow(2)
    assert desk.hits(4) == 0


def test_keys_of_ended_requests_are_given_out_again() -> None:
    desk = Desk(sharing(*[40] * 50, prefix=8), blocks=100)
    for row in range(50):
        desk.end(desk.compute(row))
    assert desk.cache.keys.used < 40


def test_what_is_computed_after_somebody_asked_is_found_when_he_asks_again() -> None:
    desk = Desk(sharing(12, 12, prefix=8), blocks=8)
    desk.cache.admit(desk.sequences[0])
    assert desk.hits(1) == 0
    desk.extend(desk.sequences[0])
    assert desk.hits(1) == 8


def test_what_a_request_has_of_its_own_never_goes_on_with_what_another_has() -> None:
    """Whatever their lengths: ranges that touch would be taken for one prompt."""
    rows = 40
    keys = PrefixKeys(sharing(*[4 * (row + 1) for row in range(rows)], prefix=4), block_size=4)
    for row in range(rows):
        keys.complete(row)
    ranges = [
        (first, first + stop - start)
        for row in range(rows)
        for first, start, stop in zip(
            keys.of(row).firsts, (0, *keys.of(row).stops), keys.of(row).stops, strict=False
        )
    ]
    assert len({first for first, _ in ranges} & {end for _, end in ranges}) == 0


def test_a_late_turn_of_a_long_conversation_may_be_the_first_that_is_asked_for() -> None:
    turns = 5000
    trace = Trace(
        arrival_ns=np.zeros(turns, np.int64),
        prompt_tokens=np.arange(1, turns + 1) * 4,
        output_tokens=np.ones(turns, np.int64),
        ids=tuple(map(str, range(turns))),
        parent=(None, *map(str, range(turns - 1))),
    )
    keys = PrefixKeys(trace, block_size=4)
    assert len(keys.of(turns - 1)) == turns - 1


def test_keys_of_a_conversation_are_given_back_though_its_last_turn_is_rejected() -> None:
    """Fifty conversations, of which the second turn is too long."""
    rows = 100
    trace = Trace(
        arrival_ns=np.arange(rows) * 10**9,
        prompt_tokens=np.array((8, 400) * (rows // 2)),
        output_tokens=np.full(rows, 8),
        ids=tuple(map(str, range(rows))),
        parent=tuple(str(row - 1) if row % 2 else None for row in range(rows)),
    )
    kv = WatchedPrefixCache(64, block_size=4)
    simulate(trace, VllmScheduler(64, 4), PRICES, kv, sessions=False, max_model_len=100)
    assert isinstance(kv.last, PrefixCache)
    assert kv.last.keys.used < 20


def test_turns_that_lead_back_to_themselves_are_refused() -> None:
    trace = sharing(20, 20, prefix=0).changed("", ids=("a", "b"), parent=("b", "a"))
    with pytest.raises(WorkloadError, match="request 'a': the turns before it lead back"):
        served(trace, blocks=64, sessions=False)


def test_block_sizes_that_do_not_divide_the_hash_blocks_are_refused() -> None:
    trace = sharing(24, prefix=0).changed("", block_hashes=((1, 2),), hash_block_tokens=12)
    with pytest.raises(ConfigError, match="block_size 8 and the trace's 12-token hash blocks"):
        PrefixCache(8, block_size=8).prepared(trace, 0)


def served(trace: Trace, blocks: int, **options: object) -> Result:
    """The trace under vLLM's scheduler, at most 64 tokens a step; books checked."""
    cache = PrefixCache(blocks, block_size=4)
    result = simulate(trace, VllmScheduler(64, 4), PRICES, cache, **options)
    check_identities(result)
    return result


def test_a_prefix_is_hit_in_the_step_that_computes_it() -> None:
    """The second prompt computes 4 of its 12 tokens, in the first one's step."""
    result = served(sharing(12, 12, prefix=8), blocks=16)
    assert result.steps.prefill_tokens[0] == 12 + 4
    assert result.requests.cached_tokens.tolist() == [0, 8]
    assert result.requests.prefilled_tokens.tolist() == [12, 4]


def test_a_resumed_request_finds_its_own_blocks() -> None:
    """Two requests of 8 + 8 tokens in 6 blocks; with 12 tokens each both need a fourth.

    The second one loses 12 tokens, the first one takes the block of the last 4, and when it is
    done the second finds the other 8.
    """
    result = served(sharing(8, 8, prefix=0, outputs=8), blocks=6)
    assert result.evictions.lost_tokens.tolist() == [12]
    assert result.evictions.cached_tokens.tolist() == [8]
    assert result.requests.recomputed_tokens.tolist() == [0, 13 - 8]
    summary = summarize(result)
    assert (summary["cached_prompt_tokens"], summary["prefix_hit_rate"]) == (0, 0.0)
    assert (summary["lost_tokens_total"], summary["recovered_tokens_total"]) == (12, 8)
    processed = 16 + 14 - 1 + 5  # the token after the eviction comes from a prefill
    assert summary["recompute_tax"] == pytest.approx((12 - 8) / processed)


def test_a_later_turn_starts_with_the_earlier_prompt_and_answer() -> None:
    """8 + 8 tokens, of which the last is never stored: 3 full blocks; then 20 more tokens."""
    trace = Trace(
        arrival_ns=np.array([0, 10**9]),
        prompt_tokens=np.array([8, 36]),
        output_tokens=np.array([8, 2]),
        ids=("hello", "again"),
        parent=(None, "hello"),
    )
    result = served(trace, blocks=16, sessions=False)
    assert result.requests.cached_tokens.tolist() == [0, 12]


class Careless:
    """Admits everybody at once, as without prefix caching."""

    def plan(self, view: EngineView) -> Plan:
        """All prompts, whole."""
        return Plan(prefill=tuple((s, s.known_tokens) for s in view.waiting))


def test_a_policy_that_admits_two_at_once_is_told_why_it_must_not() -> None:
    with pytest.raises(InvalidPlanError, match=r"beside other work.*Plan\.more"):
        simulate(sharing(12, 12, prefix=8), Careless(), PRICES, PrefixCache(16, block_size=4))


def busy_trace(seed: int) -> Trace:
    """Sixty requests of three groups, each second one a later turn of an earlier one."""
    rng = np.random.default_rng(seed)
    rows = 60
    prompts, outputs = rng.integers(10, 60, rows), rng.integers(1, 30, rows)
    parents: list[str | None] = [None] * rows
    for row in range(3, rows, 2):
        parents[row] = str(row - 3)
        prompts[row] = prompts[row - 3] + outputs[row - 3] + rng.integers(1, 12)
    return Trace(
        arrival_ns=np.sort(rng.integers(0, 10**9, rows)),
        prompt_tokens=prompts,
        output_tokens=outputs,
        ids=tuple(map(str, range(rows))),
        parent=tuple(parents),
        prefix_group=tuple("abc"[group] for group in rng.integers(0, 3, rows)),
        prefix_tokens=np.full(rows, 20),
    )


@pytest.mark.parametrize("ahead", [False, True])
def test_books_balance_with_hits_and_preemptions(ahead: bool) -> None:
    result = served(busy_trace(1), blocks=48, sessions=False, async_scheduling=ahead)
    log = result.requests
    assert len(result.evictions.row) > 3
    assert result.evictions.recovered_tokens.sum() > 0
    assert log.cached_tokens.sum() > 300
    first = int(np.flatnonzero(log.cached_tokens)[0])
    for column in ("cached_tokens", "prefilled_tokens"):
        with pytest.raises(IdentityError):
            check_identities(changed(result, "requests", column, first, 1))
    resumed = int(np.flatnonzero(result.evictions.cached_tokens)[0])
    with pytest.raises(IdentityError, match="put into the cache"):
        check_identities(changed(result, "evictions", "cached_tokens", resumed, 1))


@steady(60)
@given(data=st.data())
def test_without_anything_shared_or_preempted_it_is_a_counted_cache(data: st.DataObject) -> None:
    trace = data.draw(traces())
    blocks, block_size = data.draw(st.integers(20, 200)), data.draw(st.sampled_from([1, 4, 16]))
    options = {"async_scheduling": data.draw(st.booleans())}
    policies = data.draw(st.sampled_from([VllmScheduler, ChunkedPrefillScheduler]))
    counted = simulate(trace, policies(32, 4), PRICES, KVCache(blocks, block_size), **options)
    assume(not len(counted.evictions.row))
    cache = PrefixCache(blocks, block_size)
    assert_same(counted, simulate(trace, policies(32, 4), PRICES, cache, **options))


@pytest.mark.parametrize("policy", SCHEDULER_STRATEGIES)
@steady(60)
@given(data=st.data())
def test_where_nobody_begins_alike_counting_finds_what_names_would(
    policy: str, data: st.DataObject
) -> None:
    """Tight memory: preempted sequences come back for what is left of theirs."""
    trace = data.draw(traces())
    kv = data.draw(prefix_caches(trace))
    options = {"async_scheduling": data.draw(st.booleans())}
    new_scheduler = data.draw(SCHEDULER_STRATEGIES[policy])
    counted = simulate(trace, new_scheduler(), PRICES, kv, **options)
    assert isinstance(kv.last, ResumeCache)
    naming = NamingPrefixCache(kv.blocks, kv.block_size, kv.watermark)
    assert_same(counted, simulate(trace, new_scheduler(), PRICES, naming, **options))


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
    if isinstance(kv.last, PrefixCache) and "stop_ns" not in load:
        assert not kv.last.keys._streams, "everybody has left"
        assert not kv.last.keys._own
    limit = getattr(new_scheduler(), "step_token_limit", None)
    check_identities(result, users=load.get("users"), step_token_limit=limit)
    for way in WAYS:
        again = simulate(trace, new_scheduler(), cost_model, kv, **load, **way)
        assert_same(result, again)
        check_end(again, kv, stopped="stop_ns" in load)
