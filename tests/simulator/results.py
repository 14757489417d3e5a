"""Hand-made results: say what each step did, in ms, and the columns follow."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.result import (
    NOT_YET,
    Evictions,
    Gaps,
    Pieces,
    RequestLog,
    Result,
    State,
    StepLog,
)
from simulator.trace import Trace
from simulator.units import ms_to_ns

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """A request; `held_ms` is how long a client-side cap held it back; `reason`: rejected.

    cached: prompt tokens that it finds in the prefix cache when it is first admitted.
    """

    arrival_ms: float
    prompt: int
    output: int
    client: str | None = None
    held_ms: float = 0.0
    reason: str | None = None
    cached: int = 0


@dataclass(frozen=True)
class Step:
    """One step: prompt tokens per row, rows that decode, blocks in use, rows holding a seat."""

    start_ms: float
    end_ms: float
    prefill: dict[int, int] = field(default_factory=dict)
    decode: tuple[int, ...] = ()
    blocks: int = 0
    running: int | None = None


@dataclass(frozen=True)
class Evicted:
    """A preemption; never resumed if `resume_ms` is None. found: cached tokens when it resumed."""

    row: int
    at_ms: float
    resume_ms: float | None
    lost: int
    found: int = 0


@dataclass
class _Life:
    known: int
    computed: int = 0
    reached: int = 0
    first_time: int = 0
    again: int = 0
    active_ns: int = 0
    first_start_ns: int = int(NOT_YET)
    tokens_ns: list[int] = field(default_factory=list)


def result_of(
    requests: list[Asked],
    steps: list[Step],
    evictions: list[Evicted] | None = None,
    *,
    stop_ms: float | None = None,
    kv_blocks: int = 64,
    **trace: object,
) -> Result:
    """The result in which these steps served these requests. Rows in order of arrival."""
    evictions = evictions or []
    lives = [_Life(asked.prompt, asked.cached) for asked in requests]
    completed, pieces, pool_ends = _replay(lives, requests, steps, evictions)
    end_ns = ms_to_ns(stop_ms) if stop_ms is not None else 0
    end_ns = max(end_ns, *(ms_to_ns(step.end_ms) for step in steps), 0)
    if stop_ms is None:
        end_ns = max(end_ns, *(ms_to_ns(asked.arrival_ms) for asked in requests))
    log = _request_log(lives, requests, evictions, end_ns)
    columns: dict[str, object] = {
        "arrival_ns": np.array([ms_to_ns(asked.arrival_ms) for asked in requests], np.int64),
        "prompt_tokens": np.array([asked.prompt for asked in requests], np.int64),
        "output_tokens": np.array([asked.output for asked in requests], np.int64),
        "client": tuple(asked.client for asked in requests),
    }
    return Result(
        trace=Trace(**{**columns, **trace}),
        requests=log,
        steps=_step_log(steps, evictions, completed),
        gaps=_gaps([life for life, state in zip(lives, log.state, strict=True) if not state]),
        evictions=Evictions(
            np.array([each.row for each in evictions], np.int64),
            np.array([ms_to_ns(each.at_ms) for each in evictions], np.int64),
            np.array([_or_never(each.resume_ms) for each in evictions], np.int64),
            np.array([each.lost for each in evictions], np.int64),
            np.array([each.found for each in evictions], np.int64),
        ),
        scheduler="by hand",
        kv_blocks=kv_blocks,
        block_size=16,
        end_ns=end_ns,
        stop_ns=None if stop_ms is None else ms_to_ns(stop_ms),
        events=0,
        wall_s=0.0,
        pieces=pieces,
        pool_ends=pool_ends,
    )


def _replay(
    lives: list[_Life], requests: list[Asked], steps: list[Step], evictions: list[Evicted]
) -> tuple[list[int], Pieces, Ints]:
    completed, pieces, pool_ends = [], [], []
    pending = sorted(evictions, key=lambda each: each.at_ms)
    for entry, step in enumerate(steps):
        while pending and pending[0].at_ms <= step.start_ms:
            each = pending.pop(0)
            life = lives[each.row]
            life.known, life.computed = life.known + len(life.tokens_ns), each.found
        start_ns, end_ns = ms_to_ns(step.start_ms), ms_to_ns(step.end_ms)
        completed.append(0)
        for row, new in step.prefill.items():
            life = lives[row]
            reached = min(requests[row].prompt, life.computed + new)
            first_time = max(0, reached - max(life.computed, life.reached))
            life.reached = max(reached, life.reached)
            life.first_time += first_time
            life.again += new - first_time
            life.computed += new
            if life.computed == life.known:
                completed[-1] += 1
                life.tokens_ns.append(end_ns)
                pieces.append((row, -1, entry, 0, end_ns, end_ns))
        for row in step.decode:
            lives[row].tokens_ns.append(end_ns)
            pool = len(pool_ends)
            pieces.append((row, pool, pool + 1, 0, end_ns, end_ns))
        if step.decode:
            pool_ends.append(end_ns)
        for row in (*step.prefill, *step.decode):
            lives[row].active_ns += end_ns - start_ns
            if lives[row].first_start_ns == NOT_YET:
                lives[row].first_start_ns = start_ns
    grouped = sorted(pieces, key=lambda piece: (piece[0], piece[4]))
    table = np.array(grouped, np.int64).reshape(-1, 6)
    return completed, Pieces(*table.T), np.array(pool_ends, np.int64)


def _request_log(
    lives: list[_Life], requests: list[Asked], evictions: list[Evicted], end_ns: int
) -> RequestLog:
    rows = range(len(lives))
    asked = list(zip(lives, requests, strict=True))
    away, count, lost = np.zeros((3, len(lives)), np.int64)
    for each in evictions:
        resume_ns = end_ns if each.resume_ms is None else ms_to_ns(each.resume_ms)
        away[each.row] += resume_ns - ms_to_ns(each.at_ms)
        count[each.row] += 1
        lost[each.row] += each.lost
    done = [len(life.tokens_ns) == request.output for life, request in asked]

    def column(values: list[int]) -> Ints:
        return np.array(values, np.int64)

    arrival = column([ms_to_ns(request.arrival_ms) for _, request in asked])
    return RequestLog(
        state=np.array([_state(*asked[row], end_ns) for row in rows], np.int8),
        reason=tuple(request.reason for request in requests),
        scheduled_ns=arrival - column([ms_to_ns(request.held_ms) for request in requests]),
        arrival_ns=arrival,
        first_start_ns=column([life.first_start_ns for life in lives]),
        first_token_ns=column([(life.tokens_ns or [int(NOT_YET)])[0] for life in lives]),
        finish_ns=column([lives[r].tokens_ns[-1] if done[r] else int(NOT_YET) for r in rows]),
        emitted_tokens=column([len(life.tokens_ns) for life in lives]),
        cached_tokens=column([request.cached for request in requests]),
        prefilled_tokens=column([life.first_time for life in lives]),
        recomputed_tokens=column([life.again for life in lives]),
        active_ns=column([life.active_ns for life in lives]),
        preempted_ns=away,
        preemptions=count,
        lost_tokens=lost,
        worst_gap_ns=column([int(np.diff(life.tokens_ns).max(initial=NOT_YET)) for life in lives]),
    )


def _state(life: _Life, request: Asked, end_ns: int) -> State:
    if request.reason is not None:
        return State.REJECTED
    if len(life.tokens_ns) == request.output:
        return State.FINISHED
    return State.UNFINISHED if ms_to_ns(request.arrival_ms) <= end_ns else State.NOT_ARRIVED


def _step_log(steps: list[Step], evictions: list[Evicted], completed: list[int]) -> StepLog:
    ends = [ms_to_ns(step.end_ms) for step in steps]
    starts = [ms_to_ns(step.start_ms) for step in steps]
    preempted = [0] * len(steps)
    for each in evictions:
        preempted[next(i for i, at in enumerate(starts) if at >= ms_to_ns(each.at_ms))] += 1
    seats = [len(step.prefill) + len(step.decode) for step in steps]
    columns = (
        ends,
        np.subtract(ends, starts),
        [sum(step.prefill.values()) for step in steps],
        [len(step.prefill) for step in steps],
        [len(step.decode) for step in steps],
        [0] * len(steps),
        [0] * len(steps),
        [seat if s.running is None else s.running for s, seat in zip(steps, seats, strict=True)],
        [step.blocks for step in steps],
        preempted,
        [len(s.decode) + done for s, done in zip(steps, completed, strict=True)],
    )
    return StepLog(*(np.array(column, np.int64) for column in columns))


def _gaps(lives: list[_Life]) -> Gaps:
    pooled = [gap for life in lives for gap in np.diff(life.tokens_ns).tolist()]
    values, counts = np.unique(np.array(pooled, np.int64), return_counts=True)
    return Gaps(values, counts)


def _or_never(ms: float | None) -> int:
    return int(NOT_YET) if ms is None else ms_to_ns(ms)
