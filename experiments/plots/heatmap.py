"""One number as a map over two swept fields; points that could not run are hatched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from experiments.percent import percent

from .colour_scale import ColourScale
from .held import held_in_words, held_values
from .style import (
    MUTED,
    WIDTH_IN,
    field_label,
    headline,
    headline_in,
    save,
    sentences,
    value_label,
)
from .sweep_table import Level, Row, SweepTable, panel_title


class Shown(NamedTuple):
    """What the cells hold. column: of the sweep's table. title: may name the SLO as {slo}.

    unit: of the numbers. is_cost: less is better. note: the share under the number, if any.
    """

    column: str
    title: str
    unit: str
    is_cost: bool = False
    note: str | None = None

    def printed(self, value: float) -> str:
        """A number as its cell says it; the best of a panel is chosen by this text.

        >>> shown = HEATMAPS["ttft-heatmap.png"]
        >>> shown.printed(1046.4), shown.printed(99.97), shown.printed(29.84)
        ('1,046', '100', '29.8')
        """
        if not self.is_cost:
            return f"{value:.2f}"
        return f"{value:,.0f}" if round(value, 1) >= _WHOLE_MS else f"{value:.1f}"


HEATMAPS = {
    "goodput-heatmap.png": Shown(
        "request_goodput",
        "Goodput: requests/s that meet {slo}",
        "requests/s",
        note="goodput_fraction",
    ),
    "ttft-heatmap.png": Shown("ttft_ms_p99", "TTFT p99 (ms)", "ms", is_cost=True),
    "tpot-heatmap.png": Shown("tpot_ms_p99", "TPOT p99 (ms)", "ms", is_cost=True),
}
"""File -> what it shows."""

_AXES = ("chunk_size", "max_num_batched_tokens", "rate", "max_num_seqs", "scheduler")
_LIMIT_NAMES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "e2el_ms": "E2E", "itl_max_ms": "worst ITL"}
_NO_GOODPUT = "0.00"
"""As printed; no best."""
_WHOLE_MS = 100
"""Latencies from here on are written without decimals."""

_NAMED_PANELS = 12
"""Schedulers and other names that have panels; of numbers some between the others are left out."""

_EMPTY, _HATCH = "#f2f2f2", "#b5b5b5"
_MARGIN_IN = 2.0
"""Of the width, what labels and the colour bar take."""
_DIGIT_PT, _TITLE_DIGIT_PT = 7.0, 7.9
"""Width of a character of a tick and of a panel's title, about."""


class Map(NamedTuple):
    """What the cells of every panel share: what they show, the axes' fields, the looks."""

    table: SweepTable
    shown: Shown
    across: str
    up: str
    colours: ColourScale
    cell_pt: float
    size_pt: float


def draw_heatmap(table: SweepTable, path: Path) -> Path | None:
    """The map of `HEATMAPS` with this name; None with fewer than two swept fields or no number.

    Darker is better: more goodput, or less latency (on a log scale). The best of each panel, and
    what prints the same, is bold.
    """
    shown = HEATMAPS[path.name]
    fields = [field for field in _AXES if field in table.swept]
    fields += [field for field in table.swept if field not in fields]
    if len(fields) < 2:
        return None
    across, up = fields[:2]
    held, panels = _panels(table, [field for field in table.swept if field not in fields[:2]])
    values = table.where(held, table.measured)[shown.column].dropna().to_numpy(np.float64)
    if not len(values):
        return None
    rows, columns = len(panels), len(panels[0])
    cell_pt = 72 * (WIDTH_IN - _MARGIN_IN) / columns / len(table.levels(across))
    colours = ColourScale(values, is_cost=shown.is_cost)
    area = Map(table, shown, across, up, colours, cell_pt, _size_pt(shown, values, cell_pt))
    lines = (
        "Darker is better." if shown.is_cost else "",
        sentences(table.means_in_words(), held_in_words(held)),
        _thinned(table, panels),
        table.setting,
    )
    titles = _titles([panel for row in panels for panel in row], columns)
    tall = 0.56 * len(table.levels(up)) + 0.45 + 0.19 * any("\n" in title for title in titles)
    figure = Figure(
        figsize=(WIDTH_IN, 1.37 + headline_in(*lines) + rows * tall), layout="constrained"
    )
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    headline(figure, shown.title.format(slo=_limits(table.slo)), *lines)
    every = (panel for row in panels for panel in row)
    for axes, panel, title in zip(grid.flat, every, titles, strict=True):
        if panel is None:
            axes.remove()
            grid[-2, -1].tick_params(labelbottom=True)
            continue
        _draw_cells(axes, area, {**held, **panel})
        axes.set_title(title)
    colours.draw_bar(figure, shown.unit, rows * tall)
    figure.supxlabel(field_label(across), fontsize=11)
    figure.supylabel(field_label(up), fontsize=11)
    return save(figure, path)


