"""Two logs beside each other: cumulative distributions, and quantile against quantile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.compare.comparison import NAMES
from experiments.compare.files import SavedComparison, load_comparison

from .style import (
    DECODE,
    INK,
    OKABE_ITO,
    WIDTH_IN,
    dot,
    headline,
    legend_rows,
    plain_ticks,
    save,
    spans_decades,
)

OTHER = OKABE_ITO[1]
_DASH = (0, (4, 2))
_MARKED = (0.5, 0.9, 0.99)
"""Quantiles with a mark of their own."""


def draw_comparison(folder: Path, figures: Path) -> list[Path]:
    """`cdf.png` and `qq.png`; nothing when no metric has samples in both logs.

    Raises:
        ConfigError: the folder holds no comparison.
    """
    saved = load_comparison(folder)
    kept = saved.distributions[saved.distributions["metric"] != "norm_latency_ms"]
    saved = replace(saved, distributions=kept)
    if saved.distributions.empty:
        return []
    return [_draw_cdf(saved, figures / "cdf.png"), _draw_qq(saved, figures / "qq.png")]


def _panels(saved: SavedComparison, title: str, *lines: str) -> tuple[Figure, list[Axes]]:
    """A panel a metric, two columns."""
    count = saved.distributions["metric"].nunique()
    columns = min(2, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH_IN, 1.7 + 3.0 * rows), layout="constrained")
    headline(figure, title, *lines)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in list(grid.flat)[count:]:
        axes.remove()
    return figure, list(grid.flat)[:count]


def _draw_cdf(saved: SavedComparison, path: Path) -> Path:
    one, two = saved.names
    figure, panels = _panels(saved, "How the two are distributed", f"{two} against {one}")
    groups = saved.distributions.groupby("metric", sort=False)
    for axes, (metric, part) in zip(panels, groups, strict=True):
        share = part["share"].to_numpy(np.float64)
        for side, colour, style in (("reference", DECODE, "-"), ("other", OTHER, _DASH)):
            axes.plot(part[side], share, color=colour, linestyle=style, linewidth=2)
        apart = saved.found["distributions_apart"].get(metric)
        note = "" if apart is None else f": at most {100 * apart:.0f} % apart"
        axes.set_title(f"{NAMES[str(metric)]}{note}")
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("ms")
        axes.set_ylabel("share of gaps" if metric == "itl_ms" else "share of requests")
        _scale(axes, part, ("x",))
    legend_rows(figure, [_legend(one, two)])
    return save(figure, path)


def _draw_qq(saved: SavedComparison, path: Path) -> Path:
    one, two = saved.names
    figure, panels = _panels(
        saved,
        "Quantile against quantile",
        "On the line the two are distributed alike; above it the other is slower.",
        f"{two} against {one}",
    )
    groups = saved.distributions.groupby("metric", sort=False)
    for axes, (metric, part) in zip(panels, groups, strict=True):
        axes.plot(part["reference"], part["other"], color=DECODE, linewidth=2.2)
        for share in _MARKED:
            row = part.iloc[(part["share"] - share).abs().argmin()]
            axes.plot(row["reference"], row["other"], "o", color=OTHER, markersize=6, zorder=4)
        axes.set_title(NAMES[str(metric)])
        axes.set_xlabel(f"{_short(one)} (ms)")
        axes.set_ylabel(f"{_short(two)} (ms)")
        _scale(axes, part, ("x", "y"))
        low = max(axes.get_xlim()[0], axes.get_ylim()[0])
        high = min(axes.get_xlim()[1], axes.get_ylim()[1])
        axes.plot([low, high], [low, high], color=INK, linewidth=1, linestyle=_DASH, zorder=1)
    line = Line2D([], [], color=INK, linewidth=1, linestyle=_DASH, label="equal")
    curve = Line2D([], [], color=DECODE, label="quantiles")
    legend_rows(figure, [[curve, dot("p50, p90, p99", OTHER, "o"), line]])
    return save(figure, path)


def _scale(axes: Axes, part: pd.DataFrame, which: Sequence[str]) -> None:
    """The same range for all axes of a panel: log over decades, else from zero."""
    values = np.concatenate([part[side].to_numpy(np.float64) for side in ("reference", "other")])
    positive = values[values > 0]
    if len(positive) and spans_decades(positive.tolist()):
        limits = (float(np.quantile(positive, 0.002)) / 1.15, float(positive.max()) * 1.15)
    else:
        limits = (0.0, float(values.max()) * 1.05 or 1.0)
    for axis in which:
        log = limits[0] > 0
        axes.set(**{f"{axis}scale": "log" if log else "linear", f"{axis}lim": limits})
        plain_ticks(axes, axis)


def _legend(one: str, two: str) -> list[Line2D]:
    return [
        Line2D([], [], color=DECODE, label=one),
        Line2D([], [], color=OTHER, linestyle=_DASH, label=two),
    ]


def _short(name: str) -> str:
    return name if len(name) < 30 else f"{name[:28]}…"
