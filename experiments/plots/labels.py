"""Labels beside points, placed so that they hide neither points nor each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from .style import INK, MUTED

_ANGLES_DEG = (45, 0, 90, -45, 135, 180, -90, -135, 20, 70, 110, 160, -20, -70, -110, -160)
_BEAD_PX = 6.0
_DISTANCES_PT = (9.0, 18.0, 30.0, 44.0, 60.0, 80.0)


def place_labels(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    *,
    avoid: Sequence[tuple[float, float]] = (),
    line: Sequence[tuple[float, float]] = (),
) -> list[Annotation]:
    """Write texts[i] beside points[i], away from the points of `avoid` and the path `line`.

    All in data coordinates.
    Each label takes the nearest free place around its point, the first points first; one that
    stands off gets a thin leader. Call it last: the axis limits and the layout must be final.
    """
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]  # matplotlib's own
    taken = [_dot(axes, point) for point in (*points, *avoid)]
    taken += _beads(axes, line)
    placed = []
    for point, text in zip(points, texts, strict=True):
        label = _place(axes, point, text, taken)
        taken.append(label.get_window_extent().expanded(1.04, 1.1))
        placed.append(label)
    return placed


def spaced_out(axes: Axes, points: Sequence[tuple[float, float]], spacing_pt: float) -> list[int]:
    """Ranks of points at least `spacing_pt` from every one chosen before, the first always."""
    at = [axes.transData.transform(point) for point in points]
    spacing_px = spacing_pt * axes.figure.dpi / 72
    chosen: list[int] = []
    for rank, here in enumerate(at):
        if all(np.hypot(*(here - at[other])) >= spacing_px for other in chosen):
            chosen.append(rank)
    return chosen


def _place(axes: Axes, point: tuple[float, float], text: str, taken: list[Bbox]) -> Annotation:
    label = axes.annotate(
        text,
        point,
        xytext=(0, 0),
        textcoords="offset points",
        fontsize=10,
        color=INK,
        va="center",
        zorder=6,
    )
    frame = axes.get_window_extent()
    best = (np.inf, 0, 0.0)
    for rank, (distance, angle) in enumerate((d, a) for d in _DISTANCES_PT for a in _ANGLES_DEG):
        box = _move(label, distance, angle)
        cost = sum(_overlap(box, other) for other in taken) + 4.0 * _outside(box, frame)
        if cost < best[0]:
            best = (cost, rank, cost)
        if cost == 0.0:
            break
    rank = best[1]
    distance, angle = _DISTANCES_PT[rank // len(_ANGLES_DEG)], _ANGLES_DEG[rank % len(_ANGLES_DEG)]
    _move(label, distance, angle)
    if distance > _DISTANCES_PT[0]:
        _lead(axes, label, point)
    return label


def _move(label: Annotation, distance_pt: float, angle_deg: float) -> Bbox:
    """Put the label's near edge `distance_pt` away and return its new box (pixels)."""
    angle = np.deg2rad(angle_deg)
    dx, dy = float(np.cos(angle)), float(np.sin(angle))
    label.set_position((distance_pt * dx, distance_pt * dy))
    label.set_horizontalalignment("left" if dx > 0.3 else "right" if dx < -0.3 else "center")
    return label.get_window_extent()


def _lead(axes: Axes, label: Annotation, point: tuple[float, float]) -> None:
    axes.annotate(
        "",
        point,
        xytext=label.get_position(),
        textcoords="offset points",
        arrowprops={
            "arrowstyle": "-",
            "color": MUTED,
            "linewidth": 0.7,
            "shrinkA": 7 if label.get_horizontalalignment() == "center" else 1,
            "shrinkB": 4,
        },
        zorder=4,
    )


def _dot(axes: Axes, point: tuple[float, float]) -> Bbox:
    x, y = axes.transData.transform(point)
    reach = 5.5 * axes.figure.dpi / 72
    return Bbox([[x - reach, y - reach], [x + reach, y + reach]])


def _beads(axes: Axes, line: Sequence[tuple[float, float]]) -> list[Bbox]:
    """Small boxes along a path, close enough that no text fits between them."""
    corners = [axes.transData.transform(point) for point in line]
    found = []
    for (x0, y0), (x1, y1) in pairwise(corners):
        count = max(2, int(np.hypot(x1 - x0, y1 - y0) / _BEAD_PX))
        for x, y in zip(np.linspace(x0, x1, count), np.linspace(y0, y1, count), strict=True):
            found.append(Bbox([[x - 2, y - 2], [x + 2, y + 2]]))
    return found


def _overlap(one: Bbox, other: Bbox) -> float:
    common = Bbox.intersection(one, other)
    return 0.0 if common is None else float(common.width * common.height)


def _outside(box: Bbox, frame: Bbox) -> float:
    common = Bbox.intersection(box, frame)
    inside = 0.0 if common is None else float(common.width * common.height)
    return float(box.width * box.height) - inside
