"""Latency against throughput as the load rises: the knee of every setting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .held import lines_over
from .labels import place_labels, spaced_out
from .style import (
    INK,
    MUTED,
    WIDTH_IN,
    dot,
    headline,
    headline_in,
    legend_rows,
    level_label,
    plain_ticks,
    save,
    sentences,
    short_label,
    spans_decades,
    value_label,
)
from .sweep_table import Level, SweepTable
from .widths import extra_width

LOADS = ("rate", "rate_scale", "users", "time_scale", "max_concurrency", "requests")
"""Swept fields that change how much is asked of the engine; the first one swept is the load."""

X = "output_throughput"
_PANELS = (("ttft_ms_p99", "TTFT p99", "ttft_ms"), ("tpot_ms_p99", "TPOT p99", "tpot_ms"))
_MOST_LINES, _MOST_NAMED_LINES = 8, 12
_LABEL_SPACING_PT = 22.0
_BEADS = 8
"""Places between two points that no label may hide."""

_DASH = (0, (3, 2))


def draw_latency_throughput(table: SweepTable, path: Path) -> Path | None:
    """`latency-throughput.png`; None unless some load was swept and two of its values ran."""
    loads = [f for f in LOADS if f in table.swept and len(table.measured_levels(f)) > 1]
    if not loads:
        return None
    load = loads[0]
    field, points, words = lines_over(table, load)
    if field is not None:
        words = sentences(words, table.thinned_in_words({field: _shown(table, field)}))
    words = sentences(table.means_in_words(), words)
    points = points.dropna(subset=[X])
    lines = _lines(table, field, load, points)
    figure = Figure(figsize=(WIDTH_IN, 5.4 + headline_in(words)), layout="constrained")
    grid = figure.subplots(1, 2)
    headline(
        figure,
        "What more load costs",
        f"Along a line the {short_label(load)} rises, written beside its points.",
        words,
        table.setting,
    )
    for axes, (metric, name, limit) in zip(grid, _PANELS, strict=True):
        _draw(axes, lines, metric, table.slo.get(limit))
        axes.set_title(name)
        axes.set_ylabel("ms")
    legend_rows(figure, _legend(table, field, lines, points))
    for axes, (metric, _, _) in zip(grid, _PANELS, strict=True):
        _label(axes, lines, metric, load)
    return save(figure, path)


def _shown(table: SweepTable, field: str) -> list[Level]:
    return table.facets(field, _MOST_LINES, names=_MOST_NAMED_LINES)


Lines = list[tuple[Level, str, pd.DataFrame]]
"""Value of the setting, its colour, and its points by rising load."""


def _lines(table: SweepTable, field: str | None, load: str, points: pd.DataFrame) -> Lines:
    rank = {level: place for place, level in enumerate(table.levels(load))}

    def rising(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(_rank=rows[load].map(rank)).sort_values("_rank")

    if field is None:
        return [(None, INK, rising(points))]
    colours = table.colours(field)
    return [
        (level, colours[level], rising(table.where({field: level}, points)))
        for level in _shown(table, field)
    ]


def _draw(axes: Axes, lines: Lines, metric: str, limit_ms: float | None) -> None:
    values = [value for _, _, rows in lines for value in rows[metric].dropna().tolist()]
    for rank, (_, colour, rows) in enumerate(lines):
        extra = extra_width(rank, len(lines))
        axes.plot(rows[X], rows[metric], color=colour, linewidth=1.8 + extra, zorder=3)
        faces = ["white" if saturated else colour for saturated in rows["saturated"]]
        size = (6.8 + 2 * extra) ** 2
        axes.scatter(
            rows[X], rows[metric], s=size, c=faces, edgecolors=colour, linewidths=1.5, zorder=4
        )
    if limit_ms is not None:
        axes.axhline(limit_ms, color=INK, linewidth=1.1, linestyle=_DASH)
        values.append(limit_ms)
    if spans_decades(values):
        axes.set_yscale("log")
        axes.set_ylim(min(values) / 1.4, max(values) * 1.5)
    else:
        axes.set_ylim(0, max(values, default=1.0) * 1.15)
    most = max((rows[X].max() for _, _, rows in lines if len(rows)), default=1.0)
    axes.set_xlim(0, float(most) * 1.1)
    axes.set_xlabel("output throughput (tokens/s)")
    plain_ticks(axes, "y")
    plain_ticks(axes, "x")


def _label(axes: Axes, lines: Lines, metric: str, load: str) -> None:
    """The load beside points that stand apart, the longest line first."""
    rows = pd.concat([rows for _, _, rows in lines]).dropna(subset=[metric])
    every = list(zip(rows[X], rows[metric], strict=True))
    texts = [value_label(value) for value in rows[load]]
    chosen = spaced_out(axes, every, _LABEL_SPACING_PT)
    avoid = [point for _, _, each in lines for point in _along(axes, each, metric)]
    place_labels(
        axes, [every[rank] for rank in chosen], [texts[rank] for rank in chosen], avoid=avoid
    )


def _along(axes: Axes, rows: pd.DataFrame, metric: str) -> list[tuple[float, float]]:
    """Places along a line as it is drawn, in data coordinates."""
    known = rows.dropna(subset=[metric])
    if known.empty:
        return []
    corners = axes.transData.transform(known[[X, metric]].to_numpy(np.float64))
    at = np.linspace(0, len(corners) - 1, 1 + _BEADS * (len(corners) - 1))
    drawn = [np.interp(at, np.arange(len(corners)), corners[:, side]) for side in (0, 1)]
    back = axes.transData.inverted().transform(np.column_stack(drawn))
    return [(float(x), float(y)) for x, y in back]


def _legend(
    table: SweepTable, field: str | None, lines: Lines, points: pd.DataFrame
) -> list[list[Line2D]]:
    groups = []
    if field is not None:
        groups.append(
            [
                Line2D([], [], color=colour, marker="o", label=level_label(field, level))
                for level, colour, _ in lines
            ]
        )
    marks = []
    if bool(points["saturated"].any()):
        marks.append(dot("saturated: queue grew", MUTED, "o", hollow=True))
    if {"ttft_ms", "tpot_ms"} & set(table.slo):
        marks.append(Line2D([], [], color=INK, linewidth=1.1, linestyle=_DASH, label="SLO limit"))
    return [*groups, marks] if marks else groups
