"""Attainment against the rate: how the share of requests within each limit falls off."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from experiments.search.saved import load_search

from .style import (
    INK,
    MARKERS,
    MUTED,
    WIDTH_IN,
    headline,
    legend_rows,
    palette,
    plain_ticks,
    save,
    short_label,
    value_label,
)

REQUESTS = "requests"
MOST_NINES = 4
Answer = dict[str, Any]
"""One of search.json's answers. Any: JSON values."""


class Panel(NamedTuple):
    """A limit: its column, its words, and the share that must be within it (None: no share)."""

    column: str
    words: str
    target: float | None


def draw_search(folder: Path, path: Path) -> Path | None:
    """`attainment.png` from search.json and evaluations.parquet; None if no rate was found.

    Raises:
        ConfigError: the folder holds no finished search, or a file of it is damaged.
    """
    report, runs = load_search(folder)
    answers = [each for each in report["answers"] if each["rate"]]
    if not answers:
        return None
    panels = _panels(report["question"]["slo"])
    figure = Figure(figsize=(WIDTH_IN, 2.1 + 2.7 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    headline(
        figure,
        "How much load each configuration takes within the SLO",
        "Up and right is better. Dotted: the highest rate that meets all limits; bar at the foot: "
        "its 95 % confidence interval. Hollow marks: the queue grows (saturated).",
        _setting(report),
    )
    colours = dict(zip((each["scheduler"] for each in answers), palette(len(answers)), strict=True))
    for axes, panel in zip(grid, panels, strict=True):
        for answer, marker in zip(answers, MARKERS * len(answers), strict=False):
            _draw_line(axes, answer, runs, panel, (colours[answer["scheduler"]], marker))
        _mark(axes, panel, answers, colours)
    rates = [each["rate"] for each in answers]
    grid[-1].set_xlim(0.4 * min(rates), 1.55 * max(rates))
    grid[-1].set_xlabel("arrival rate (requests/s)")
    plain_ticks(grid[-1], "x")
    legend_rows(figure, [[_entry(a, colours, m)] for a, m in zip(answers, MARKERS, strict=False)])
    return save(figure, path)


def _panels(slo: dict[str, Any]) -> list[Panel]:  # Any: JSON values
    panels = []
    for name, limit_ms in slo["limits"].items():
        metric, _, statistic = name.rpartition("_")
        target = float(statistic[1:]) / 100 if statistic[0] == "p" else None
        words = f"{metric.upper()} {statistic} ≤ {value_label(limit_ms)} ms"
        panels.append(Panel(f"{name}_share", words, target))
    if slo["per_request"]:
        each = [
            f"{k.removesuffix('_ms').upper()} ≤ {v:g} ms" for k, v in slo["per_request"].items()
        ]
        words = f"{100 * slo['attainment']:g} % of requests with {' and '.join(each)}"
        panels.append(Panel(f"{REQUESTS}_share", words, slo["attainment"]))
    return panels


def _draw_line(
    axes: Axes, answer: Answer, runs: pd.DataFrame, panel: Panel, look: tuple[str, str]
) -> None:
    own = runs[(runs["configuration"] == answer["configuration"]) & (runs["replicate"] == 0)]
    own = own[own["error"].isna()].sort_values("rate")
    own = own[own["rate"] <= 1.55 * answer["rate"]]
    missed = (1 - own[panel.column]).clip(10.0**-MOST_NINES, 1.0)
    colour, marker = look
    axes.plot(own["rate"], missed, color=colour, linewidth=1.6, zorder=2)
    for saturated, fill in ((False, colour), (True, "white")):
        chosen = own["saturated"] == saturated
        axes.plot(
            own["rate"][chosen],
            missed[chosen],
            marker=marker,
            color=colour,
            markerfacecolor=fill,
            markersize=5,
            linestyle="none",
            zorder=3,
        )


def _mark(axes: Axes, panel: Panel, answers: list[Answer], colours: dict[str, str]) -> None:
    axes.set_title(panel.words)
    axes.set_yscale("log")
    axes.set_ylim(3.0, 10.0**-MOST_NINES / 1.4)
    axes.yaxis.set_major_locator(FixedLocator([10.0**-nines for nines in range(MOST_NINES + 1)]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_nines))
    axes.set_ylabel("within the limit")
    if panel.target is not None and panel.target < 1:
        axes.axhline(1 - panel.target, color=INK, linewidth=1.4, linestyle="--", zorder=1)
        axes.text(
            *(0.005, (1 - panel.target) * 1.25),
            f"needed: {100 * panel.target:g} %",
            transform=axes.get_yaxis_transform(),
            fontsize=9,
            color=MUTED,
            va="top",
        )
    for row, answer in enumerate(answers):
        colour, sure = colours[answer["scheduler"]], answer["certainty"]
        axes.axvline(answer["rate"], color=colour, linewidth=1.2, linestyle=":", zorder=1)
        if sure:
            foot = 0.03 + 0.035 * row
            axes.plot(
                [sure["ci_low"], sure["ci_high"]],
                [foot, foot],
                color=colour,
                linewidth=3,
                transform=axes.get_xaxis_transform(),
                solid_capstyle="butt",
            )


def _nines(missed: float, _: int | None) -> str:
    """A tick; the last one stands for all that is above it.

    >>> _nines(0.01, None), _nines(0.0001, None)
    ('99 %', '≥ 99.99 %')
    """
    above = "≥ " if missed < 2 * 10.0**-MOST_NINES else ""
    return f"{above}{100 * (1 - missed):g} %"


def _entry(answer: Answer, colours: dict[str, str], marker: str) -> Line2D:
    settings = ", ".join(
        f"{short_label(name)} {value_label(value)}"
        for name, value in answer["settings"].items()
        if name not in answer["unused"]
    )
    named = f"{answer['scheduler']}: {answer['rate']:g}/s" + (f" ({settings})" if settings else "")
    return Line2D([], [], color=colours[answer["scheduler"]], marker=marker, label=named)


def _setting(report: dict[str, Any]) -> str:  # Any: JSON values
    workload, table = report["workload"], report["cost_model"]
    named = workload.get("name") or workload.get("file", {}).get("name") or "generated workload"
    stamp = f" ({table['stamp'].partition(':')[0]})" if table["stamp"] else ""
    return f"{named}, {report['requests']:,} requests, {table['name']}{stamp}"
