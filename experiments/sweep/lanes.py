"""Which points of a sweep stand beside each other in the step timeline."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from .point import WORKLOAD_SETTINGS
from .ranking import best_first
from .spec import Point, SweepSpec

if TYPE_CHECKING:
    import pandas as pd

MOST_LANES = 4
_LANE_SETTINGS = ("variant", "scheduler", "chunk_size", "max_num_batched_tokens")


def choose_points(spec: SweepSpec, rows: pd.DataFrame) -> list[Point]:
    """One point per scheduler, each at its best; without several schedulers, per chunk size.

    rows: the table of the sweep. All points have the same workload: of swept settings that
    change it the middle value. Best is the first of `best_first`, as in the sweep's printed table.
    At most four points, spread evenly; none if no point ran.
    """
    ran = rows[rows["status"] == "ok"]
    points = _of_one_workload(spec, {*ran["index"]})
    by = _compared(spec, points)
    if by is None:
        return points[:1]
    best = best_first(ran)["index"].tolist()
    if by not in ("variant", "scheduler") and spec.samples is None:
        points = _companions(points, by, _widest(ran, points, by))
    rank = {index: place for place, index in enumerate(best)}
    groups = _groups(points, by)
    return _spread([min(group, key=lambda point: rank[point.index]) for group in groups])


def foreseen_points(spec: SweepSpec, running: Container[int]) -> list[Point]:
    """What `choose_points` will give if all these points run; none where results will decide.

    running: indices of points.
    """
    points = _of_one_workload(spec, running)
    by = _compared(spec, points)
    if by is None:
        return points[:1]
    groups = _groups(points, by)
    return [] if len(groups) < len(points) else _spread(points)


def _of_one_workload(spec: SweepSpec, indices: Container[int]) -> list[Point]:
    points = [point for point in spec.points() if point.index in indices]
    for name in [name for name in spec.varied if name in WORKLOAD_SETTINGS]:
        kept = _levels(points, name)
        points = [p for p in points if p.values[name] == kept[len(kept) // 2]]
    return points


def _compared(spec: SweepSpec, points: list[Point]) -> str | None:
    """The setting whose values stand beside each other; None: there is one point, or none."""
    several = [name for name in spec.varied if len(_levels(points, name)) > 1]
    return next((name for name in (*_LANE_SETTINGS, *several) if name in several), None)


def _groups(points: list[Point], by: str) -> list[list[Point]]:
    return [[p for p in points if p.values[by] == level] for level in _levels(points, by)]


def _levels(points: list[Point], name: str) -> list[object]:
    return list(dict.fromkeys(point.values[name] for point in points))


def _widest(ran: pd.DataFrame, points: list[Point], by: str) -> Point:
    """The point whose other settings leave the most room: the largest chunk that is effective."""
    sizes = dict(zip(ran["index"], ran["effective_chunk_size"].fillna(2**62), strict=True))
    return max(points, key=lambda point: (sizes[point.index], point.index))


def _companions(points: list[Point], by: str, model: Point) -> list[Point]:
    """Points that differ from `model` in `by` alone."""
    return [
        point
        for point in points
        if all(point.values[name] == held for name, held in model.values.items() if name != by)
    ]


def _spread(points: list[Point]) -> list[Point]:
    if len(points) <= MOST_LANES:
        return points
    return [points[round(i * (len(points) - 1) / (MOST_LANES - 1))] for i in range(MOST_LANES)]
