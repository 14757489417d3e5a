"""Charts that several pages draw: cumulative distributions and levels over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .chart import Chart, across, colour, upward
from .page import said
from .scale import Axis, fitted

Floats = NDArray[np.float64]

_POINTED = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Shares whose value a curve tells when pointed at."""

_DRAWN = 160
"""Points of a curve at most."""


def cdf_chart(
    title: str,
    curves: Mapping[str, tuple[Floats, Floats]],
    *,
    limit_ms: float | None = None,
    of: str = "requests",
) -> Chart:
    """Cumulative distributions. curves: name -> rising values (ms) and the share up to each."""
    ends = [float(v) for held, _ in curves.values() for v in (*held[held > 0][:1], held[-1])]
    x = fitted("ms", [*ends, *([limit_ms] if limit_ms else [])], *across())
    chart = Chart(title, x, Axis(f"share of {of}", 0, 1, *upward()))
    if limit_ms is not None:
        chart.limit(limit_ms, "x", f"SLO: {said(limit_ms)} ms")
    for rank, (name, (held, share)) in enumerate(curves.items()):
        keep = np.unique(np.searchsorted(share, np.linspace(0, 1, _DRAWN)).clip(0, len(held) - 1))
        points = [(max(float(held[at]), x.low), float(share[at])) for at in keep]
        chart.line([(points[0][0], 0.0), *points], colour(rank), dashed=rank % 2 == 1)
        for at in _POINTED:
            place = min(int(np.searchsorted(share, at - 1e-12)), len(held) - 1)
            value = float(held[place])
            who = f"{name}\n" if len(curves) > 1 else ""
            tip = f"{who}{_share(at)}: {value:,.1f} ms"
            chart.dot((max(value, x.low), at), colour(rank), tip=tip, radius=3.2)
        if len(curves) > 1:
            chart.legend.append((colour(rank), name, "dash" if rank % 2 else "line"))
    return chart


def ranked(values: Floats) -> tuple[Floats, Floats]:
    """Values as a cumulative distribution."""
    ordered = np.sort(values)
    return ordered, np.arange(1, len(ordered) + 1) / max(len(ordered), 1)


def level_chart(title: str, unit: str, edges_s: Floats, levels: Floats, css: str) -> Chart:
    """A level over slices of time. edges_s: shape (slices + 1,), levels: shape (slices,)."""
    x = Axis("time (s)", float(edges_s[0]), float(edges_s[-1]), *across())
    chart = Chart(title, x, fitted(unit, [0.0, *levels.tolist()], *upward(), log=False))
    points = [
        (float(edge), float(level))
        for at, level in enumerate(levels)
        for edge in (edges_s[at], edges_s[at + 1])
    ]
    chart.area(points, css)
    chart.line(points, css)
    for at, level in enumerate(levels.tolist()):
        start, end = float(edges_s[at]), float(edges_s[at + 1])
        tip = f"{start:,.1f} to {end:,.1f} s\n{level:,.1f} {unit}"
        chart.box((start, chart.y.low, end, chart.y.high), "hit", tip=tip)
    return chart


def spread(rows: Sequence[int], at_most: int) -> list[int]:
    """All rows, or `at_most` of them spread evenly.

    >>> spread([3, 5, 7, 9, 11], 3)
    [3, 7, 11]
    """
    if len(rows) <= at_most:
        return list(rows)
    places = np.linspace(0, len(rows) - 1, at_most).round().astype(int)
    return [rows[place] for place in places]


def _share(share: float) -> str:
    """
    >>> _share(0.5), _share(1.0)
    ('p50', 'max')
    """
    return "max" if share == 1.0 else f"p{100 * share:g}"
