"""One number as a map over two swept fields; points that could not run are hatched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from experiments.percent import percent

from .held import held_values
from .style import INK, MUTED, WIDTH_IN, field_label, headline, save, value_label
from .sweep_table import Level, Row, SweepTable, panel_title


class Shown(NamedTuple):
    """What the cells hold. column: of the sweep's table. title: may name the SLO as {slo}.

    is_cost: less is better. note: the share written under the number, if any.
    """

    column: str
    title: str
    is_cost: bool = False
    note: str | None = None


HEATMAPS = {
    "goodput-heatmap.png": Shown(
        "request_goodput",
        "Goodput: requests/s that meet {slo}",
        note="goodput_fraction",
    ),
    "ttft-heatmap.png": Shown("ttft_ms_p99", "TTFT p99 (ms)", is_cost=True),
    "tpot-heatmap.png": Shown("tpot_ms_p99", "TPOT p99 (ms)", is_cost=True),
}
"""File -> what it shows."""

_AXES = ("chunk_size", "max_num_batched_tokens", "rate", "max_num_seqs", "scheduler")
_LIMIT_NAMES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "e2el_ms": "E2E", "itl_max_ms": "worst ITL"}
_SHOWN = 0.005
"""Anything less is written 0.00, and no best."""
_TINY_MS = 1e-6
_WHOLE_MS = 100
"""Latencies from here on are written without decimals."""

_EMPTY, _HATCH = "#f2f2f2", "#b5b5b5"


class Map(NamedTuple):
    """What the cells of every panel share: what they show, the axes' fields, the colour scale."""

    table: SweepTable
    shown: Shown
    across: str
    up: str
    scale: Normalize


def draw_heatmap(table: SweepTable, path: Path) -> Path | None:
    """The map of `HEATMAPS` with this name; None with fewer than two swept fields or no number.

    Darker is better: more goodput, or less latency (on a log scale).
    """
    shown = HEATMAPS[path.name]
    fields = [field for field in _AXES if field in table.swept]
    fields += [field for field in table.swept if field not in fields]
    if len(fields) < 2 or table.measured[shown.column].isna().all():
        return None
    area = Map(table, shown, fields[0], fields[1], _scale(table, shown))
    held, panels = _panels(table, [field for field in table.swept if field not in fields[:2]])
    rows, columns = len(panels), len(panels[0])
    height = 0.56 * len(table.levels(area.up)) + 0.45
    figure = Figure(
        figsize=(WIDTH_IN, 1.6 + 0.23 * shown.is_cost + height * rows), layout="constrained"
    )
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    setting = ", ".join(filter(None, [table.setting, panel_title(held)]))
    reading = "Darker is better." if shown.is_cost else ""
    headline(figure, shown.title.format(slo=_limits(table.slo)), reading, setting)
    for axes, panel in zip(grid.flat, (p for row in panels for p in row), strict=True):
        if panel is None:
            axes.remove()
            continue
        _draw_cells(axes, area, {**held, **panel})
        axes.set_title(panel_title(panel))
    figure.supxlabel(field_label(area.across), fontsize=11)
    figure.supylabel(field_label(area.up), fontsize=11)
    return save(figure, path)


def _panels(
    table: SweepTable, fields: list[str]
) -> tuple[dict[str, Level], list[list[dict[str, Level] | None]]]:
    """What is held, and rows of panels: two fields span a matrix, one fills rows of two."""
    fields = [field for field in fields if len(table.measured_levels(field)) > 1]
    held = held_values(table, fields[2:])
    if not fields:
        return held, [[{}]]
    if len(fields) == 1:
        every: list[dict[str, Level] | None] = [{fields[0]: v} for v in table.facets(fields[0], 6)]
        every += [None] * (len(every) % 2)
        return held, [every[start : start + 2] for start in range(0, len(every), 2)]
    down, right = table.facets(fields[0], 4), table.facets(fields[1], 3)
    return held, [[{fields[0]: y, fields[1]: x} for x in right] for y in down]


def _limits(slo: Mapping[str, float]) -> str:
    return ", ".join(
        f"{_LIMIT_NAMES[name]} ≤ {value_label(float(ms))} ms" for name, ms in slo.items()
    )


def _draw_cells(axes: Axes, area: Map, panel: Mapping[str, Level]) -> None:
    right, up = area.table.levels(area.across), area.table.levels(area.up)
    rows = area.table.where(panel)
    column = area.shown.column
    ran = area.table.where(panel, area.table.measured)[column]
    best = float(ran.min() if area.shown.is_cost else ran.max())
    for y, upper in enumerate(up):
        for x, left in enumerate(right):
            found = area.table.where({area.across: left, area.up: upper}, rows)
            row = found.iloc[0].to_dict()
            if row["status"] == "ok" and not np.isnan(row[column]):
                _draw_number(axes, (x, y), row, area, is_best=row[column] == best >= _SHOWN)
            else:
                label = "no number" if row["status"] == "ok" else str(row["status"])
                _draw_hatched(axes, (x, y), label)
    axes.set_xlim(-0.5, len(right) - 0.5)
    axes.set_ylim(-0.5, len(up) - 0.5)
    axes.set_xticks(range(len(right)), [value_label(level) for level in right])
    axes.set_yticks(range(len(up)), [value_label(level) for level in up])
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _draw_number(axes: Axes, at: tuple[int, int], row: Row, area: Map, *, is_best: bool) -> None:
    x, y = at
    value = float(row[area.shown.column])
    depth = area.scale(np.log(max(value, _TINY_MS)) if area.shown.is_cost else value)
    shade = mpl.colormaps["GnBu"](0.04 + 0.90 * (1 - depth if area.shown.is_cost else depth))
    axes.add_patch(
        Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade, edgecolor="white", linewidth=1.5)
    )
    luminance = 0.30 * shade[0] + 0.59 * shade[1] + 0.11 * shade[2]
    ink = "white" if luminance < 0.55 else INK
    weight = "bold" if is_best else "normal"
    if area.shown.note is None:
        text = f"{value:,.0f}" if value >= _WHOLE_MS else f"{value:.1f}"
        axes.text(x, y, text, ha="center", va="center", fontsize=11, color=ink, weight=weight)
        return
    share = percent(float(row[area.shown.note]), 0)
    axes.text(x, y, f"{value:.2f}", ha="center", va="bottom", fontsize=11, color=ink, weight=weight)
    axes.text(x, y - 0.06, share, ha="center", va="top", fontsize=9, color=ink)


def _scale(table: SweepTable, shown: Shown) -> Normalize:
    """From no goodput to the most, or over the decades of a latency."""
    values = table.measured[shown.column].dropna().to_numpy(np.float64)
    if not shown.is_cost:
        return Normalize(0, max(float(values.max()), 1e-9))
    decades = np.log(np.maximum(values, _TINY_MS))
    return Normalize(float(decades.min()), max(float(decades.max()), float(decades.min()) + 1e-9))


def _draw_hatched(axes: Axes, at: tuple[int, int], status: str) -> None:
    x, y = at
    axes.add_patch(
        Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=_EMPTY, edgecolor=_HATCH, hatch="///")
    )
    box = {"facecolor": _EMPTY, "edgecolor": "none", "pad": 1.5}
    axes.text(x, y, status, ha="center", va="center", fontsize=9, color=MUTED, bbox=box)
