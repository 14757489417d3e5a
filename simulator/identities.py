"""What must hold in every run, whatever the policy: nothing appears, nothing vanishes.

`check_identities` compares what the engine wrote per request with what it wrote per step, in
whole numbers and without tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from . import timings
from .errors import SimulatorError
from .intervals import Stays, accepted, in_system, instants, or_end
from .result import NOT_YET, Ints, Result, State
from .statistics import exact_dot


class IdentityError(SimulatorError, AssertionError):
    """A run whose books do not balance: a bug in the engine or in a policy, never bad input."""


def check_identities(
    result: Result, *, users: int | None = None, step_token_limit: int | None = None
) -> None:
    """Raise unless the books of a run balance.

    users: of a closed loop, to check N = throughput x (E2E + think time). step_token_limit: the
    token budget that no step may exceed.

    Raises:
        IdentityError: the first identity that fails, with its numbers.
    """
    check_residency(result)
    check_gaps(result)
    check_counts(result)
    check_little(result)
    check_tokens(result)
    check_blocks(result)
    if step_token_limit is not None:
        tokens = result.steps.prefill_tokens + result.steps.decode_seqs
        _require_each("step", tokens <= step_token_limit, {"tokens": tokens})
    if users is not None:
        check_closed_loop(result, users)


def check_residency(result: Result) -> None:
    """E2E = queue + active + stalled + preempted, no part negative, and events in order."""
    log, evictions = result.requests, result.evictions
    rows = np.flatnonzero(log.state == State.FINISHED)
    parts = {
        "dispatch_ns": timings.dispatch_ns(result, rows),
        "queue_ns": timings.queue_ns(result, rows),
        "prefill_ns": timings.prefill_ns(result, rows),
        "decoding_ns": log.finish_ns[rows] - log.first_token_ns[rows],
        "active_ns": log.active_ns[rows],
        "preempted_ns": log.preempted_ns[rows],
        "stalled_ns": timings.stalled_ns(result, rows),
    }
    for name, part in parts.items():
        _require_each(f"finished request: {name} is below 0,", part >= 0, parts, rows)
    away_ns = or_end(evictions.resume_ns, result) - evictions.preempt_ns
    for name, column, per_eviction in (
        ("preempted_ns", log.preempted_ns, away_ns),
        ("lost_tokens", log.lost_tokens, evictions.lost_tokens),
        ("preemptions", log.preemptions, np.ones_like(evictions.row)),
    ):
        summed = np.zeros(len(column), dtype=np.int64)
        np.add.at(summed, evictions.row, per_eviction)
        same = summed == column
        _require_each(f"request: {name}", same, {"column": column, "evictions": summed})
    steps = result.steps
    starts_ns = steps.end_ns - steps.duration_ns
    followed = evictions.preempt_ns <= starts_ns.max(initial=NOT_YET)  # by a step, before the stop
    evicted = int(np.count_nonzero(followed))
    _require_equal("evictions before steps", exact_dot(steps.preempted), "logged", evicted)
    worked = sum(
        exact_dot(seqs, steps.duration_ns) for seqs in (steps.prefill_seqs, steps.decode_seqs)
    )
    _require_equal("active ns of requests", exact_dot(log.active_ns), "of steps", worked)


def check_gaps(result: Result) -> None:
    """One gap fewer than tokens for every finished request; E2E = TTFT + the sum of its gaps."""
    log, gaps = result.requests, result.gaps
    done = log.state == State.FINISHED
    emitted, asked = log.emitted_tokens[done], result.trace.output_tokens[done]
    columns = {"emitted": emitted, "asked": asked}
    _require_each("finished request: tokens", emitted == asked, columns, np.flatnonzero(done))
    _require_equal("gaps", exact_dot(gaps.count), "output tokens - 1", exact_dot(emitted - 1))
    decoding_ns = exact_dot(log.finish_ns[done] - log.first_token_ns[done])
    _require_equal("sum of gaps", exact_dot(gaps.gap_ns, gaps.count), "E2E - TTFT", decoding_ns)
    several = done & (log.emitted_tokens > 1)
    longest = log.worst_gap_ns[several].max(initial=0)
    _require_equal("longest gap", gaps.gap_ns.max(initial=0), "of a request", longest)


def check_counts(result: Result) -> None:
    """Every row ends in one state, and rows read = rows in the trace + dropped + filtered."""
    trace, log = result.trace, result.requests
    _require_equal("rows of the log", len(log.state), "rows of the trace", len(trace))
    known = np.isin(log.state, list(State))
    _require_each("request: unknown state,", known, {"state": log.state})
    read = len(trace) + sum(trace.dropped.values())
    if trace.rows_in is not None and trace.rows_in < read:
        raise IdentityError(f"{trace.rows_in} rows read, but {read} simulated or dropped")
    for state, column in ((State.FINISHED, log.finish_ns), (State.REJECTED, log.arrival_ns)):
        _require_each(
            f"{state.name.lower()} request: when,",
            (log.state != state) | (column != NOT_YET),
            {"ns": column},
        )
    rejected = np.array([reason is not None for reason in log.reason], dtype=np.bool_)
    agrees = rejected == (log.state == State.REJECTED)
    _require_each(
        "request: a reason but not rejected, or the reverse,", agrees, {"state": log.state}
    )


def check_little(result: Result) -> None:
    """Area under the number in system = sum of times in system, in the run and in parts of it."""
    if not bool(accepted(result).any()):
        return
    stays, rows, log = in_system(result), accepted(result), result.requests
    arrival_ns = log.arrival_ns[rows]
    left_ns = or_end(log.finish_ns[rows], result)
    first_ns, length_ns = int(arrival_ns.min()), result.end_ns - int(arrival_ns.min())
    for low, high in ((0, 6), (1, 3), (2, 5), (5, 6)):
        start_ns, end_ns = (first_ns + length_ns * part // 6 for part in (low, high))
        inside_ns = np.minimum(left_ns, end_ns) - np.maximum(arrival_ns, start_ns)
        times_ns = exact_dot(np.maximum(inside_ns, 0))
        area_ns = _area_ns(stays, start_ns, end_ns)
        where = f"times in system in [{start_ns}, {end_ns}) ns"
        _require_equal(where, times_ns, "area under the number in system", area_ns)


def check_tokens(result: Result) -> None:
    """Tokens computed and emitted by the steps are those of the requests, first time or again.

    A prompt token is computed a first time or found in the prefix cache. And, once drained, all
    that was put into the cache or found there left it: by a finish (prompt + output - 1 tokens) or
    by an eviction.
    """
    log, steps, prompts = result.requests, result.steps, result.trace.prompt_tokens
    done = log.state == State.FINISHED
    had, resumed = log.prefilled_tokens + log.cached_tokens, np.zeros(len(prompts), dtype=np.int64)
    np.add.at(resumed, result.evictions.row, result.evictions.cached_tokens)
    whole = {"computed or cached": had, "cached on resuming": resumed, "prompt": prompts}
    _require_each("finished request: prompt", ~done | (had + resumed >= prompts), whole)
    _require_each("request: prompt", had <= prompts, whole)
    computed = exact_dot(steps.prefill_tokens)
    asked = exact_dot(log.prefilled_tokens) + exact_dot(log.recomputed_tokens)
    _require_equal("prompt tokens of steps", computed, "first time and recomputed", asked)
    emitted = exact_dot(steps.emitted_tokens)
    _require_equal("tokens of steps", emitted, "of requests", exact_dot(log.emitted_tokens))
    if not bool(np.any(log.state == State.UNFINISHED)):
        left = exact_dot(prompts[done] + log.emitted_tokens[done] - 1)
        left += exact_dot(result.evictions.lost_tokens)
        stored = computed + exact_dot(steps.decode_seqs)
        stored += exact_dot(log.cached_tokens) + exact_dot(result.evictions.cached_tokens)
        _require_equal("tokens put into the cache", stored, "that left it", left)


def check_blocks(result: Result) -> None:
    """No step holds more blocks than there are, or takes no time; steps follow one another."""
    steps = result.steps
    used, duration_ns, end_ns = steps.used_blocks, steps.duration_ns, steps.end_ns
    fits = (used >= 0) & (used <= result.kv_blocks)
    _require_each(f"step: blocks of {result.kv_blocks},", fits, {"used": used})
    _require_each("step: duration", duration_ns > 0, {"ns": duration_ns})
    in_turn = end_ns[1:] - duration_ns[1:] >= end_ns[:-1]
    _require_each("step: overlaps the next,", in_turn, {"end_ns": end_ns[:-1]})


def check_closed_loop(result: Result, users: int) -> None:
    """N users are always N: N x time = time in system + time thinking, while rows are left.

    Every request after the first N follows the end of an earlier one by its think time, in the
    order of those ends.
    """
    log, rows, delay = result.requests, len(result.trace), result.client_delay
    arrived = log.state != State.NOT_ARRIVED
    ends_ns = np.where(log.state == State.REJECTED, log.arrival_ns, log.finish_ns)
    ends_ns = np.where(ends_ns == NOT_YET, ends_ns, ends_ns + delay.response_ns)
    ended = np.sort(ends_ns[arrived & (ends_ns != NOT_YET)])
    think_ns = np.zeros(rows, dtype=np.int64)
    if result.trace.think_ns is not None:
        think_ns[users:] = result.trace.think_ns[users:]
    sent_ns = log.arrival_ns - delay.inbound(result.trace.prompt_tokens)
    since_ns = sent_ns - think_ns
    followed = arrived[users:][: len(ended)]
    due = ended[: len(followed)]
    follows = ~followed | (since_ns[users : users + len(followed)] == due)
    columns = {"thinks_since_ns": since_ns[users : users + len(followed)], "ended_ns": due}
    _require_each("request of a user who never ended the last one,", follows, columns)
    alone = np.append(np.flatnonzero(~followed), len(followed))[0]
    until_ns = int(ended[alone]) if alone < len(ended) else result.end_ns
    first = arrived[:users]
    since_all_ns = int(sent_ns[:users].max()) if bool(first.all()) and rows else until_ns
    if rows >= users and until_ns > since_all_ns:
        present = Stays.of(since_ns[arrived], or_end(ends_ns[arrived], result))
        area_ns = present.area_ns(since_all_ns, until_ns)
        needed = users * (until_ns - since_all_ns)
        _require_equal(f"time of {users} users", needed, "in system or thinking", area_ns)


def _area_ns(stays: Stays, start_ns: int, end_ns: int) -> int:
    """The area by adding up levels between changes, unlike `Stays.area_ns`."""
    changes = instants(stays.enter_ns, stays.leave_ns)
    changes = changes[(changes > start_ns) & (changes < end_ns)]
    edges = np.concatenate(([start_ns], changes, [end_ns]))
    return exact_dot(stays.count_at(edges[:-1]), np.diff(edges))


def _require_equal(left_name: str, left: int, right_name: str, right: int) -> None:
    if left != right:
        raise IdentityError(f"{left_name}: {left}, {right_name}: {right}")


def _require_each(
    what: str,
    holds: NDArray[np.bool_],
    columns: Mapping[str, Ints | NDArray[np.int8]],
    rows: Ints | None = None,
) -> None:
    """`rows` names the rows of the columns; they are numbered from 0 if it is None."""
    if not bool(holds.all()):
        first = int(np.argmin(holds))
        numbers = ", ".join(f"{name} {int(column[first])}" for name, column in columns.items())
        number = first if rows is None else int(rows[first])
        raise IdentityError(f"{what} row {number}: {numbers}")
