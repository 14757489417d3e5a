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


def resample_blocks(trace: Trace, blocks: int, seed: int) -> Trace:
    """As many stretches of the trace as it is cut into, drawn with repetition.

    A stretch drawn again is another crowd: its requests share no prefix with the first time.

    Raises:
        WorkloadError: requests wait for each other (sessions, closed loops), which stretches would
            tear apart; or all requests arrive at once.
    """
    if trace.parent is not None or trace.think_ns is not None:
        raise WorkloadError(
            "a trace whose requests wait for earlier ones cannot be cut into stretches of time"
        )
    first, last = int(trace.arrival_ns[0]), int(trace.arrival_ns[-1])
    if last == first:
        raise WorkloadError("all requests arrive at once: there is no time to cut into stretches")
    length = -(-(last - first + 1) // at_least("blocks", blocks, 2))
    edges = np.searchsorted(trace.arrival_ns, first + length * np.arange(blocks + 1))
    rng = np.random.Generator(np.random.PCG64(at_least("seed", seed, 0)))
    drawn = rng.integers(blocks, size=blocks).tolist()
    sizes = np.diff(edges)[drawn]
    if not sizes.sum():
        raise WorkloadError(f"the stretches drawn hold no request: give fewer blocks than {blocks}")
    rows = np.concatenate([np.arange(edges[block], edges[block + 1]) for block in drawn])
    moved = [(place - block) * length for place, block in enumerate(drawn)]
    turns = [drawn[:place].count(block) for place, block in enumerate(drawn)]
    return Trace(
        arrival_ns=trace.arrival_ns[rows] + np.repeat(moved, sizes),
        **_columns(trace, rows, np.repeat(turns, sizes)),
        hash_block_tokens=trace.hash_block_tokens,
        notes=(*trace.notes, f"{blocks} stretches of time drawn with repetition, seed={seed}"),
    )


def _columns(trace: Trace, rows: Ints, turns: Ints) -> dict[str, Any]:
    """All other columns. turns: how often a row's stretch was drawn before. Any: any column."""
    kept = ("prompt_tokens", "output_tokens", "priority", "client", "max_tokens", "prefix_tokens")
    found: dict[str, Any] = {name: _pick(getattr(trace, name), rows) for name in kept}
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
