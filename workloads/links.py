"""Which turn follows which: the links of a trace's `parent` column, kept right by transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulator.errors import WorkloadError
from simulator.trace import Trace

from .arrivals import Ints

NONE = -1
"""In `earlier_rows`: the row follows no other."""


def earlier_rows(trace: Trace) -> Ints:
    """The row of each row's parent, or `NONE` without one in the trace; int64, shape (n,)."""
    rows = {trace.id_of(row): row for row in range(len(trace))}
    parents = trace.parent or (None,) * len(trace)
    found = (NONE if parent is None else rows.get(parent, NONE) for parent in parents)
    return np.fromiter(found, dtype=np.int64, count=len(trace))


def first_turns(trace: Trace) -> Ints:
    """The row with which each row's conversation starts, its own without an earlier turn."""
    if trace.parent is None:
        return np.arange(len(trace))
    earlier = earlier_rows(trace)
    first = np.where(earlier == NONE, np.arange(len(trace)), earlier)
    # Every round doubles how far back each row looks.
    while not np.array_equal(before := first[first], first):
        first = before
    return first


def relinked(before: Trace, after: Trace) -> Trace:
    """`after`, some rows of `before`, with every turn following the nearest one that is left.

    The prompt of a turn starts with those of all turns before it, so it still starts with that
    one's. A turn with none left starts its conversation, at its own `arrival_ns`. A note counts
    both.
    """
    if after.parent is None or before.parent is None:
        return after
    left = {after.id_of(row) for row in range(len(after))}
    parent_of = {before.id_of(row): parent for row, parent in enumerate(before.parent)}
    parents = []
    for parent in after.parent:
        for _ in range(len(before)):
            if parent is None or parent in left:
                break
            parent = parent_of.get(parent)
        parents.append(parent if parent in left else None)
    pairs = list(zip(after.parent, parents, strict=True))
    starts = sum(new is None and old is not None for old, new in pairs)
    follows = sum(new is not None and new != old for old, new in pairs)
    if not (starts or follows):
        return after
    return replace(after, parent=tuple(parents), notes=(*after.notes, _note(starts, follows)))


def without_lost_parents(trace: Trace) -> Trace:
    """Turns whose parent is not in the trace start their conversation; a note counts them."""
    return relinked(trace, trace)


def check_links(
    names: Sequence[str],
    parents: Sequence[str | None],
    arrival_ns: Ints,
    lines: Ints,
    path: str,
) -> None:
    """A turn comes after the turn that it follows: by arrival, at ties by line.

    Raises:
        WorkloadError: naming the first that does not.
    """
    rows = {name: row for row, name in enumerate(names)}
    for row, parent in enumerate(parents):
        earlier = None if parent is None else rows.get(parent)
        if earlier is None:
            continue
        if (int(arrival_ns[earlier]), earlier) >= (int(arrival_ns[row]), row):
            raise WorkloadError(
                f"{path}, line {int(lines[row])}, column parent: {parent!r} is the turn of line "
                f"{int(lines[earlier])}, which does not come before this one: correct the row"
            )


def _note(starts: int, follows: int) -> str:
    said = {"follow the one before that": follows, "start a conversation": starts}
    counts = ", ".join(f"{turns:,} {what}" for what, turns in said.items() if turns)
    return f"turns whose earlier turn was left out: {counts}"
