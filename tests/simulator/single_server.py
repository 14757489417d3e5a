"""The textbook queue as a result: one server, first come first served."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.result import NOT_YET, Evictions, Gaps, RequestLog, Result, StepLog
from simulator.trace import Trace

Ints = NDArray[np.int64]


def one_at_a_time(arrival_ns: Ints, service_ns: Ints) -> Result:
    """One server, first come first served, one prompt token and one output token each."""
    rows = len(arrival_ns)
    before = np.cumsum(service_ns) - service_ns
    start_ns = np.maximum.accumulate(arrival_ns - before) + before  # Lindley's recursion
    finish_ns = start_ns + service_ns
    none, ones = np.zeros(rows, np.int64), np.ones(rows, np.int64)
    return Result(
        trace=Trace(arrival_ns, ones, ones),
        requests=RequestLog(
            state=np.zeros(rows, np.int8),
            reason=(None,) * rows,
            scheduled_ns=arrival_ns,
            arrival_ns=arrival_ns,
            first_start_ns=start_ns,
            first_token_ns=finish_ns,
            finish_ns=finish_ns,
            emitted_tokens=ones,
            cached_tokens=none,
            prefilled_tokens=ones,
            recomputed_tokens=none,
            active_ns=service_ns,
            preempted_ns=none,
            preemptions=none,
            lost_tokens=none,
            worst_gap_ns=np.full(rows, NOT_YET),
        ),
        steps=StepLog(finish_ns, service_ns, ones, ones, none, none, none, ones, ones, none, ones),
        gaps=Gaps(none[:0], none[:0]),
        evictions=Evictions(none[:0], none[:0], none[:0], none[:0], none[:0]),
        scheduler="one at a time",
        kv_blocks=64,
        block_size=16,
        end_ns=int(finish_ns[-1]),
        stop_ns=None,
        events=0,
        wall_s=0.0,
    )
