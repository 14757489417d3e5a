"""Sampled sweeps: every outcome against every drawn setting, a dot a point."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from .intervals import SHARES, Numbers, interval_ends
from .style import (
    GOOD,
    INK,
    MARKERS,
    MUTED,
    OKABE_ITO,
    WIDTH_IN,
    dot,
    field_label,
    headline,
    legend_rows,
    level_label,
    plain_ticks,
    save,
    short_label,
    spans_decades,
    value_label,
)
from .sweep_table import SweepTable
from .widths import extra_width

Mask = NDArray[np.bool_]
MOST_FIELDS = 4
OUTCOMES = {
    "goodput_fraction": ("requests within\nthe SLO (share)", None),
    "ttft_ms_p99": ("TTFT p99 (ms)", "ttft_ms"),
    "tpot_ms_p99": ("TPOT p99 (ms)", "tpot_ms"),
}
"""Column -> its axis label, and the limit of the SLO that it is held against."""


def draw_samples(table: SweepTable, path: Path) -> Path:
    """`samples.png`: a column a drawn setting, a row an outcome; hollow dots are saturated.

    The settings that go with the largest differences in the share of requests within the SLO, by
    rank correlation, come first; at most four are drawn. Colours tell apart the variants, or the
    values of the most prominent setting of the grid.
    """
    points = table.measured
    fields = sorted(table.sampled, key=lambda field: -_strength(points, field))[:MOST_FIELDS]
    looks = _looks(table)
    figure = Figure(figsize=(WIDTH_IN, 8.2), layout="constrained")
    grid = figure.subplots(len(OUTCOMES), len(fields), squeeze=False, sharey="row", sharex="col")
    headline(
        figure,
        "Sampled settings: what goes with what",
        f"{len(points)} points; in each panel all other settings differ too. {_ends(table)}",
        table.setting,
    )
    for row, (column, (label, limit)) in zip(grid, OUTCOMES.items(), strict=True):
        for axes, field in zip(row, fields, strict=True):
            _draw(axes, points, field, column, looks)
            if limit and limit in table.slo:
                axes.axhspan(0, table.slo[limit], color=GOOD, linewidth=0, zorder=0)
        row[0].set_ylabel(label)
        _scale(row[0], points, column)
    for axes, field in zip(grid[-1], fields, strict=True):
        axes.set_xlabel(field_label(field) if len(fields) < 3 else short_label(field))
    hollow = [dot("saturated: queue grew", MUTED, "o", hollow=True)]
    box = [Patch(color=GOOD, label="within the SLO")] if table.slo else []
    told = [dot(look.name, look.colour, look.marker) for look in looks]
    legend_rows(figure, [[*told, *hollow, *box]] if len(looks) == 1 else [told, [*hollow, *box]])
    return save(figure, path)


class Look(NamedTuple):
    """What the points of one colour are: their rows, and their mark."""

    name: str
    rows: Mask
    colour: str
    marker: str


def _looks(table: SweepTable) -> list[Look]:
    """One per value of the first setting of the grid that has marks for all its values."""
    points = table.measured
    for field in table.swept:
        levels = table.measured_levels(field)
        if field in table.sampled or not 1 < len(levels) <= len(MARKERS):
            continue
        colours = table.colours(field)
        return [
            Look(
                level_label(field, level),
                points["index"].isin(table.where({field: level}, points)["index"]).to_numpy(bool),
                colours[level],
                marker,
            )
            for level, marker in zip(levels, MARKERS, strict=False)
        ]
    return [Look("a point", np.ones(len(points), bool), OKABE_ITO[0], "o")]


def _draw(axes: Axes, points: pd.DataFrame, field: str, column: str, looks: Sequence[Look]) -> None:
    places, names = _places(points[field])
    values = points[column].to_numpy(np.float64)
    full = ~points["saturated"].to_numpy(bool)
    for rank, (_, rows, colour, marker) in enumerate(looks):
        extra = extra_width(rank, len(looks))
        ends = interval_ends(points[rows], column)
        if ends is not None:
            low, high = ends
            axes.vlines(places[rows], low, high, color=colour, linewidth=1.2 + extra, alpha=0.5)
        for chosen, fill in ((rows & full, colour), (rows & ~full, "white")):
            axes.plot(
                places[chosen],
                values[chosen],
                marker=marker,
                color=colour,
                markerfacecolor=fill,
                markersize=5.5 + extra,
                linestyle="none",
            )
    if names:
        axes.set_xticks(range(len(names)), names, color=INK)
        axes.set_xlim(-0.5, len(names) - 0.5)
    elif spans_decades(places.tolist()):
        axes.set_xscale("log")
        plain_ticks(axes, "x")


def _places(column: pd.Series) -> tuple[Numbers, list[str]]:
    """Where each point stands; a name per place for values that are no numbers."""
    values = column.tolist()
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values, dtype=np.float64), []
    levels = list(dict.fromkeys(values))
    # Points of one value stand side by side over its name, in their order.
    spread = np.linspace(-0.3, 0.3, len(values))
    places = np.array([levels.index(value) for value in values], np.float64) + spread
    return places, [value_label(level) for level in levels]


def _strength(points: pd.DataFrame, field: str) -> float:
    """Rank correlation with the share of requests within the SLO, without its sign; 0 if none."""
    places = pd.Series(_places(points[field])[0]).rank()
    share = points["goodput_fraction"].reset_index(drop=True).rank()
    if places.nunique() < 2 or share.nunique() < 2:
        return 0.0
    return abs(float(np.corrcoef(places, share)[0, 1]))


def _scale(axes: Axes, points: pd.DataFrame, column: str) -> None:
    """From zero, or log over decades; with room for the highest mark or bar."""
    if column in SHARES:
        axes.set_ylim(0, 1.08)
        return
    known = points[column].dropna().tolist()
    ends = points.get(f"{column}_ci_high", points[column])
    top = max([*known, *ends.dropna()], default=1.0)
    if spans_decades(known):
        axes.set_yscale("log")
        axes.set_ylim(min(known) / 1.5, top * 1.5)
    else:
        axes.set_ylim(0, top * 1.1)
    plain_ticks(axes, "y")


def _ends(table: SweepTable) -> str:
    if table.seeds == 1:
        return ""
    return f"Means over {table.seeds} seeds with 95 % confidence intervals."
