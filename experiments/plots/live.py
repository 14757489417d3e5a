"""Served against simulated: both timelines, and every step and request beside its prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

from .style import (
    DECODE,
    INK,
    MUTED,
    PREFILL,
    WIDTH_IN,
    headline,
    house_style,
    legend_rows,
    plain_ticks,
    save,
    spans_decades,
)
from .timeline import Lane, draw_timeline

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]  # Any: integers or floats

STEPS_IN_SIGHT = 90
COLOURS = {"decode": DECODE, "mixed": PREFILL, "prompt": "#009E73"}
MARKS = {"decode": "o", "mixed": "s", "prompt": "^"}
PANELS = {"step_ms": "each step", "ttft_ms": "TTFT", "tpot_ms": "TPOT", "e2el_ms": "E2E"}


@dataclass(frozen=True, slots=True, eq=False)
class LivePanels:
    """What is drawn. served, simulated: columns start_ms, duration_ms, prefill_tokens, decode_seqs
    of both runs' steps. pairs: quantity -> (served, simulated), ms; steps are `step_ms`, of kinds.
    """

    served: Columns
    simulated: Columns
    pairs: Mapping[str, tuple[Floats, Floats]]
    kinds: Sequence[str]


def draw_live(report: Mapping[str, Any], panels: LivePanels, path: Path) -> Path:
    """Draw the figure; returns the path. report: report.json. Any: JSON values."""
    with house_style():
        figure = Figure(figsize=(WIDTH_IN, 8.2), layout="constrained")
        grid = figure.add_gridspec(3, 4, height_ratios=(1.0, 1.0, 1.9))
        top = figure.add_subplot(grid[0, :])
        lanes = [top, figure.add_subplot(grid[1, :], sharex=top)]
        headline(figure, f"{report['model']}, served and simulated", _subtitle(report))
        _draw_lanes(lanes, panels)
        for column, (name, title) in enumerate(PANELS.items()):
            axes = figure.add_subplot(grid[2, column])
            _draw_pairs(axes, panels, name)
            error = report["errors"][name]["mean"]
            told = "" if error is None else f"\nmean {100 * error:+.1f} %"
            axes.set_title(f"{title}{told}", fontsize=10.5)
        legend_rows(figure, [_legend(panels)])
        return save(figure, path)


def _subtitle(report: Mapping[str, Any]) -> str:  # Any: JSON values
    scheduler = report["scheduler"]
    return (
        f"{report['finished']} requests, run 1 of {report['repeats']}, "
        f"scheduler {scheduler['name']}, {report['dtype']} on {report['device']}"
    )


def _draw_lanes(lanes: Sequence[Axes], panels: LivePanels) -> None:
    """The stretch of the served run with most prompt tokens, in both."""
    served, simulated = pd.DataFrame(panels.served), pd.DataFrame(panels.simulated)
    count = min(STEPS_IN_SIGHT, len(served))
    tokens = np.concatenate(([0], np.cumsum(served["prefill_tokens"].to_numpy())))
    first = int(np.argmax(tokens[count:] - tokens[: len(tokens) - count]))
    start_ms = float(served["start_ms"].iloc[first])
    last = served.iloc[first + count - 1]
    end_ms = float(last["start_ms"] + last["duration_ms"])
    names = ("served: a real decoder", "simulated with the table")
    runs = [Lane(name, steps) for name, steps in zip(names, (served, simulated), strict=True)]
    draw_timeline(lanes, runs, arrival_ms=-1.0, start_ms=start_ms, end_ms=end_ms)
    lanes[0].tick_params(axis="x", labelbottom=False)


def _draw_pairs(axes: Axes, panels: LivePanels, name: str) -> None:
    measured, predicted = panels.pairs[name]
    if not len(measured):
        axes.text(0.5, 0.5, "no sample", transform=axes.transAxes, ha="center", color=MUTED)
        return
    kinds = np.array(panels.kinds) if name == "step_ms" else np.full(len(measured), "")
    for kind in dict.fromkeys(kinds.tolist()):
        here = kinds == kind
        axes.scatter(
            *(measured[here], predicted[here]),
            s=14,
            alpha=0.55,
            color=COLOURS.get(kind, INK),
            marker=MARKS.get(kind, "o"),
            linewidths=0,
            zorder=3,
        )
    both = np.concatenate((measured, predicted))
    if spans_decades(both.tolist()):
        axes.set(xscale="log", yscale="log")
    low, high = 0.9 * float(both.min()), 1.1 * float(both.max())
    axes.plot([low, high], [low, high], color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
    axes.set(xlim=(low, high), ylim=(low, high), xlabel="served (ms)")
    axes.set_ylabel("simulated (ms)" if name != "step_ms" else "price (ms)")
    axes.set_box_aspect(1)
    for which, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        plain_ticks(axes, which)
        if axes.get_xscale() == "log":  # these panels have no room for 1, 2 and 5
            axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))


def _legend(panels: LivePanels) -> list[Line2D]:
    drawn = [kind for kind in COLOURS if kind in panels.kinds]
    marks = [
        Line2D(
            [], [], color=COLOURS[kind], marker=MARKS[kind], linestyle="none", label=f"{kind} step"
        )
        for kind in drawn
    ]
    request = Line2D([], [], color=INK, marker="o", linestyle="none", label="request")
    equal = Line2D([], [], color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label="equal")
    return [*marks, request, equal]