def _panels(
    table: SweepTable, fields: list[str]
) -> tuple[dict[str, Level], list[list[dict[str, Level] | None]]]:
    """What is held, and rows of panels: two fields span a matrix, one fills rows of two."""
    alone = [field for field in fields if len(table.measured_levels(field)) < 2]
    fields = [field for field in fields if field not in alone]
    held = held_values(table, [*alone, *fields[2:]])
    if not fields:
        return held, [[{}]]
    if len(fields) == 1:
        values = table.facets(fields[0], 6, names=_NAMED_PANELS)
        every: list[dict[str, Level] | None] = [{fields[0]: value} for value in values]
        every += [None] * (len(every) % 2)
        return held, [every[start : start + 2] for start in range(0, len(every), 2)]
    if table.is_named(fields[1]):
        fields[:2] = fields[1::-1]  # names go down, where there is room for all of them
    down = table.facets(fields[0], 4, names=_NAMED_PANELS)
    right = table.facets(fields[1], 3)
    return held, [[{fields[0]: y, fields[1]: x} for x in right] for y in down]


def _thinned(table: SweepTable, panels: Sequence[Sequence[Mapping[str, Level] | None]]) -> str:
    shown: dict[str, list[Level]] = {}
    for panel in (panel for row in panels for panel in row if panel):
        for field, level in panel.items():
            if level not in shown.setdefault(field, []):
                shown[field].append(level)
    return table.thinned_in_words(shown)


def _titles(panels: Sequence[Mapping[str, Level] | None], columns: int) -> list[str]:
    """What is fixed in each, on a line a field if one line is too wide for some panel."""
    titles = [panel_title(panel or {}) for panel in panels]
    room = 72 * (WIDTH_IN - _MARGIN_IN) / columns
    if max(map(len, titles)) * _TITLE_DIGIT_PT <= room:
        return titles
    return [
        ",\n".join(panel_title({field: level}) for field, level in (panel or {}).items())
        for panel in panels
    ]


def _limits(slo: Mapping[str, float]) -> str:
    return ", ".join(
        f"{_LIMIT_NAMES[name]} ≤ {value_label(float(ms))} ms" for name, ms in slo.items()
    )


def _draw_cells(axes: Axes, area: Map, panel: Mapping[str, Level]) -> None:
    right, up = area.table.levels(area.across), area.table.levels(area.up)
    rows = area.table.where(panel)
    column = area.shown.column
    best = _best(area, area.table.where(panel, area.table.measured)[column])
    for y, upper in enumerate(up):
        for x, left in enumerate(right):
            found = area.table.where({area.across: left, area.up: upper}, rows)
            row = found.iloc[0].to_dict()
            if row["status"] == "ok" and not np.isnan(row[column]):
                _draw_number(axes, (x, y), row, area, best)
            else:
                label = "no number" if row["status"] == "ok" else str(row["status"])
                _draw_hatched(axes, (x, y), label)
    axes.set_xlim(-0.5, len(right) - 0.5)
    axes.set_ylim(-0.5, len(up) - 0.5)
    names = [value_label(level) for level in right]
    crowded = max(map(len, names)) * _DIGIT_PT > area.cell_pt
    axes.set_xticks(
        range(len(right)),
        names,
        rotation=45 if crowded else 0,
        ha="right" if crowded else "center",
        rotation_mode="anchor",
    )
    axes.set_yticks(range(len(up)), [value_label(level) for level in up])
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _best(area: Map, values: pd.Series[float]) -> str | None:
    """The best of a panel as printed; None without a number or any goodput."""
    known = values.dropna()
    if known.empty:
        return None
    best = area.shown.printed(float(known.min() if area.shown.is_cost else known.max()))
    return None if best == _NO_GOODPUT else best


def _draw_number(axes: Axes, at: tuple[int, int], row: Row, area: Map, best: str | None) -> None:
    x, y = at
    value = float(row[area.shown.column])
    shade, ink = area.colours.shade(value), area.colours.ink(value)
    axes.add_patch(
        Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade, edgecolor="white", linewidth=1.5)
    )
    text = area.shown.printed(value)
    weight = "bold" if text == best else "normal"
    size_pt, note = area.size_pt, area.shown.note
    place = "center" if note is None else "bottom"
    axes.text(x, y, text, ha="center", va=place, fontsize=size_pt, color=ink, weight=weight)
    if note is not None:
        share = percent(float(row[note]), 0)
        axes.text(x, y - 0.06, share, ha="center", va="top", fontsize=0.82 * size_pt, color=ink)


def _size_pt(shown: Shown, values: NDArray[np.float64], cell_pt: float) -> float:
    """Of the numbers, so that the longest (a bold digit is 0.7 of its size wide) fits its cell."""
    longest = max(len(shown.printed(value)) for value in values.tolist())
    return float(np.clip(0.9 * cell_pt / (0.7 * longest), 6.5, 11.0))


def _draw_hatched(axes: Axes, at: tuple[int, int], status: str) -> None:
    x, y = at
    axes.add_patch(
        Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=_EMPTY, edgecolor=_HATCH, hatch="///")
    )
    box = {"facecolor": _EMPTY, "edgecolor": "none", "pad": 1.5}
    axes.text(x, y, status, ha="center", va="center", fontsize=9, color=MUTED, bbox=box)
