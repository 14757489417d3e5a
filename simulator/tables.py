"""Per-request and per-step columns of a result, in the units of files: ms, s and tokens.

Numbers are numpy masked arrays (a masked entry never happened), which pyarrow reads as they
are: `pyarrow.table(request_table(result))`. Texts are object arrays of `str` or None.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import timings
from .result import NOT_YET, Ints, Result, State
from .units import NS_PER_MS, NS_PER_S

Column = NDArray[Any]  # Any: text, integers or floats; masked where something never happened


def request_table(result: Result) -> dict[str, Column]:
    """One row per trace row, in trace order; column name -> shape (n,)."""
    trace, log = result.trace, result.requests
    rows = len(trace)
    arrived = log.state != State.NOT_ARRIVED
    started = log.first_start_ns != NOT_YET
    answered = log.first_token_ns != NOT_YET
    finished = log.state == State.FINISHED
    several = finished & (log.emitted_tokens > 1)
    source_row = np.arange(rows) if trace.source_row is None else trace.source_row
    ids = trace.ids or tuple(map(str, source_row.tolist()))
    return {
        "id": _texts(ids, rows),
        "source_row": source_row,
        "client": _texts(trace.client, rows),
        "state": _STATE_NAMES[log.state],
        "reason": _texts(log.reason, rows),
        "arrival_s": _known(arrived, log.arrival_ns, NS_PER_S),
        "prompt_tokens": trace.prompt_tokens,
        "cached_tokens": log.cached_tokens,
        "output_tokens": trace.output_tokens,
        "emitted_tokens": log.emitted_tokens,
        "ttft_ms": _measured(result, answered, timings.ttft_ns),
        "tpot_ms": _measured(result, several, timings.tpot_ms, per=1),
        "e2el_ms": _measured(result, finished, timings.e2el_ns),
        "norm_latency_ms": _measured(result, finished, timings.norm_latency_ms, per=1),
        "queue_ms": _measured(result, started, timings.queue_ns),
        "dispatch_ms": _measured(result, arrived, timings.dispatch_ns),
        "prefill_ms": _measured(result, answered, timings.prefill_ns),
        "active_ms": _known(started, log.active_ns),
        "preempted_ms": _known(started, log.preempted_ns),
        "stalled_ms": _measured(result, finished, timings.stalled_ns),
        "worst_itl_ms": _known(log.worst_gap_ns != NOT_YET, log.worst_gap_ns),
        "num_preemptions": log.preemptions,
        "lost_tokens": log.lost_tokens,
    }


def step_table(result: Result) -> dict[str, Column]:
    """One row per step, in order; column name -> shape (steps,)."""
    steps = result.steps
    return {
        "end_s": steps.end_ns / NS_PER_S,
        "step_ms": steps.duration_ns / NS_PER_MS,
        "prefill_tokens": steps.prefill_tokens,
        "prefill_seqs": steps.prefill_seqs,
        "decode_seqs": steps.decode_seqs,
        "padded_seqs": steps.padded_seqs,
        "context_tokens": steps.context_tokens,
        "running": steps.running,
        "used_blocks": steps.used_blocks,
        "preempted": steps.preempted,
        "emitted_tokens": steps.emitted_tokens,
    }


def token_table(result: Result) -> dict[str, Column]:
    """Every output token, a row per unbroken stretch of them; column name -> shape (stretches,).

    request: row of `request_table`. Its tokens left the device at first_s, at the end of every
    step with a decode after that, and at last_s; tokens counts them. decoded is false for the one
    token that the step gave which completed its prompt. Rows are grouped by request.

    Raises:
        ValueError: the result was not made by `simulate`.
    """
    pieces = result.pieces
    if pieces is None:
        raise ValueError("this result was not made by simulate(): it has no token times")
    return {
        "request": pieces.row,
        "first_s": pieces.starts / NS_PER_S,
        "last_s": pieces.ends / NS_PER_S,
        "tokens": pieces.tokens,
        "decoded": pieces.is_span.astype(np.int8),
    }


def preemption_table(result: Result) -> dict[str, Column]:
    """One row per preemption, in order; request: row of `request_table`."""
    evictions = result.evictions
    return {
        "request": evictions.row,
        "preempt_s": evictions.preempt_ns / NS_PER_S,
        "resume_s": _known(evictions.resume_ns != NOT_YET, evictions.resume_ns, NS_PER_S),
        "lost_tokens": evictions.lost_tokens,
        "cached_tokens": evictions.cached_tokens,
    }


_STATE_NAMES = np.array([state.name.lower() for state in State], dtype=object)


def _texts(column: tuple[str | None, ...] | None, rows: int) -> Column:
    texts = np.full(rows, None, dtype=object)
    if column is not None:
        texts[:] = column
    return texts


def _known(known: NDArray[np.bool_], values: Ints, per: int = NS_PER_MS) -> Column:
    return np.ma.masked_array(np.where(known, values, 0) / per, mask=~known)


def _measured(
    result: Result, known: NDArray[np.bool_], measure: timings.Measure, *, per: int = NS_PER_MS
) -> Column:
    values = np.zeros(len(known))
    values[known] = measure(result, np.flatnonzero(known)) / per
    return np.ma.masked_array(values, mask=~known)
