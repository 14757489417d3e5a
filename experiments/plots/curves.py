"""Throughput and latencies against one swept field, a line per value of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.sweep.point import WORKLOAD_SETTINGS

from .held import beside, held_in_words, held_values, lines_over
from .intervals import interval_ends
from .style import (
    INK,
    MUTED,
    WIDTH_IN,
    dot,
    field_label,
    headline,
    headline_in,
    legend_rows,
    level_label,
    plain_ticks,
    save,
    sentences,
    short_label,
    spans_decades,
)
from .sweep_table import Level, SweepTable, panel_title
from .value_axis import ValueAxis
from .widths import extra_width


class Metric(NamedTuple):
    """A panel: name, the column drawn as a line, the one drawn dashed, how to read it, unit."""

    name: str
    column: str
    dashed: str | None
    reading: str
    unit: str


METRICS = (
    Metric("Output throughput", "output_throughput", None, "", "tokens/s"),
    Metric("Request goodput", "request_goodput", None, "", "requests/s"),
    Metric("TTFT", "ttft_ms_p99", "ttft_ms_p50", "p99, dashed p50", "ms"),
    Metric("TPOT", "tpot_ms_p99", "tpot_ms_p50", "p99, dashed p50", "ms"),
    Metric("ITL", "itl_ms_p99", "itl_ms_max", "p99, dashed max", "ms"),
    Metric("End to end", "e2el_ms_p99", "e2el_ms_p50", "p99, dashed p50", "ms"),
)
_COLUMNS, _NAMED_COLUMNS = 4, 6
"""Panels side by side: of numbers, of names such as schedulers."""
_WHEN_FACETED = ("Output throughput", "TTFT", "TPOT", "ITL")
_FILES = {"chunk_size": "chunk-size", "max_num_batched_tokens": "token-budget"}
_TITLES = {
    "chunk_size": "Chunk size: who gains and who pays",
    "max_num_batched_tokens": "Token budget: who gains and who pays",
    "rate": "Arrival rate: from idle to overload",
    "scheduler": "Schedulers side by side",
    "variant": "Variants side by side",
}
_INTERVAL = "interval"
"""The mark of lines that are no values but how far these may be off."""
Grid = np.ndarray[tuple[int, int], np.dtype[np.object_]]


class Series(NamedTuple):
    """What the lines of a figure are: `field` has a line per value; None is a single line."""

    table: SweepTable
    field: str | None
    across: str
    axis: ValueAxis


def curve_file(field: str) -> str:
    """The figure's file name.

    >>> curve_file("chunk_size"), curve_file("kv_blocks")
    ('chunk-size.png', 'kv-blocks.png')
    """
    return f"{_FILES.get(field, field.replace('_', '-'))}.png"


def draw_curves(table: SweepTable, field: str, path: Path) -> Path | None:
    """Small multiples of `METRICS` against `field`; None when fewer than two values ran."""
    levels = table.measured_levels(field)
    if len(levels) < 2:
        return None
    name, facet, points, words = _shown(table, field)
    bars = "Bars: 95 % confidence interval of the mean." if table.seeds > 1 else ""
    words = sentences(table.means_in_words(), bars, words)
    lines = Series(table, name, field, ValueAxis(levels))
    metrics = [m for m in METRICS if m.column in points and points[m.column].notna().any()]
    if facet is not None:
        figure, grid = _draw_facets(lines, facet, points, metrics)
    else:
        figure, grid = _draw_multiples(lines, points, metrics)
    figure.set_figheight(figure.get_figheight() + headline_in(words))
    title = _TITLES.get(field, f"What changes with {short_label(field)}")
    headline(figure, title, words, table.setting)
    for axes in grid[-1]:
        axes.set_xlabel(field_label(field))
    legend_rows(figure, _legend(lines, points))
    return save(figure, path)


def _shown(table: SweepTable, field: str) -> tuple[str | None, str | None, pd.DataFrame, str]:
    """Fields with a line and with a panel a value, the points, and what of others they have.

    Over a load no panels but lines at their best: how a setting changes them is seen over it.
    """
    if field in WORKLOAD_SETTINGS:
        name, points, words = lines_over(table, field)
        return name, None, points, words
    others = beside(table, field)
    facets = [other for other in others[1:2] if len(table.measured_levels(other)) > 1]
    held = held_values(table, others[2:])
    points = table.where(held, table.measured)
    thinned = table.thinned_in_words({facet: _columns(table, facet) for facet in facets})
    words = sentences(held_in_words(held), thinned)
    return next(iter(others), None), next(iter(facets), None), points, words


def _columns(table: SweepTable, facet: str) -> list[Level]:
    return table.facets(facet, _COLUMNS, names=_NAMED_COLUMNS)


def _draw_multiples(
    lines: Series, points: pd.DataFrame, metrics: Sequence[Metric]
) -> tuple[Figure, Grid]:
    """One panel a metric, two columns."""
    rows = -(-len(metrics) // 2)
    figure = Figure(figsize=(WIDTH_IN, 1.6 + 2.5 * rows), layout="constrained")
    grid = figure.subplots(rows, 2, squeeze=False)
    for axes, metric in zip(grid.flat, metrics, strict=False):
        _draw_lines(axes, points, metric, lines)
        axes.set_title(f"{metric.name}: {metric.reading}" if metric.reading else metric.name)
        axes.set_ylabel(metric.unit)
        _scale([axes], metric)
    for axes in list(grid.flat)[len(metrics) :]:
        axes.remove()
    return figure, grid


def _draw_facets(
    lines: Series, facet: str, points: pd.DataFrame, metrics: Sequence[Metric]
) -> tuple[Figure, Grid]:
    """A column of panels per value of `facet`, a row per metric, one y axis a row."""
    metrics = [metric for metric in metrics if metric.name in _WHEN_FACETED]
    values = _columns(lines.table, facet)
    figure = Figure(figsize=(WIDTH_IN, 1.9 + 2.2 * len(metrics)), layout="constrained")
    grid = figure.subplots(len(metrics), len(values), squeeze=False, sharey="row", sharex=True)
    for row, metric in zip(grid, metrics, strict=True):
        for axes, value in zip(row, values, strict=True):
            _draw_lines(axes, lines.table.where({facet: value}, points), metric, lines)
        reading = f"\n{metric.reading}" if metric.reading else ""
        row[0].set_ylabel(f"{metric.name} ({metric.unit}){reading}")
        _scale(list(row), metric)
    for axes, value in zip(grid[0], values, strict=True):
        axes.set_title(panel_title({facet: value}))
    return figure, grid


def _draw_lines(axes: Axes, points: pd.DataFrame, metric: Metric, lines: Series) -> None:
    table = lines.table
    levels: list[Level] = table.measured_levels(lines.field) if lines.field else [None]
    for rank, level in enumerate(levels):
        rows = table.where({lines.field: level}, points) if lines.field else points
        colour = table.colours(lines.field)[level] if lines.field else INK
        extra = extra_width(rank, len(levels))
        found = [(x, table.where({lines.across: value}, rows)) for value, x in lines.axis.items()]
        found = [(x, rows) for x, rows in found if len(rows)]
        xs = [x for x, _ in found]
        if metric.dashed is not None:
            ys = [float(rows[metric.dashed].iloc[0]) for _, rows in found]
            lines.axis.connect(axes, xs, ys, colour=colour, width=1.1 + extra / 2, is_dashed=True)
        ys = [float(rows[metric.column].iloc[0]) for _, rows in found]
        lines.axis.connect(axes, xs, ys, colour=colour, width=1.8 + extra)
        if table.seeds > 1:
            _draw_intervals(axes, found, metric.column, (colour, 1.2 + extra))
        faces = ["white" if rows["saturated"].iloc[0] else colour for _, rows in found]
        axes.scatter(
            xs,
            ys,
            s=(5.5 + extra) ** 2,
            c=faces,
            edgecolors=colour,
            linewidths=1.5,
            zorder=4,
            clip_on=False,
        )
    lines.axis.mark(axes)


def _draw_intervals(
    axes: Axes,
    found: Sequence[tuple[float, pd.DataFrame]],
    column: str,
    look: tuple[str, float],
) -> None:
    """A bar a point between the ends of its confidence interval, where it has one.

    look: its colour and width.
    """
    colour, width = look
    for x, rows in found:
        ends = interval_ends(rows.iloc[:1], column)
        if ends is not None:
            axes.plot([x, x], np.ravel(ends), color=colour, linewidth=width, gid=_INTERVAL)


def _scale(row: Sequence[Axes], metric: Metric) -> None:
    """Same y axis along a row of panels; from zero, or log for times that span decades."""
    lines = [line for axes in row for line in axes.lines]
    drawn = [np.asarray(line.get_ydata(), np.float64) for line in lines]
    every = np.concatenate(drawn)
    top = every[np.isfinite(every)].max(initial=0.0)
    means = [ys for ys, line in zip(drawn, lines, strict=True) if line.get_gid() != _INTERVAL]
    values = np.concatenate(means)
    values = values[np.isfinite(values)]
    for axes in row if len(values) else ():
        if metric.unit == "ms" and spans_decades(values.tolist()):
            axes.set_yscale("log")
            axes.set_ylim(values.min() / 1.3, top * 1.3)
        else:
            axes.set_ylim(0, top * 1.12 or 1)
        plain_ticks(axes, "y")


def _legend(lines: Series, points: pd.DataFrame) -> list[list[Line2D]]:
    groups = []
    if lines.field:
        colours = lines.table.colours(lines.field)
        groups.append(
            [
                Line2D(
                    [], [], color=colours[level], marker="o", label=level_label(lines.field, level)
                )
                for level in lines.table.measured_levels(lines.field)
            ]
        )
    if bool(points["saturated"].any()):
        groups.append([dot("saturated: queue grew", MUTED, "o", hollow=True)])
    return groups
