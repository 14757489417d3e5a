"""What a run writes down while it runs: steps, not tokens.

`EntryLog` has one row per plan that ran; a leap of n steps is one row plus n durations.
`TokenLog` has one row per *piece* of a request's output: a single token that ended a prompt
(known by the log row whose end produced it), or a span of consecutive decode steps.
Everything else is computed from them afterwards, at array speed (`outcome.py`).
"""

from __future__ import annotations

from array import array

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


class EntryLog:
    """One row per plan that ran. Columns: `ENTRY_COLUMNS`, as int64; plus all step durations.

    start_ns of the first step; steps in the entry; used_blocks during its first step; completed:
    prompts its end completed (each of them emits a token).
    """

    __slots__ = ("_cells", "_durations", "count")

    def __init__(self) -> None:
        self.count = 0
        self._cells = array("q")
        self._durations = array("q")

    def add(self, row: tuple[int, ...]) -> None:
        """Append an entry: its cells in the order of `ENTRY_COLUMNS`."""
        self.count += 1
        self._cells.extend(row)

    def add_durations(self, durations: NDArray[np.int64]) -> None:
        """Of the entry that is added next, with `line_slope` -1."""
        self._durations.frombytes(durations.data.cast("B"))

    def column(self, name: str) -> NDArray[np.int64]:
        """A column, shape (entries,)."""
        return _table(self._cells, len(ENTRY_COLUMNS))[:, ENTRY_COLUMNS.index(name)]

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

    A token that ended a prompt: (row, -1, entry, 0). A span: (row, first, last, context) means
    decode steps first + 1 .. last of the pool's counter, the first of them at this context.
    """

    __slots__ = ("_cells",)

    def __init__(self) -> None:
        self._cells = array("q")

    def prompt_token(self, row: int, entry: int) -> None:
        """A token produced by the step that completed a prompt (or a recomputation)."""
        self._cells.extend((row, -1, entry, 0))

    def span(self, row: int, first: int, last: int, first_context: int) -> None:
        """Tokens produced by consecutive decode steps first + 1 .. last."""
        self._cells.extend((row, first, last, first_context))

    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """(row, first, last, context), shape (pieces,) each."""
        table = _table(self._cells, 4)
        return tuple(table[:, column] for column in range(4))


def _table(cells: array[int], width: int) -> NDArray[np.int64]:
    """Cells written row by row, as a matrix of shape (rows, width); no copy."""
    if not cells:
        return np.zeros((0, width), dtype=np.int64)
    return np.frombuffer(cells, dtype=np.int64).reshape(-1, width)
