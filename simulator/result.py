"""`Result`: what happened in a run, as columns. Metrics and figures are computed from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .client_delay import NO_DELAY, ClientDelay
from .notebook import latency_html
from .statistics import describe, describe_weighted
from .trace import Trace
from .units import NEVER_NS, NS_PER_MS, NS_PER_S

Ints = NDArray[np.int64]

NOT_YET = np.int64(NEVER_NS)
"""In an int64 column: this never happened. Mask it (`column != NOT_YET`) before use."""


class State(IntEnum):
    """How a request ended."""

    FINISHED = 0
    REJECTED = 1
    UNFINISHED = 2
    NOT_ARRIVED = 3


@dataclass(frozen=True, slots=True, eq=False)
class RequestLog:
    """One row per trace row, same order; shape (n,) each; int64 unless said. `NOT_YET` = never.

    state: int8 `State`. reason: why it was rejected, None otherwise.
    scheduled_ns: when the load source wanted to send it; arrival_ns: when it reached the queue.
    first_start_ns: start of the first step that computed any of its tokens.
    first_token_ns, finish_ns: ends of the steps that produced its first and last token.
    emitted_tokens: output tokens produced. cached_tokens: prompt tokens that were in the prefix
    cache when it was first admitted; prefilled_tokens: prompt tokens computed first time;
    recomputed_tokens: tokens computed as prompt again, after an eviction.
    active_ns: durations of the steps that computed for it; preempted_ns: sum of resume - preempt
        (closed at the stop time if it never resumed); preemptions; lost_tokens: cache entries
        its evictions discarded.
    worst_gap_ns: its largest inter-token gap (`NOT_YET` with fewer than two tokens).
    """

    state: NDArray[np.int8]
    reason: tuple[str | None, ...]
    scheduled_ns: Ints
    arrival_ns: Ints
    first_start_ns: Ints
    first_token_ns: Ints
    finish_ns: Ints
    emitted_tokens: Ints
    cached_tokens: Ints
    prefilled_tokens: Ints
    recomputed_tokens: Ints
    active_ns: Ints
    preempted_ns: Ints
    preemptions: Ints
    lost_tokens: Ints
    worst_gap_ns: Ints


@dataclass(frozen=True, slots=True, eq=False)
class StepLog:
    """One row per executed step, in order; int64, shape (steps,).

    end_ns, duration_ns (start = end - duration); prefill_tokens (computed, recomputation
    included), prefill_seqs, decode_seqs (sequences that produced a token by decoding, padding
    slots of static batching not counted), padded_seqs (slots priced but idle),
    context_tokens (KV tokens read by the decodes before the step, summed),
    running (sequences holding a seat), used_blocks (KV blocks held while the step ran),
    preempted (evictions just before the step), emitted_tokens (output tokens its end produced:
    decodes, and one for each prompt it completed, first time or on resume).
    """

    end_ns: Ints
    duration_ns: Ints
    prefill_tokens: Ints
    prefill_seqs: Ints
    decode_seqs: Ints
    padded_seqs: Ints
    context_tokens: Ints
    running: Ints
    used_blocks: Ints
    preempted: Ints
    emitted_tokens: Ints

    def __len__(self) -> int:
        return len(self.end_ns)


class Steps(Protocol):
    """What `Result.steps` offers: the columns of `StepLog`, made when they are read."""

    def __len__(self) -> int: ...
    @property
    def end_ns(self) -> Ints: ...
    @property
    def duration_ns(self) -> Ints: ...
    @property
    def prefill_tokens(self) -> Ints: ...
    @property
    def prefill_seqs(self) -> Ints: ...
    @property
    def decode_seqs(self) -> Ints: ...
    @property
    def padded_seqs(self) -> Ints: ...
    @property
    def context_tokens(self) -> Ints: ...
    @property
    def running(self) -> Ints: ...
    @property
    def used_blocks(self) -> Ints: ...
    @property
    def preempted(self) -> Ints: ...
    @property
    def emitted_tokens(self) -> Ints: ...


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """All inter-token gaps of the finished requests, pooled and weighted.

    gap_ns: int64 (m,), ascending and distinct. count: int64 (m,), how many gaps have this value.
    Expanding gap_ns by count gives the pooled ITL list.
    """

    gap_ns: Ints
    count: Ints


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of all outputs, grouped by request: (row, first, last, context) sorted by row.

    A prompt token has first = -1 and ends at `ends`; a span covers pool steps first + 1 .. last.
    starts, ends: times of the first and last token of each piece, ns.
    """

    row: Ints
    first: Ints
    last: Ints
    context: Ints
    starts: Ints
    ends: Ints

    @property
    def is_span(self) -> NDArray[np.bool_]:
        """Which pieces are spans of decode steps."""
        return self.first >= 0

    @property
    def tokens(self) -> Ints:
        """Tokens in each piece."""
        return np.where(self.is_span, self.last - self.first, 1)

    def times_of(self, row: int, pool_ends: Ints) -> list[int]:
        """When each token of one request appeared, ns, in order."""
        times: list[int] = []
        for piece in np.flatnonzero(self.row == row).tolist():
            first, last = int(self.first[piece]), int(self.last[piece])
            times += pool_ends[first:last].tolist() if first >= 0 else [int(self.ends[piece])]
        return times


