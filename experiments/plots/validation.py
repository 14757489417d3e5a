"""Predicted against measured: each pair and distributions, a figure a quantity; errors by load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.validation.report import DatasetReport, Samples, mean_absolute_error

from .style import INK, MARKERS, MUTED, OKABE_ITO, WIDTH_IN, house_style, save

MOST_POINTS = 4000
"""A scatter of more is one blot: every k-th pair is drawn, the curves use all."""
WIDEST_OF_THREE = 36
"""Characters of a legend line of which three fit side by side."""


def draw_validation(report: DatasetReport, folder: Path) -> list[Path]:
    """One PNG a quantity of the samples, and one of errors by load; returns their paths."""
    quantities = dict.fromkeys(samples.quantity for samples in report.samples)
    loads = {samples.load for samples in report.samples if samples.load is not None}
    with house_style():
        drawn = [
            _draw(report, quantity, folder / f"{report.dataset}-{_file_name(quantity)}.png")
            for quantity in quantities
        ]
        if len(loads) > 1:
            drawn.append(_draw_loads(report, folder / f"{report.dataset}-error-by-load.png"))
    return drawn


def _file_name(quantity: str) -> str:
    """
    >>> _file_name("step_ms (decode)")
    'step-ms-decode'
    """
    words = "".join(c if c.isalnum() else " " for c in quantity).split()
    return "-".join(words)


def _draw(report: DatasetReport, quantity: str, path: Path) -> Path:
    held = [samples for samples in report.samples if samples.quantity == quantity]
    figure = Figure(figsize=(WIDTH_IN, 4.6 + 0.22 * len(held)), layout="constrained")
    axes = figure.subplots(1, 2)
    name, unit = _words(quantity)
    _scatter(axes[0], held, f"{name} ({unit})")
    _distributions(axes[1], held, f"{name} ({unit})")
    _legend(figure, axes[0])
    figure.suptitle(
        f"{name}: simulated against measured, {report.dataset}", x=0.01, ha="left", weight="bold"
    )
    return save(figure, path)


def _draw_loads(report: DatasetReport, path: Path) -> Path:
    held = [samples for samples in report.samples if samples.load is not None]
    quantities = list(dict.fromkeys(samples.quantity for samples in held))
    runs = list(dict.fromkeys(samples.run for samples in held))
    figure = Figure(figsize=(WIDTH_IN, 4.0 + 0.13 * len(runs)), layout="constrained")
    axes = figure.subplots(1, len(quantities), squeeze=False)[0]
    for ax, quantity in zip(axes, quantities, strict=True):
        of = [samples for samples in held if samples.quantity == quantity]
        _error_by_load(ax, of, runs, f"mean {_words(quantity)[0]}")
    _legend(figure, axes[0])
    figure.suptitle(
        f"Error of the simulated means by load, {report.dataset}", x=0.01, ha="left", weight="bold"
    )
    return save(figure, path)


def _legend(figure: Figure, ax: Axes) -> None:
    """One for the whole figure, below it."""
    handles, labels = ax.get_legend_handles_labels()
    columns = min(2 if max(map(len, labels)) > WIDEST_OF_THREE else 3, len(labels))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)


def _words(quantity: str) -> tuple[str, str]:
    """
    >>> _words("ttft_ms"), _words("step_ms (decode)"), _words("makespan_s")
    (('TTFT', 'ms'), ('step (decode)', 'ms'), ('makespan', 's'))
    """
    head, _, rest = quantity.partition(" ")
    stem, _, unit = head.rpartition("_")
    name = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "E2E", "itl": "ITL"}.get(stem, stem)
    return f"{name} {rest}".strip(), unit


def _colour(index: int) -> str:
    return OKABE_ITO[index % len(OKABE_ITO)]


def _marker(index: int) -> str:
    """Another one for each run of the same colour.

    >>> [(_colour(index), _marker(index)) for index in (0, 7)]
    [('#0072B2', 'o'), ('#0072B2', 's')]
    """
    return MARKERS[(index + index // len(OKABE_ITO)) % len(MARKERS)]


def _scatter(ax: Axes, held: Sequence[Samples], label: str) -> None:
    low = min(float(min(s.measured.min(), s.predicted.min())) for s in held)
    high = max(float(max(s.measured.max(), s.predicted.max())) for s in held)
    ax.plot([low, high], [low, high], color=MUTED, linewidth=1, linestyle="--", zorder=1)
    for index, samples in enumerate(held):
        step = -(-len(samples.measured) // MOST_POINTS)
        mape = mean_absolute_error(samples.measured, samples.predicted)
        ax.plot(
            *(samples.measured[::step], samples.predicted[::step]),
            linestyle="none",
            color=_colour(index),
            marker=_marker(index),
            markersize=3,
            alpha=0.5,
            label=f"{samples.run}: MAPE {100 * mape:.1f} %",
        )
    if low > 0 and high > 30 * low:
        ax.set(xscale="log", yscale="log")
    ax.set(title="each pair", xlabel=f"measured {label}", ylabel=f"simulated {label}")


def _distributions(ax: Axes, held: Sequence[Samples], label: str) -> None:
    for index, samples in enumerate(held):
        for values, style in ((samples.measured, "-"), (samples.predicted, ":")):
            ordered = np.sort(values)
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            ax.step(ordered, share, linestyle=style, color=_colour(index))
    ax.plot([], [], color=INK, linestyle="-", label="measured")
    ax.plot([], [], color=INK, linestyle=":", label="simulated")
    low = min(float(s.measured.min()) for s in held)
    if low > 0 and max(float(s.measured.max()) for s in held) > 30 * low:
        ax.set_xscale("log")
    ax.set(title="cumulative share", xlabel=label, ylabel="share of samples", ylim=(0, 1.02))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=9)


def _error_by_load(ax: Axes, held: Sequence[Samples], runs: Sequence[str], title: str) -> None:
    ax.axhline(0, color=MUTED, linewidth=1)
    for samples in held:
        index = runs.index(samples.run)
        mean = float(samples.predicted.mean() / samples.measured.mean() - 1)
        assert samples.load is not None
        ax.plot(
            *([samples.load], [100 * mean]),
            linestyle="none",
            color=_colour(index),
            marker=_marker(index),
            markersize=7,
            label=samples.run,
        )
    ax.set(title=title, xlabel="load (requests/s)", ylabel="error (%)")
