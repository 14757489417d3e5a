"""TTFT against TPOT over the grid: what each setting gives one user and takes from another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from .held import held_in_words, held_values
from .style import (
    GOOD,
    INK,
    MUTED,
    WIDTH_IN,
    dot,
    headline,
    headline_in,
    legend_rows,
    metric_label,
    plain_ticks,
    save,
    sentences,
    short_label,
    spans_decades,
    value_label,
)
from .sweep_table import SweepTable, panel_title
from .tradeoff_labels import Numbered, X, Y, are_long, frontier_ranks, label_frontier
from .tradeoff_marks import Marks

_LOADS = ("rate", "rate_scale", "time_scale", "users", "burstiness", "seed")
"""Fields that change the load and not the setting: each value is its own panel."""


def draw_tradeoff(table: SweepTable, path: Path) -> Path | None:
    """`ttft-vs-tpot.png`; None when fewer than two points have both numbers.

    None too when only the load was swept: little load is best, which is no choice.
    """
    loads = [field for field in table.swept if field in _LOADS]
    settings = [field for field in table.swept if field not in loads]
    held = held_values(table, loads[1:])
    words = held_in_words(held)
    points = table.where(held, table.measured).dropna(subset=[X, Y])
    if len(points) < 2 or not settings:
        return None
    shown = {field: table.facets(field, 4) for field in loads[:1]}
    words = sentences(table.means_in_words(), words, table.thinned_in_words(shown))
    panels = [{field: value} for field, values in shown.items() for value in values] or [{}]
    panels = [panel for panel in panels if len(table.where(panel, points))]
    columns = 1 if len(panels) == 1 else 2
    rows = -(-len(panels) // columns)
    marks = Marks(table, settings)
    titled = [(panel_title(panel), table.where(panel, points)) for panel in panels]
    numbers = Numbered(titled, marks) if are_long(titled, marks) else None
    named = " / ".join(short_label(field) for field in marks.label_fields)
    labels = numbers.in_words() if numbers else f"Labels on the frontier: {named}."
    reading = f"Lower left is better. {labels} {_limits(table.slo)}"
    high = 2.2 + headline_in(words) + 4.2 * rows
    if numbers:
        high += numbers.height_in() + headline_in(reading) - headline_in("one line")
    figure = Figure(figsize=(WIDTH_IN, high), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    headline(
        figure,
        "What a quick first token costs the running streams",
        reading,
        words,
        table.setting,
    )
    for axes, (title, rows_here) in zip(grid.flat, titled, strict=False):
        _scale(axes, points, table.slo)
        _draw_panel(axes, rows_here, table.slo, marks)
        axes.set_title(title)
    for axes in list(grid.flat)[len(panels) :]:
        axes.remove()
    _add_legend(figure, points, table.slo, marks, numbers.lines() if numbers else ())
    for number, (axes, (_, rows_here)) in enumerate(zip(grid.flat, titled, strict=False)):
        if numbers:
            numbers.label(number, axes, rows_here)
        else:
            label_frontier(axes, rows_here, marks)
    return save(figure, path)


def _draw_panel(axes: Axes, points: pd.DataFrame, slo: Mapping[str, float], marks: Marks) -> None:
    _shade_slo(axes, slo)
    frontier = points.iloc[frontier_ranks(points)]
    axes.plot(frontier[X], frontier[Y], color=INK, linewidth=1.2, drawstyle="steps-post", zorder=2)
    rows = _distinct(points).to_dict("records")
    for row in sorted(rows, key=marks.reach, reverse=True):
        colour = marks.colour(row)
        axes.plot(
            row[X],
            row[Y],
            marker=marks.marker(row),
            color=colour,
            markerfacecolor="white" if row["saturated"] else colour,
            markersize=marks.reach(row),
            markeredgewidth=1.6,
            linestyle="none",
            zorder=3,
        )
    axes.set_xlabel(metric_label(X))
    axes.set_ylabel(metric_label(Y))


def _distinct(points: pd.DataFrame) -> pd.DataFrame:
    """One row for chunk sizes that come to the same under a budget: equal in all but the size."""
    same = [name for name in points if name not in ("index", "chunk_size")]
    return points.loc[points[same].astype(str).drop_duplicates().index]


def _scale(axes: Axes, points: pd.DataFrame, slo: Mapping[str, float]) -> None:
    """The same in all panels: log axes over decades, else from zero; with room for labels."""
    for which, column, limit in (("x", X, slo.get("ttft_ms")), ("y", Y, slo.get("tpot_ms"))):
        values = points[column].tolist() + ([limit] if limit else [])
        low, high = min(values), max(values)
        if spans_decades(values):
            axes.set(**{f"{which}scale": "log"})
            room = (high / low) ** 0.14
            axes.set(**{f"{which}lim": (low / room, high * room)})
        else:
            axes.set(**{f"{which}lim": (0, high * 1.18)})
        plain_ticks(axes, which)


def _shade_slo(axes: Axes, slo: Mapping[str, float]) -> None:
    if not {"ttft_ms", "tpot_ms"} & set(slo):
        return
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    width = min(slo.get("ttft_ms", right), right) - left
    height = min(slo.get("tpot_ms", top), top) - bottom
    axes.add_patch(Rectangle((left, bottom), width, height, color=GOOD, linewidth=0, zorder=0))


def _limits(slo: Mapping[str, float]) -> str:
    """
    >>> _limits({"ttft_ms": 1000.0, "e2el_ms": 1.0})
    'SLO: TTFT ≤ 1,000 ms.'
    """
    limits = {"TTFT": slo.get("ttft_ms"), "TPOT": slo.get("tpot_ms")}
    words = [f"{name} ≤ {value_label(ms)} ms" for name, ms in limits.items() if ms]
    return f"SLO: {', '.join(words)}." if words else ""


def _add_legend(
    figure: Figure,
    points: pd.DataFrame,
    slo: Mapping[str, float],
    marks: Marks,
    told: Sequence[str],
) -> None:
    reading: list[Line2D | Patch] = [
        Line2D([], [], color=INK, linewidth=1.2, label="Pareto frontier")
    ]
    if bool(points["saturated"].any()):
        reading.append(dot("saturated: queue grew", MUTED, "o", hollow=True))
    if _limits(slo):
        reading.append(Patch(color=GOOD, label="within the SLO"))
    legend_rows(figure, [*marks.legend(), reading], told)
