"""Sampled sweeps: every outcome against every drawn setting, a dot a point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from .style import (
    GOOD,
    INK,
    MUTED,
    OKABE_ITO,
    WIDTH_IN,
    dot,
    field_label,
    headline,
    legend_rows,
    plain_ticks,
    save,
    short_label,
    spans_decades,
    value_label,
)
from .sweep_table import SweepTable

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
    rank correlation, come first; at most four are drawn.
    """
    points = table.measured
    fields = sorted(table.sampled, key=lambda field: -_strength(points, field))[:MOST_FIELDS]
    figure = Figure(figsize=(WIDTH_IN, 8.2), layout="constrained")
    grid = figure.subplots(len(OUTCOMES), len(fields), squeeze=False, sharey="row", sharex="col")
    headline(
        figure,
        "Sampled settings: what goes with what",
        f"{len(points)} points; in each panel all other settings differ too. {_ends(points)}",
        table.setting,
    )
    for row, (column, (label, limit)) in zip(grid, OUTCOMES.items(), strict=True):
        for axes, field in zip(row, fields, strict=True):
            _draw(axes, points, field, column)
            if limit and limit in table.slo:
                axes.axhspan(0, table.slo[limit], color=GOOD, linewidth=0, zorder=0)
        row[0].set_ylabel(label)
        _scale(row[0], points[column])
    for axes, field in zip(grid[-1], fields, strict=True):
        axes.set_xlabel(field_label(field) if len(fields) < 3 else short_label(field))
    hollow = [dot("saturated: queue grew", MUTED, "o", hollow=True)]
    box = [Patch(color=GOOD, label="within the SLO")] if table.slo else []
    legend_rows(figure, [[dot("a point", OKABE_ITO[0], "o"), *hollow, *box]])
    return save(figure, path)


def _draw(axes: Axes, points: pd.DataFrame, field: str, column: str) -> None:
    places, names = _places(points[field])
    values = points[column].to_numpy(np.float64)
    if f"{column}_ci_low" in points:
        ends = points[[f"{column}_ci_low", f"{column}_ci_high"]].to_numpy(np.float64)
        axes.vlines(places, ends[:, 0].clip(0), ends[:, 1], color=OKABE_ITO[0], alpha=0.35)
    full = ~points["saturated"].to_numpy(bool)
    for chosen, fill in ((full, OKABE_ITO[0]), (~full, "white")):
        axes.plot(
            places[chosen],
            values[chosen],
            marker="o",
            color=OKABE_ITO[0],
            markerfacecolor=fill,
            markersize=5.5,
            linestyle="none",
        )
    if names:
        axes.set_xticks(range(len(names)), names, color=INK)
        axes.set_xlim(-0.5, len(names) - 0.5)
    elif spans_decades(places.tolist()):
        axes.set_xscale("log")
        plain_ticks(axes, "x")


def _places(column: pd.Series) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], list[str]]:
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


def _scale(axes: Axes, values: pd.Series) -> None:
    known = values.dropna().tolist()
    if axes.get_ylabel().startswith("requests"):
        axes.set_ylim(0, 1.05)
        return
    if spans_decades(known):
        axes.set_yscale("log")
        axes.set_ylim(min(known) / 1.5, max(known) * 1.5)
    else:
        axes.set_ylim(0, max(known, default=1.0) * 1.1)
    plain_ticks(axes, "y")


def _ends(points: pd.DataFrame) -> str:
    several = "ttft_ms_p99_ci_low" in points
    return "Bars: 95 % confidence of the mean over seeds." if several else ""