@dataclass(frozen=True, slots=True, eq=False)
class Evictions:
    """One row per preemption: whose, when, when it computed again (or `NOT_YET`), tokens lost.

    cached_tokens: leading tokens that were in the prefix cache when it resumed.
    """

    row: Ints
    preempt_ns: Ints
    resume_ns: Ints
    lost_tokens: Ints
    cached_tokens: Ints

    @property
    def recovered_tokens(self) -> Ints:
        """Of the tokens lost, those found in the prefix cache, not to be computed again."""
        return np.minimum(self.lost_tokens, self.cached_tokens)


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """A finished run.

    end_ns: the clock when the run ended (last step, rejection or stop time).
    stop_ns: the stop time asked for, or None for a drained run.
    kv_blocks: usable blocks of the cache; block_size: tokens a block.
    events: SimPy events processed; wall_s: seconds the event loop alone took (not deterministic).
    swapped_blocks: blocks moved to host memory and back by preemptions.
    client_delay: between the clients and the engine; every column of this result is on the engine's
        clock, TTFT and E2E (`timings`) on the clients'.
    pieces, pool_ends: every output as pieces, for `token_times` (absent in hand-made results).
    """

    trace: Trace
    requests: RequestLog
    steps: Steps
    gaps: Gaps
    evictions: Evictions
    scheduler: str
    kv_blocks: int
    block_size: int
    end_ns: int
    stop_ns: int | None
    events: int
    wall_s: float
    pieces: Pieces | None = None
    pool_ends: Ints | None = None
    swapped_blocks: int = 0
    client_delay: ClientDelay = NO_DELAY

    def token_times_ns(self, row: int) -> list[int]:
        """When each token of one request left the device, ns, in order."""
        if self.pieces is None or self.pool_ends is None:
            raise ValueError("this result was not made by simulate(): it has no token times")
        return self.pieces.times_of(row, self.pool_ends)

    def _repr_html_(self) -> str:
        """For notebooks: latencies of the requests that finished, and counts."""
        log, done = self.requests, self.requests.state == State.FINISHED
        latencies = {
            "TTFT": describe((log.first_token_ns - log.arrival_ns)[done], per=NS_PER_MS),
            "ITL": describe_weighted(self.gaps.gap_ns, self.gaps.count, per=NS_PER_MS),
            "E2E": describe((log.finish_ns - log.arrival_ns)[done], per=NS_PER_MS),
        }
        finished = f"{np.count_nonzero(done):,} of {len(self.trace):,} requests finished"
        steps = f"{len(self.steps):,} steps in {self.end_ns / NS_PER_S:,.1f} simulated seconds"
        held = f"{self.kv_blocks:,} KV blocks of {self.block_size} tokens"
        notes = (f"{finished}; {steps}; {held}", "summarize(result) has all metrics")
        return latency_html(self.scheduler, latencies, notes)
