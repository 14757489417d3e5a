"""What is done about times that fall where there is more work: nothing, or a stated smoothing.

`isotonic` is the closest non-decreasing sequence in least squares (pool adjacent violators; Barlow
et al., "Statistical Inference under Order Restrictions", 1972, section 1.2), along every count in
turn until none falls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from .predict import AttentionPoint, Grids

SMOOTHINGS = ("none", "isotonic")
MAX_PASSES = 50

Line = Sequence[tuple[int, float]]
Step = tuple[int, int, int, int]


def smoothed(grids: Grids, how: str) -> tuple[Grids, str]:
    """The grids as `how` says, and a line for the provenance that says what that changed."""
    falling = _falling(grids)
    if how == "none":
        return grids, f"none: times kept as measured, {falling} points below the one before them"
    smooth = replace(
        grids,
        by_tokens={name: _risen(points) for name, points in grids.by_tokens.items()},
        by_sequences={name: _risen(points) for name, points in grids.by_sequences.items()},
        attention=_risen_surfaces(grids.attention),
    )
    moved = [new / old - 1 for old, new in zip(_times(grids), _times(smooth), strict=True)]
    largest = max((abs(change) for change in moved), default=0.0)
    return smooth, (
        f"isotonic: {falling} points below the one before them; {sum(map(bool, moved))} of "
        f"{len(moved)} moved, by {largest:.1%} at most"
    )


def isotonic(times: Sequence[float]) -> list[float]:
    """The closest non-decreasing sequence, in least squares.

    >>> isotonic([1.0, 3.0, 2.0, 4.0])
    [1.0, 2.5, 2.5, 4.0]
    """
    pools: list[tuple[float, int]] = []
    for time in times:
        pools.append((time, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (above, many), (below, few) = pools[-2:]
            mean = (above * many + below * few) / (many + few)
            pools[-2:] = [(mean, many + few)]
    return [mean for mean, count in pools for _ in range(count)]


def _risen(points: Line) -> list[tuple[int, float]]:
    times = isotonic([us for _, us in points])
    return [(count, us) for (count, _), us in zip(points, times, strict=True)]


def _risen_surfaces(points: Sequence[AttentionPoint]) -> list[AttentionPoint]:
    """Along past or context in every row, then along the rows, until both rise."""
    times = {point[:4]: point[4] for point in points}
    for _ in range(MAX_PASSES):
        before = dict(times)
        for line in _lines(times):
            rising = isotonic([times[shape] for shape in line])
            times.update(zip(line, rising, strict=True))
        if times == before:
            break
    return [(*point[:4], times[point[:4]]) for point in points]


def _lines(times: Mapping[Step, float]) -> list[list[Step]]:
    """Runs of attention points in which one count grows: past, context, chunk or decodes."""
    lines: dict[tuple[object, ...], list[Step]] = {}
    for shape in sorted(times):
        chunk, past, seqs, context = shape
        along_past: tuple[object, ...] = ("context", chunk, past, seqs) if seqs else ("past", chunk)
        along_rows: tuple[object, ...] = (
            ("decodes", chunk, past, context) if seqs else ("chunk", past)
        )
        lines.setdefault(along_past, []).append(shape)
        lines.setdefault(along_rows, []).append(shape)
    return list(lines.values())


def _falling(grids: Grids) -> int:
    """Points below the one before them, along any count."""
    attention = {point[:4]: point[4] for point in grids.attention}
    runs = [[us for _, us in points] for points in _counted(grids)]
    runs += [[attention[shape] for shape in line] for line in _lines(attention)]
    return sum(b < a for run in runs for a, b in pairwise(run))


def _counted(grids: Grids) -> list[list[tuple[int, float]]]:
    return [*grids.by_tokens.values(), *grids.by_sequences.values()]


def _times(grids: Grids) -> list[float]:
    counted = [us for points in _counted(grids) for _, us in points]
    return counted + [point[4] for point in grids.attention]
