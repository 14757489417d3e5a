"""The charts of a sweep's page. Points carry the row of their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments.plots.frontier import pareto_frontier
from experiments.plots.held import Lines, beside, held_in_words, held_values, lines_over
from experiments.plots.latency_throughput import LOADS
from experiments.plots.style import field_label, level_label, short_label, value_label
from experiments.plots.sweep_table import SweepTable
from experiments.sweep.point import WORKLOAD_SETTINGS

from .chart import COLOURS, Chart, across, beside_names, colour, upward, width_of
from .page import said
from .scale import Axis, fitted, over_names

X, Y = "ttft_ms_p99", "tpot_ms_p99"
KNOB_METRICS = {
    "ttft_ms_p99": ("TTFT p99", "ms"),
    "tpot_ms_p99": ("TPOT p99", "ms"),
    "itl_ms_p99": ("ITL p99", "ms"),
    "output_throughput": ("Output throughput", "tokens/s"),
    "request_goodput": ("Goodput", "requests/s"),
}
_WIDE, _TALL = 720, 420
_SHADES = 5
_MOST_CELLS = 12
"""Values of an axis of the map at most."""


def frontier_chart(table: SweepTable) -> Chart | None:
    """TTFT against TPOT, the SLO box and the Pareto frontier; None for fewer than two points."""
    points = table.measured.dropna(subset=[X, Y])
    if len(points) < 2:
        return None
    x = _from_slo("TTFT p99 (ms)", points[X], table.slo.get("ttft_ms"), across(_WIDE))
    y = _from_slo("TPOT p99 (ms)", points[Y], table.slo.get("tpot_ms"), upward(_TALL))
    chart = Chart("TTFT against TPOT", x, y, _WIDE, _TALL)
    if {"ttft_ms", "tpot_ms"} & set(table.slo):
        right, top = (
            table.slo.get(f"{name}_ms", axis.high) for name, axis in (("ttft", x), ("tpot", y))
        )
        chart.box((x.low, y.low, min(right, x.high), min(top, y.high)), "good")
        chart.legend.append(("good", "within the SLO", "box good"))
    best = points.iloc[
        pareto_frontier(points[X].to_numpy(np.float64), points[Y].to_numpy(np.float64))
    ]
    steps = _staircase(list(zip(best[X], best[Y], strict=True)))
    chart.line(steps, "muted")
    chart.legend.append(("muted", "Pareto frontier", "line"))
    field = table.swept[0] if table.swept else None
    ranks = _ranks(table, field)
    for row in points.to_dict("records"):
        _dot(chart, row, (X, Y), ranks, field)
    for row in best.to_dict("records"):
        chart.words((row[X], row[Y]), _short(table, row))
    _explain(chart, table, field, points)
    return chart


def knob_charts(table: SweepTable, field: str) -> list[Chart]:
    """Every metric over one setting, a line per value of another."""
    series, points, _ = shown_over(table, field)
    levels = table.measured_levels(field)
    charts = []
    for metric, (name, unit) in KNOB_METRICS.items():
        known = points.dropna(subset=[metric])
        if known.empty:
            continue
        x = _knob_axis(field, levels)
        chart = Chart(name, x, fitted(unit, known[metric].tolist(), *upward()))
        ranks = _ranks(table, series)
        for level in table.measured_levels(series) if series else [None]:
            rows = table.where({series: level}, known) if series else known
            places = [(_place(row[field], levels, x), row) for row in rows.to_dict("records")]
            places.sort(key=lambda pair: pair[0])
            css = colour(ranks.get(level, 0))
            if not any(isinstance(value, str) for value in levels):
                wide = width_of(ranks.get(level, 0), max(len(ranks), 1))
                chart.line([(at, row[metric]) for at, row in places], css, width=wide)
            for at, row in places:
                _dot(chart, {**row, "_x": at}, ("_x", metric), ranks, series)
        _explain(chart, table, series, known)
        charts.append(chart)
    return charts


def heatmap_chart(table: SweepTable) -> Chart | None:
    """Goodput over the first two settings; None for fewer, or without a goodput."""
    fields = [f for f in table.swept if 1 < len(table.levels(f)) <= _MOST_CELLS][:2]
    if len(fields) < 2 or table.measured["request_goodput"].isna().all():
        return None
    up, right = fields
    drawn = _drawn_at_random(table)
    held = held_values(table, [f for f in table.swept if f not in fields and f not in drawn])
    columns, rows = table.levels(right), table.levels(up)
    height = 60 + 40 * len(rows)
    names = [value_label(v) for v in rows]
    x = over_names(field_label(right), [value_label(v) for v in columns], beside_names(names), 708)
    y = over_names(short_label(up), names, height - 44.0, 8.0)
    x, y = _cells(x), _cells(y)
    title = "Good requests/s; an empty cell did not run"
    chart = Chart(title, x, y, 720, height, note=held_in_words(held))
    most = float(table.measured["request_goodput"].max()) or 1.0
    for across_at, left in enumerate(columns):
        for up_at, upper in enumerate(rows):
            found = table.where({**held, right: left, up: upper})
            if found.empty:
                continue
            row = found.iloc[0]
            corners = (across_at - 0.5, up_at - 0.5, across_at + 0.5, up_at + 0.5)
            goodput = row["request_goodput"]
            if row["status"] != "ok" or pd.isna(goodput):
                chart.box(corners, "hit void", row=int(row["index"]))
                continue
            shade = min(int(goodput / most * _SHADES), _SHADES - 1)
            chart.box(corners, f"cell h{shade}", row=int(row["index"]))
            chart.marks.append(
                f'<text class="in i{shade}" x="{x.at(across_at)}" y="{y.at(up_at) + 4}" '
                f'text-anchor="middle">{goodput:.2f}</text>'
            )
    return chart


def shown_over(table: SweepTable, field: str) -> Lines:
    """The points of the charts over a setting, and what they say of the others they hold."""
    drawn = _drawn_at_random(table)
    if field in WORKLOAD_SETTINGS:
        return lines_over(table, field, leave=drawn)
    others = beside(table, field)
    held = held_values(table, [name for name in others[1:] if name not in drawn])
    points = table.where(held, table.measured)
    return Lines(next(iter(others), None), points, held_in_words(held))


def _drawn_at_random(table: SweepTable) -> list[str]:
    """Fields with so many values that each is of one point only; none of them can be held."""
    return [field for field in table.swept if len(table.levels(field)) > _MOST_CELLS]


def load_chart(table: SweepTable) -> list[Chart]:
    """Latency against throughput as the load rises; none unless a load was swept."""
    loads = [f for f in LOADS if f in table.swept and len(table.measured_levels(f)) > 1]
    if not loads:
        return []
    series, points, _ = shown_over(table, loads[0])
    points = points.dropna(subset=["output_throughput"])
    rank = {level: place for place, level in enumerate(table.levels(loads[0]))}
    charts = []
    for metric, limit in ((X, "ttft_ms"), (Y, "tpot_ms")):
        known = points.dropna(subset=[metric])
        if known.empty:
            continue
        x = fitted("output throughput (tokens/s)", [0.0, *known["output_throughput"]], *across())
        y = fitted("ms", known[metric].tolist(), *upward())
        chart = Chart(f"{KNOB_METRICS[metric][0]} as the {short_label(loads[0])} rises", x, y)
        if limit in table.slo:
            chart.limit(table.slo[limit], "y", f"SLO: {said(float(table.slo[limit]))} ms")
        ranks = _ranks(table, series)
        for level in table.measured_levels(series) if series else [None]:
            rows = table.where({series: level}, known) if series else known
            rows = rows.assign(_rank=rows[loads[0]].map(rank)).sort_values("_rank")
            chart.line(
                zip(rows["output_throughput"], rows[metric], strict=True),
                colour(ranks.get(level, 0)),
                width=width_of(ranks.get(level, 0), max(len(ranks), 1)),
            )
            for row in rows.to_dict("records"):
                _dot(chart, row, ("output_throughput", metric), ranks, series)
        _explain(chart, table, series, known)
        charts.append(chart)
    return charts


def _from_slo(
    label: str, values: pd.Series[float], limit: float | None, ends: tuple[float, float]
) -> Axis:
    return fitted(label, [*values.tolist(), *([limit] if limit else [])], *ends)


def _knob_axis(field: str, levels: list[Any]) -> Axis:  # Any: swept values
    """Names side by side; numbers at equal distances too unless there are many."""
    if len(levels) <= _MOST_CELLS or any(not _is_number(value) for value in levels):
        return over_names(field_label(field), [value_label(v) for v in levels], *across())
    return fitted(field_label(field), [float(value) for value in levels], *across())


def _place(value: Any, levels: list[Any], axis: Axis) -> float:  # Any: swept values
    if not axis.names:
        return float(value)
    return float(levels.index(None if value is None else value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cells(axis: Axis) -> Axis:
    """An axis of names whose ends are the edges of the outer cells."""
    return Axis(axis.label, -0.5, len(axis.names) - 0.5, axis.start, axis.end, names=axis.names)


def _ranks(table: SweepTable, field: str | None) -> dict[Any, int]:  # Any: swept values
    """Value -> colour, the same in every chart; one colour for all if there are too many values."""
    levels = table.levels(field) if field else []
    return {level: rank for rank, level in enumerate(levels)} if len(levels) <= COLOURS else {}


def _dot(
    chart: Chart,
    row: Mapping[Any, Any],  # Any: a table row
    columns: tuple[str, str],
    ranks: Mapping[Any, int],
    field: str | None,
) -> None:
    css = colour(ranks.get(row[field], 0) if field else 0)
    ring = " ring" if row["saturated"] else ""
    chart.dot((row[columns[0]], row[columns[1]]), f"{css}{ring}", row=int(row["index"]))


def _explain(chart: Chart, table: SweepTable, field: str | None, points: pd.DataFrame) -> None:
    ranks = _ranks(table, field)
    if field and len(ranks) > 1:
        chart.legend += [
            (colour(rank), level_label(field, level), "dot") for level, rank in ranks.items()
        ]
    if bool(points["saturated"].any()):
        chart.legend.append(("muted", "saturated", "ring"))


def _short(table: SweepTable, row: Mapping[Any, Any]) -> str:
    return " / ".join(value_label(row[field]) for field in table.swept[:3])


def _staircase(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Corners of the frontier: along the TPOT of the left point until the next is reached."""
    corners = []
    for here, after in zip(points, [*points[1:], points[-1]], strict=True):
        corners += [here, (after[0], here[1])]
    return corners
