"""What the engine writes down about each request while it runs: a row when it ends, evictions."""

from __future__ import annotations

from array import array
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from .result import State
from .sequence import Sequence
from .step_log import table_of
from .units import NEVER_NS

FINISHED, UNFINISHED, REJECTED = int(State.FINISHED), int(State.UNFINISHED), int(State.REJECTED)

COLUMNS = (
    "row",
    "state",
    "arrival_ns",
    "first_start_ns",
    "first_token_ns",
    "finish_ns",
    "active_ns",
    "cached_tokens",
    "prefilled_tokens",
    "recomputed_tokens",
    "preemptions",
    "lost_tokens",
)

_pack = Struct(f"{len(COLUMNS)}q").pack


class RequestColumns:
    """One row per request that ended, in order of ending; and one per eviction."""

    __slots__ = (
        "_add",
        "_cells",
        "evicted_cached",
        "evicted_ns",
        "evicted_row",
        "evicted_tokens",
        "reasons",
        "resumed_ns",
    )

    def __init__(self) -> None:
        self._cells = array("q")
        self._add = self._cells.frombytes
        self.reasons: dict[int, str] = {}
        self.evicted_row = array("q")
        self.evicted_ns = array("q")
        self.resumed_ns = array("q")
        self.evicted_tokens = array("q")
        self.evicted_cached = array("q")

    def reject(self, sequence: Sequence, reason: str) -> None:
        """Turned away on arrival."""
        self.finish(sequence, NEVER_NS, REJECTED)
        self.reasons[sequence.row] = reason

    def leave_unfinished(self, sequence: Sequence) -> None:
        """Still in the system at the stop time."""
        self.finish(sequence, NEVER_NS, UNFINISHED)

    def finish(self, sequence: Sequence, finish_ns: int, state: int = FINISHED) -> None:
        """Its last token reached the client, or (another state) it ended otherwise."""
        self._add(
            _pack(
                sequence.row,
                state,
                sequence.arrival_ns,
                sequence._first_start_ns,
                sequence._first_token_ns,
                finish_ns,
                sequence._active_ns,
                sequence._cached_tokens,
                sequence._prefilled_tokens,
                sequence._recomputed_tokens,
                sequence.preemptions,
                sequence._lost_tokens,
            )
        )

    def evict(self, sequence: Sequence, now_ns: int, lost_tokens: int) -> int:
        """A preemption; returns its number, for `resume`."""
        self.evicted_row.append(sequence.row)
        self.evicted_ns.append(now_ns)
        self.resumed_ns.append(NEVER_NS)
        self.evicted_tokens.append(lost_tokens)
        self.evicted_cached.append(0)
        return len(self.evicted_row) - 1

    def resume(self, eviction: int, now_ns: int, cached_tokens: int) -> None:
        """The evicted sequence computes again, what it finds in the cache excepted."""
        self.resumed_ns[eviction] = now_ns
        self.evicted_cached[eviction] = cached_tokens

    def ended_rows(self) -> set[int]:
        """Rows whose end has been written down."""
        return set(self._cells[:: len(COLUMNS)])

    def columns(self, rows: int) -> dict[str, NDArray[np.int64]]:
        """All but `row`, each of shape (rows,) in order of the trace; `NOT_YET` for no such time.

        A request that never came to an end has state `NOT_ARRIVED`.
        """
        table = table_of(self._cells, len(COLUMNS))
        found = {}
        for index, name in enumerate(COLUMNS[1:], start=1):
            column = np.full(rows, _BLANK.get(name, 0), np.int64)
            column[table[:, 0]] = table[:, index]
            found[name] = column
        return found


_BLANK = {
    "state": int(State.NOT_ARRIVED),
    **dict.fromkeys(("arrival_ns", "first_start_ns", "first_token_ns", "finish_ns"), NEVER_NS),
}


def as_int64(column: array[int]) -> NDArray[np.int64]:
    """A column of the log as a NumPy array, shape (rows,)."""
    return np.frombuffer(column, dtype=np.int64) if column else np.zeros(0, np.int64)
