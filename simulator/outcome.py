"""From the logs of a finished engine to its `Result`."""

from __future__ import annotations

from collections.abc import Sequence as Row
from dataclasses import dataclass

import numpy as np

from .engine import Engine
from .leap_log import LeapLog
from .request_log import as_int64
from .result import NOT_YET, Evictions, Gaps, Ints, Pieces, RequestLog, State
from .token_times import (
    decode_active_ns,
    entry_ends,
    pieces_of,
    pool_growth,
    pooled_gaps,
    sum_by_row,
    worst_gaps,
)
from .trace import Trace


@dataclass(frozen=True, slots=True)
class Outcome:
    """The logs of a run, made into columns."""

    requests: RequestLog
    steps: LeapLog
    gaps: Gaps
    evictions: Evictions
    pieces: Pieces
    pool_ends: Ints


def outcome_of(engine: Engine, trace: Trace, end_ns: int) -> Outcome:
    """Everything that can be computed afterwards is computed here, once, at array speed."""
    entries = engine.entries
    bare = LeapLog(entries, np.zeros(0, np.int64), entries.durations())
    decodes = np.repeat(entries.column("decode_seqs") > 0, entries.column("steps"))
    pool_ends = bare.end_ns[decodes]
    pieces = pieces_of(engine.tokens, pool_ends, entry_ends(entries, bare.duration_ns))
    growth = pool_growth(pieces, len(pool_ends), engine.view.kv.block_size)
    evictions = _evictions(engine)
    active = decode_active_ns(pieces, bare.duration_ns[decodes], len(trace))
    worst = worst_gaps(pieces, pool_ends, len(trace))
    requests = _requests(engine, trace, pieces, worst, active, _away_ns(evictions, trace, end_ns))
    gaps = pooled_gaps(pieces, pool_ends, requests.state == State.FINISHED)
    if engine.life.delivers_at_end:
        requests, gaps = _delivered_at_once(requests)
    return Outcome(
        requests, LeapLog(entries, growth, bare.duration_ns), gaps, evictions, pieces, pool_ends
    )


def _evictions(engine: Engine) -> Evictions:
    columns = engine.life.requests
    return Evictions(
        as_int64(columns.evicted_row),
        as_int64(columns.evicted_ns),
        as_int64(columns.resumed_ns),
        as_int64(columns.evicted_tokens),
        as_int64(columns.evicted_cached),
    )


def _away_ns(evictions: Evictions, trace: Trace, end_ns: int) -> Ints:
    """Preempted time of each request; one that never resumed was away until the end."""
    resumed = np.where(evictions.resume_ns == NOT_YET, end_ns, evictions.resume_ns)
    order = np.argsort(evictions.row, kind="stable")
    away = (resumed - evictions.preempt_ns)[order]
    return sum_by_row(evictions.row[order], away, len(trace))


def _requests(
    engine: Engine, trace: Trace, pieces: Pieces, worst: Ints, active: Ints, away: Ints
) -> RequestLog:
    rows, reasons_by_row = len(trace), engine.life.requests.reasons
    columns = engine.life.requests.columns(rows)
    arrival = columns["arrival_ns"]
    missing = arrival == NOT_YET
    arrival[missing] = trace.arrival_ns[missing]
    scheduled = arrival.copy()
    for row, wanted_ns in engine.feed.scheduled_ns.items():
        scheduled[row] = wanted_ns
    reasons: Row[str | None] = [None] * rows
    if reasons_by_row:
        reasons = [reasons_by_row.get(row) for row in range(rows)]
    return RequestLog(
        state=columns["state"].astype(np.int8),
        reason=tuple(reasons),
        scheduled_ns=scheduled,
        arrival_ns=arrival,
        first_start_ns=columns["first_start_ns"],
        first_token_ns=columns["first_token_ns"],
        finish_ns=columns["finish_ns"],
        emitted_tokens=sum_by_row(pieces.row, pieces.tokens, rows),
        cached_tokens=columns["cached_tokens"],
        prefilled_tokens=columns["prefilled_tokens"],
        recomputed_tokens=columns["recomputed_tokens"],
        active_ns=columns["active_ns"] + active,
        preempted_ns=away,
        preemptions=columns["preemptions"],
        lost_tokens=columns["lost_tokens"],
        worst_gap_ns=worst,
    )


def _delivered_at_once(requests: RequestLog) -> tuple[RequestLog, Gaps]:
    """Static batching with `deliver: batch_end`: the client sees all tokens in one instant."""
    many = (requests.state == State.FINISHED) & (requests.emitted_tokens > 1)
    count = int((requests.emitted_tokens[many] - 1).sum())
    worst = np.where(many, 0, NOT_YET)
    gaps = Gaps(np.zeros(1 if count else 0, np.int64), np.array([count] if count else [], np.int64))
    return RequestLog(
        **{name: getattr(requests, name) for name in RequestLog.__slots__} | {"worst_gap_ns": worst}
    ), gaps
