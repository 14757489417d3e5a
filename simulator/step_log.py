"""What a run writes down while it runs: steps, not tokens.

`EntryLog` has one row per plan that ran; a leap of n steps is one row plus n durations.
`TokenLog` has one row per *piece* of a request's output: a single token that ended a prompt
(known by the log row whose end produced it), or a span of consecutive decode steps.
Everything else is computed from them afterwards, at array speed (`outcome.py`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from struct import Struct

import numpy as np
from numpy.typing import NDArray

ENTRY_COLUMNS = (
    "start_ns",
    "steps",
    "prefill_tokens",
    "prefill_seqs",
    "decode_seqs",
    "padded_seqs",
    "context_tokens",
    "used_blocks",
    "running",
    "preempted",
    "completed",
    "line_first",
    "line_slope",
)

entry = Struct(f"{len(ENTRY_COLUMNS)}q").pack
"""A row of `EntryLog`: its cells in the order of `ENTRY_COLUMNS`. Packed, since an array takes
bytes four times as fast as numbers.
"""

piece = Struct("4q").pack
"""A row of `TokenLog`."""


class EntryLog:
    """One row per plan that ran. Columns: `ENTRY_COLUMNS`, as int64; plus all step durations.

    start_ns of the first step; steps in the entry; used_blocks during its first step; completed:
    prompts its end completed (each of them emits a token).
    """

    __slots__ = ("_cells", "_durations", "add")

    def __init__(self) -> None:
        self._cells = array("q")
        self._durations = array("q")
        self.add: Callable[[bytes], None] = self._cells.frombytes
        """Append an `entry(...)`."""

    @property
    def count(self) -> int:
        """Entries so far."""
        return len(self._cells) // len(ENTRY_COLUMNS)

    def add_durations(self, durations: NDArray[np.int64]) -> None:
        """Of the entry that is added next, with `line_slope` -1."""
        self._durations.frombytes(durations.data.cast("B"))

    def column(self, name: str) -> NDArray[np.int64]:
        """A column, shape (entries,)."""
        return table_of(self._cells, len(ENTRY_COLUMNS))[:, ENTRY_COLUMNS.index(name)]

    def durations(self) -> NDArray[np.int64]:
        """Durations of all steps, shape (steps,)."""
        steps, slope = self.column("steps"), self.column("line_slope")
        ends = np.cumsum(steps)
        total = int(ends[-1]) if len(ends) else 0
        prices = np.arange(total, dtype=np.int64)
        prices -= np.repeat(ends - steps, steps)
        prices *= np.repeat(slope, steps)
        prices += np.repeat(self.column("line_first"), steps)
        prices >>= 16
        np.maximum(prices, 1, out=prices)
        if self._durations:
            prices[np.repeat(slope < 0, steps)] = np.frombuffer(self._durations, np.int64)
        return prices


class TokenLog:
    """The pieces of every request's output, in order per request.

    add: append a `piece(...)`. A token of the step that completed a prompt (or its recomputation):
    (row, -1, entry, 0). A span of tokens by consecutive decode steps: (row, first, last, context),
    steps first + 1 .. last of the pool's counter, the first of them at this context.
    """

    __slots__ = ("_cells", "add")

    def __init__(self) -> None:
        self._cells = array("q")
        self.add: Callable[[bytes], None] = self._cells.frombytes

    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """(row, first, last, context), shape (pieces,) each."""
        table = table_of(self._cells, 4)
        return tuple(table[:, column] for column in range(4))


def table_of(cells: array[int], width: int) -> NDArray[np.int64]:
    """Cells written row by row, as a matrix of shape (rows, width); no copy."""
    if not cells:
        return np.zeros((0, width), dtype=np.int64)
    return np.frombuffer(cells, dtype=np.int64).reshape(-1, width)
