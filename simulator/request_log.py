"""What the engine writes down about each request while it runs: plain columns, one cell a fact."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from .request import Sequence
from .result import NOT_YET, State

NEVER = int(NOT_YET)


class RequestColumns:
    """One row per trace row, written when something becomes known."""

    __slots__ = (
        "active_ns",
        "arrival_ns",
        "cached_tokens",
        "evicted_cached",
        "evicted_ns",
        "evicted_row",
        "evicted_tokens",
        "finish_ns",
        "first_start_ns",
        "first_token_ns",
        "lost_tokens",
        "preemptions",
        "prefilled_tokens",
        "reasons",
        "recomputed_tokens",
        "resumed_ns",
        "state",
    )

    def __init__(self, rows: int) -> None:
        never = array("q", [NEVER])
        zero = array("q", [0])
        self.arrival_ns = never * rows
        self.first_start_ns = never * rows
        self.first_token_ns = never * rows
        self.finish_ns = never * rows
        self.active_ns = zero * rows
        self.cached_tokens = zero * rows
        self.prefilled_tokens = zero * rows
        self.recomputed_tokens = zero * rows
        self.preemptions = zero * rows
        self.lost_tokens = zero * rows
        self.state = array("b", [State.NOT_ARRIVED]) * rows
        self.reasons: dict[int, str] = {}
        self.evicted_row = array("q")
        self.evicted_ns = array("q")
        self.resumed_ns = array("q")
        self.evicted_tokens = array("q")
        self.evicted_cached = array("q")

    def reject(self, sequence: Sequence, reason: str) -> None:
        """Turned away on arrival."""
        self.arrival_ns[sequence.row] = sequence.arrival_ns
        self.state[sequence.row] = State.REJECTED
        self.reasons[sequence.row] = reason

    def finish(self, sequence: Sequence, now_ns: int) -> None:
        """Its last token reached the client."""
        self.finish_ns[sequence.row] = now_ns
        self.state[sequence.row] = State.FINISHED
        self._write(sequence)

    def is_open(self, sequence: Sequence) -> bool:
        """Whether its end has not been written down."""
        return self.state[sequence.row] == State.NOT_ARRIVED

    def leave_unfinished(self, sequence: Sequence) -> None:
        """Still in the system at the stop time."""
        self.state[sequence.row] = State.UNFINISHED
        self._write(sequence)

    def _write(self, sequence: Sequence) -> None:
        row = sequence.row
        self.arrival_ns[row] = sequence.arrival_ns
        self.active_ns[row] = sequence._active_ns
        self.cached_tokens[row] = sequence._cached_tokens
        self.prefilled_tokens[row] = sequence._prefilled_tokens
        if sequence._first_start_ns is not None:
            self.first_start_ns[row] = sequence._first_start_ns
        if sequence._first_token_ns is not None:
            self.first_token_ns[row] = sequence._first_token_ns
        if sequence.preemptions:
            self.recomputed_tokens[row] = sequence._recomputed_tokens
            self.preemptions[row] = sequence.preemptions
            self.lost_tokens[row] = sequence._lost_tokens

    def evict(self, sequence: Sequence, now_ns: int, lost_tokens: int) -> int:
        """A preemption; returns its number, for `resume`."""
        self.evicted_row.append(sequence.row)
        self.evicted_ns.append(now_ns)
        self.resumed_ns.append(NEVER)
        self.evicted_tokens.append(lost_tokens)
        self.evicted_cached.append(0)
        return len(self.evicted_row) - 1

    def resume(self, eviction: int, now_ns: int, cached_tokens: int) -> None:
        """The evicted sequence computes again, what it finds in the cache excepted."""
        self.resumed_ns[eviction] = now_ns
        self.evicted_cached[eviction] = cached_tokens


def as_int64(column: array[int]) -> NDArray[np.int64]:
    """A column of the log as a NumPy array, shape (rows,)."""
    return np.frombuffer(column, dtype=np.int64) if column else np.zeros(0, np.int64)
