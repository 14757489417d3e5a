"""Every token time, exactly, without a list of tokens.

The pool's decode steps have one end time each (`pool_ends`). A span of steps a + 1 .. b of a
request are the tokens at pool_ends[a] .. pool_ends[b - 1]. Gaps inside spans are differences of
neighbouring pool ends, weighted by how many sequences decoded in both; gaps between the pieces of
a request (prompt token to first decode, over a preemption, over a step it sat out) are one each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .result import NOT_YET, Gaps, Ints, Pieces
from .step_log import EntryLog, TokenLog


def entry_ends(entries: EntryLog, durations: Ints) -> Ints:
    """When the last step of every entry ended, ns."""
    totals = np.concatenate(([0], np.cumsum(durations)))
    last = np.cumsum(entries.column("steps"))
    ends: Ints = entries.column("start_ns") + totals[last] - totals[last - entries.column("steps")]
    return ends


def pieces_of(tokens: TokenLog, pool_ends: Ints, entry_end: Ints) -> Pieces:
    """All pieces, grouped by request, in order.

    pool_ends: end of every decode step of the pool; entry_end: end of every entry's last step.
    A step that was planned but would have ended after the stop time is in neither, nor here.
    """
    columns = tokens.columns()
    order = np.argsort(columns[0], kind="stable")
    row, first, last, context = (column[order] for column in columns)
    span = first >= 0
    last = np.where(span, np.minimum(last, len(pool_ends)), last)
    ran = np.where(span, last > first, last < len(entry_end))
    row, first, last, context, span = row[ran], first[ran], last[ran], context[ran], span[ran]
    starts, ends = np.empty_like(row), np.empty_like(row)
    starts[span], ends[span] = pool_ends[first[span]], pool_ends[last[span] - 1]
    starts[~span] = ends[~span] = entry_end[last[~span]]
    return Pieces(row, first, last, context, starts, ends)


def pool_growth(pieces: Pieces, pool_steps: int, block_size: int) -> Ints:
    """Blocks the members took at each pool step; shape (pool_steps,).

    A span at context c grows at its first step if c is a multiple of the block size, and every
    block_size steps from then on: two marks a span in an array of differences with that stride.
    """
    rows = -(-(pool_steps + 1) // block_size) + 1
    marks = np.zeros(rows * block_size, dtype=np.int64)
    span = pieces.is_span
    first, last, context = pieces.first[span], pieces.last[span], pieces.context[span]
    grows = first + (-context) % block_size
    takes = grows < last
    grows, last = grows[takes], last[takes]
    after = grows + -(-(last - grows) // block_size) * block_size
    np.add.at(marks, grows, 1)
    np.add.at(marks, after, -1)
    grid = marks.reshape(rows, block_size)
    return np.cumsum(grid, axis=0, out=grid).reshape(-1)[:pool_steps]


def pooled_gaps(pieces: Pieces, pool_ends: Ints, finished: NDArray[np.bool_]) -> Gaps:
    """Every inter-token gap of the finished requests, distinct values with counts."""
    counted = finished[pieces.row]
    joint = (pieces.row[1:] == pieces.row[:-1]) & counted[1:]
    between = (pieces.starts[1:] - pieces.ends[:-1])[joint]
    span = pieces.is_span & counted
    marks = np.zeros(len(pool_ends) + 1, dtype=np.int64)
    np.add.at(marks, pieces.first[span] + 1, 1)
    np.add.at(marks, pieces.last[span], -1)
    weights = np.cumsum(marks)[: len(pool_ends)]
    inside = np.flatnonzero(weights)
    gaps = np.concatenate((between, pool_ends[inside] - pool_ends[inside - 1]))
    counts = np.concatenate((np.ones(len(between), np.int64), weights[inside]))
    if not len(gaps):
        return Gaps(gaps, counts)
    gaps, counts = _sorted_together(gaps, counts)
    starts = np.flatnonzero(np.concatenate(([True], gaps[1:] != gaps[:-1])))
    return Gaps(gaps[starts], np.add.reduceat(counts, starts))


def _sorted_together(values: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Both by value, none of them negative; counts of equal values in any order.

    Where a value and a count fit into one int64 they are sorted as one: a third of the time of
    sorting places and fetching from them.

    >>> [column.tolist() for column in _sorted_together(np.array([7, 5]), np.array([1, 2]))]
    [[5, 7], [2, 1]]
    >>> [column.tolist() for column in _sorted_together(np.array([2**62, 5]), np.array([1, 2]))]
    [[5, 4611686018427387904], [2, 1]]
    """
    bits = int(counts.max()).bit_length()
    if int(values.max()).bit_length() + bits < 64:
        both = np.sort((values << bits) | counts)
        return both >> bits, both & ((1 << bits) - 1)
    order = np.argsort(values)
    return values[order], counts[order]


def worst_gaps(pieces: Pieces, pool_ends: Ints, rows: int) -> Ints:
    """Each request's largest gap, `NOT_YET` with fewer than two tokens; shape (rows,).

    Inside a span it is a range maximum over the gaps of the pool: answered for all spans at
    once, with the maxima over 2, 4, 8 … gaps built one level at a time.
    """
    worst = np.full(rows, NOT_YET, dtype=np.int64)
    joint = pieces.row[1:] == pieces.row[:-1]
    np.maximum.at(worst, pieces.row[1:][joint], (pieces.starts[1:] - pieces.ends[:-1])[joint])
    span = pieces.is_span & (pieces.last - pieces.first >= 2)
    row, low, count = pieces.row[span], pieces.first[span], pieces.last[span] - pieces.first[span]
    count = count - 1
    maxima = np.diff(pool_ends)
    level = np.int64(1)
    while len(row) and level <= int(count.max()):
        here = (count >= level) & (count < 2 * level)
        start, stop = low[here], low[here] + count[here] - level
        np.maximum.at(worst, row[here], np.maximum(maxima[start], maxima[stop]))
        maxima = np.maximum(maxima[:-level], maxima[level:])
        level *= 2
    return worst


def decode_active_ns(pieces: Pieces, pool_durations: Ints, rows: int) -> Ints:
    """Time each request spent in decode steps; shape (rows,)."""
    total = np.concatenate(([0], np.cumsum(pool_durations)))
    span = pieces.is_span
    spent = total[pieces.last[span]] - total[pieces.first[span]]
    return sum_by_row(pieces.row[span], spent, rows)


def sum_by_row(row: Ints, values: Ints, rows: int) -> Ints:
    """Exact integer sums per row; `row` is sorted."""
    sums = np.zeros(rows, dtype=np.int64)
    if len(row):
        starts = np.flatnonzero(np.concatenate(([True], row[1:] != row[:-1])))
        sums[row[starts]] = np.add.reduceat(values, starts)
    return sums
