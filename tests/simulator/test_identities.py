"""Books that balance pass; one wrong cell anywhere does not."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from costmodels import ConstantCostModel
from simulator import SCHEDULERS, KVCache, StaticScheduler, Trace, simulate
from simulator.identities import IdentityError, check_closed_loop, check_identities
from simulator.result import Result
from tests.simulator.results import Asked, Evicted, Step, result_of
from tests.simulator.single_server import one_at_a_time

MS = 1_000_000


def busy_run() -> Result:
    """Two requests, one preempted and recomputed, one rejected, and gaps of three lengths."""
    requests = [Asked(0, 40, 4), Asked(5, 20, 2), Asked(6, 9999, 1, reason="exceeds_kv_capacity")]
    steps = [
        Step(0, 20, {0: 40}, blocks=3),
        Step(20, 30, {1: 20}, decode=(0,), blocks=5),
        Step(30, 40, decode=(1,), blocks=2),
        Step(45, 70, {0: 42}, blocks=3),
        Step(70, 80, decode=(0,), blocks=3),
    ]
    return result_of(requests, steps, [Evicted(0, 30, 45, 41)])


def users_thinking() -> Result:
    """Two users, 3 requests of 10 ms each, then 5 ms of thought; served side by side."""
    requests, steps = [], []
    for turn in range(3):
        start = 15 * turn
        requests += [Asked(start, 8, 1), Asked(start, 8, 1)]
        steps += [Step(start, start + 10, {2 * turn: 8, 2 * turn + 1: 8})]
    return result_of(requests, steps, think_ns=np.full(6, 5 * MS))


def changed(result: Result, part: str, column: str, row: int, by: int) -> Result:
    """The result with one cell of one column changed."""
    log = getattr(result, part)
    values = getattr(log, column).copy()
    values[row] += by
    return replace(result, **{part: replace(log, **{column: values})})


def random_trace(seed: int) -> Trace:
    rng = np.random.default_rng(seed)
    return Trace(
        arrival_ns=np.sort(rng.integers(0, 2_000 * MS, 40)),
        prompt_tokens=rng.integers(1, 300, 40),
        output_tokens=rng.integers(1, 40, 40),
        think_ns=rng.integers(0, 100 * MS, 40),
    )


def test_balanced_books_pass() -> None:
    check_identities(busy_run(), step_token_limit=42)
    check_identities(users_thinking(), users=2)
    check_identities(one_at_a_time(np.arange(1000) * 8 * MS, np.full(1000, 10 * MS)), users=None)


@pytest.mark.parametrize(
    ("part", "column", "row", "by", "complaint"),
    [
        ("requests", "active_ns", 0, -1, "active ns of requests"),
        ("requests", "active_ns", 0, 60 * MS, "stalled_ns is below 0"),
        ("requests", "first_start_ns", 1, -30 * MS, "queue_ns is below 0"),
        ("requests", "preempted_ns", 0, -1, "preempted_ns"),
        ("requests", "lost_tokens", 0, 1, "lost_tokens"),
        ("requests", "preemptions", 1, 1, "preemptions"),
        ("requests", "finish_ns", 0, 1, "sum of gaps"),
        ("requests", "emitted_tokens", 1, 1, "tokens"),
        ("requests", "prefilled_tokens", 1, -1, "prompt"),
        ("requests", "recomputed_tokens", 0, 1, "first time and recomputed"),
        ("requests", "worst_gap_ns", 0, 1, "longest gap"),
        ("requests", "state", 1, 2, "finished request|gaps|prompt|tokens"),
        ("requests", "state", 2, 1, "reason"),
        ("gaps", "count", 0, 1, "gaps"),
        ("gaps", "gap_ns", 1, 1, "sum of gaps"),
        ("evictions", "lost_tokens", 0, 1, "lost_tokens"),
        ("evictions", "resume_ns", 0, 1, "preempted_ns"),
        ("steps", "preempted", 0, 1, "evictions before steps"),
        ("steps", "prefill_tokens", 3, 1, "prompt tokens of steps"),
        ("steps", "decode_seqs", 2, 1, "active ns of requests"),
        ("steps", "emitted_tokens", 2, 1, "tokens of steps"),
        ("steps", "used_blocks", 1, 60, "blocks of 64"),
        ("steps", "used_blocks", 1, -6, "blocks of 64"),
        ("steps", "duration_ns", 2, 1, "active ns of requests|overlaps"),
        ("steps", "end_ns", 1, 1, "overlaps"),
    ],
)
def test_one_wrong_cell_is_found(part: str, column: str, row: int, by: int, complaint: str) -> None:
    with pytest.raises(IdentityError, match=complaint):
        check_identities(changed(busy_run(), part, column, row, by))


def test_the_message_names_the_request_and_its_numbers() -> None:
    wrong = changed(busy_run(), "requests", "active_ns", 0, 60 * MS)
    with pytest.raises(IdentityError, match=r"row 0: .*queue_ns 0, .*preempted_ns 15000000"):
        check_identities(wrong)


def test_a_step_over_the_budget_is_found() -> None:
    with pytest.raises(IdentityError, match="row 3: tokens 42"):
        check_identities(busy_run(), step_token_limit=41)


def test_rows_may_be_filtered_but_not_appear() -> None:
    result = busy_run()
    check_identities(replace(result, trace=replace(result.trace, rows_in=9)))
    with pytest.raises(IdentityError, match="2 rows read, but 3"):
        check_identities(replace(result, trace=replace(result.trace, rows_in=2)))


def test_users_are_always_in_the_system_or_thinking() -> None:
    """Two users over [0, 40): 6 x 10 ms in the system and 4 x 5 ms of thought are 2 x 40 ms."""
    result = users_thinking()
    check_closed_loop(result, 2)
    with pytest.raises(IdentityError, match="user"):
        check_closed_loop(result, 1)
    with pytest.raises(IdentityError, match="user"):
        check_closed_loop(result, 3)
    with pytest.raises(IdentityError, match="never ended the last one"):
        check_closed_loop(changed(result, "requests", "arrival_ns", 3, 1), 2)


def test_a_user_that_vanishes_is_found() -> None:
    """Both first requests end at 10, but only one is followed until 25."""
    requests = [Asked(0, 8, 1), Asked(0, 8, 1), Asked(10, 8, 1), Asked(25, 8, 1)]
    steps = [Step(0, 10, {0: 8, 1: 8}), Step(10, 20, {2: 8}), Step(25, 35, {3: 8})]
    with pytest.raises(IdentityError, match="user"):
        check_closed_loop(result_of(requests, steps), 2)


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("kv_blocks", [22, 400])
@pytest.mark.parametrize(
    "options",
    [{}, {"stop_ns": 1_000 * MS}, {"users": 5}, {"users": 5, "stop_ns": 1_000 * MS}],
    ids=["open", "stopped", "closed", "closed-stopped"],
)
def test_every_scheduler_balances_its_books(
    name: str, kv_blocks: int, options: dict[str, int]
) -> None:
    prices, cache = ConstantCostModel(prefill_ms=30, decode_ms=8), KVCache(kv_blocks)
    for seed in range(3):
        served = simulate(random_trace(seed), SCHEDULERS[name](), prices, cache, **options)
        check_identities(served, users=options.get("users"))


@pytest.mark.parametrize("deliver", ["stream", "batch_end"])
def test_static_batches_balance_however_they_deliver(
    deliver: Literal["stream", "batch_end"],
) -> None:
    scheduler = StaticScheduler(4, deliver=deliver)
    prices = ConstantCostModel(prefill_ms=30, decode_ms=8)
    check_identities(simulate(random_trace(7), scheduler, prices, KVCache(400)))
