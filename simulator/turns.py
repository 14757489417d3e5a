"""Conversations in a trace: which request continues which."""

from __future__ import annotations

from .errors import WorkloadError
from .trace import Trace


def earlier_turns(trace: Trace) -> dict[int, int]:
    """Row of every later turn -> the row it continues, for parents that the trace has.

    Raises:
        WorkloadError: a turn that would have to come before itself.
    """
    if trace.parent is None:
        return {}
    rows = {trace.id_of(row): row for row in range(len(trace))}
    earlier = {
        row: rows[parent]
        for row, parent in enumerate(trace.parent)
        if parent is not None and parent in rows
    }
    if any(parent >= row for row, parent in earlier.items()):
        _check(trace, earlier)
    return earlier


def _check(trace: Trace, earlier: dict[int, int]) -> None:
    begun: set[int] = set()
    for row in earlier:
        turns: dict[int, None] = {}
        turn: int | None = row
        while turn is not None and turn not in begun:
            if turn in turns:
                name = trace.id_of(row)
                raise WorkloadError(
                    f"request {name!r}: the turns before it lead back to itself, so it would never "
                    "arrive: correct the parent column"
                )
            turns[turn] = None
            turn = earlier.get(turn)
        begun.update(turns)
