"""One figure a study: how much load each policy serves, and who waits how long for it."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.studies.study import ENOUGH, Outcome

from .style import (
    GOOD,
    INK,
    MARKERS,
    MUTED,
    OKABE_ITO,
    WIDTH_IN,
    headline,
    house_style,
    legend_rows,
    plain_ticks,
    save,
)

COLOURS = (*OKABE_ITO, MUTED)
QUANTITY_MARKS = (("o", INK), ("s", "white"), ("D", MUTED))
"""Marker and filling of the quantities of the right panel, in their order."""


def draw_study(outcome: Outcome, path: Path) -> Path:
    """Left: share of good requests against load, if there are several loads. Right: who waits."""
    study = outcome.study
    several = len(study.loads) > 1
    order = outcome.ranked() if several else _by_first_quantity(outcome)
    colours = dict(zip(study.candidates, COLOURS, strict=False))
    with house_style():
        figure = Figure((WIDTH_IN, 2.6 + 0.36 * len(order)), layout="constrained")
        headline(figure, study.title, study.question)
        if several:
            left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.05))
            _shares(left, outcome, colours)
        else:
            right = figure.subplots()
        marks = _waits(right, outcome, order)
        if several:
            for label in right.get_yticklabels():
                label.set_color(colours[label.get_text()])
                label.set_fontweight("bold")
        legend_rows(figure, [marks])
        return save(figure, path)


def _shares(axes: Axes, outcome: Outcome, colours: dict[str, str]) -> None:
    study = outcome.study
    for place, candidate in enumerate(study.candidates):
        shares = [100 * outcome.good(candidate, load) for load in study.loads]
        marker = MARKERS[place % len(MARKERS)]
        axes.plot(study.loads, shares, color=colours[candidate], marker=marker, markersize=6)
    axes.axhspan(100 * ENOUGH, 101, color=GOOD, zorder=0)
    axes.set_ylim(min(axes.get_ylim()[0], 80), 101)
    worst = ", class that fares worst" if len(study.limits) > 1 else ""
    axes.set_title(f"Good requests{worst}")
    axes.set_xlabel(study.load_label)
    axes.set_ylabel("within the limits (%)")


def _waits(axes: Axes, outcome: Outcome, order: list[str]) -> list[Line2D]:
    study = outcome.study
    seconds = all(quantity.endswith("_s") for quantity, _ in study.shown.values())
    marks: list[Line2D] = []
    places = range(len(order))
    for (label, (quantity, group)), (marker, filling) in zip(
        study.shown.items(), QUANTITY_MARKS, strict=True
    ):
        values = [outcome.mean(candidate, quantity, group) for candidate in order]
        (drawn,) = axes.plot(
            values,
            places,
            linestyle="none",
            marker=marker,
            markersize=8,
            markerfacecolor=filling,
            markeredgecolor=INK,
            label=label,
        )
        marks.append(drawn)
    axes.set_yticks(list(places), order)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xscale("log")
    plain_ticks(axes, "x")
    axes.set_xlabel("seconds" if seconds else "ms")
    several = len(study.loads) > 1
    axes.set_title(f"Who waits, at {study.at:g} {study.load_label}" if several else "Who waits")
    return marks


def _by_first_quantity(outcome: Outcome) -> list[str]:
    quantity, group = list(outcome.study.shown.values())[1]
    return sorted(outcome.study.candidates, key=lambda c: outcome.mean(c, quantity, group))
