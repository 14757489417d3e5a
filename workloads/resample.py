"""Other traces of the same kind as a recorded one: its stretches of time, drawn with repetition.

How far would an answer be off on another day like this one? A block bootstrap asks this of the
trace itself: it is cut into equal stretches of time, long enough to hold bursts and queues whole,
and as many are drawn with repetition and put one after the other.

Source: Kuensch, The jackknife and the bootstrap for general stationary observations, Annals of
Statistics 17 (1989).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.errors import WorkloadError
from simulator.trace import Trace

from .arrivals import Ints
from .limits import at_least
from .links import earlier_rows, first_turns

_KEPT = (
    *("prompt_tokens", "output_tokens", "priority", "client", "max_tokens", "prefix_tokens"),
    *("predicted_output_tokens", "think_ns"),
)
"""Columns that a row takes along as they are."""


def resample_blocks(trace: Trace, blocks: int, seed: int) -> Trace:
    """As many stretches of the trace as it is cut into, drawn with repetition.

    A session goes whole with the stretch in which its first turn arrives, and later turns keep
    waiting for earlier ones. A stretch drawn again is another crowd: its requests share no prefix
    with the first time. Rows lose their ids, sessions their names.

    Raises:
        WorkloadError: all requests, or the first turns of all sessions, arrive at once.
    """
    starts_ns = trace.arrival_ns[first_turns(trace)]
    first, last = int(starts_ns.min()), int(starts_ns.max())
    if last == first:
        raise WorkloadError("all requests arrive at once: there is no time to cut into stretches")
    length = -(-(last - first + 1) // at_least("blocks", blocks, 2))
    rng = np.random.Generator(np.random.PCG64(at_least("seed", seed, 0)))
    drawn = rng.integers(blocks, size=blocks).tolist()
    block_of = (starts_ns - first) // length
    members = [np.flatnonzero(block_of == block) for block in drawn]
    rows = np.concatenate(members)
    if not len(rows):
        raise WorkloadError(f"the stretches drawn hold no request: give fewer blocks than {blocks}")
    places = np.repeat(np.arange(blocks), [len(each) for each in members])
    arrival_ns = trace.arrival_ns[rows] + (places - block_of[rows]) * length
    order = np.argsort(arrival_ns, kind="stable")
    rows, places = rows[order], places[order]
    turns = np.array([drawn[:place].count(block) for place, block in enumerate(drawn)])
    return Trace(
        arrival_ns=arrival_ns[order],
        **_columns(trace, rows, turns[places]),
        parent=_parents(trace, rows, places),
        hash_block_tokens=trace.hash_block_tokens,
        notes=(*trace.notes, f"{blocks} stretches of time drawn with repetition, seed={seed}"),
    )


def _parents(trace: Trace, rows: Ints, places: Ints) -> tuple[str | None, ...] | None:
    """The turn before, in the same place of the new trace; a row's id there is its number."""
    if trace.parent is None:
        return None
    drawn = list(zip(places.tolist(), rows.tolist(), strict=True))
    number = {turn: str(new) for new, turn in enumerate(drawn)}
    earlier = earlier_rows(trace).tolist()
    return tuple(number.get((place, earlier[row])) for place, row in drawn)


def _columns(trace: Trace, rows: Ints, turns: Ints) -> dict[str, Any]:
    """All other columns. turns: how often a row's stretch was drawn before. Any: any column."""
    found: dict[str, Any] = {name: _pick(getattr(trace, name), rows) for name in _KEPT}
    pairs = list(zip(rows.tolist(), turns.tolist(), strict=True))
    if trace.block_hashes is not None:
        hashes = trace.block_hashes
        apart = 1 + max((max(row) for row in hashes if row), default=0)
        found["block_hashes"] = tuple(
            tuple(block + turn * apart for block in hashes[row]) for row, turn in pairs
        )
    if trace.prefix_group is not None:
        groups = trace.prefix_group
        found["prefix_group"] = tuple(
            groups[row] if groups[row] is None or not turn else f"{groups[row]}#{turn}"
            for row, turn in pairs
        )
    return found


def _pick(column: Any, rows: Ints) -> Any:  # Any: an array or a tuple column
    if isinstance(column, tuple):
        return tuple(column[row] for row in rows.tolist())
    return None if column is None else column[rows]
