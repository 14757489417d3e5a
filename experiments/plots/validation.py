"""Predicted against measured: scatter, distributions and error by load, one figure a quantity."""

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
    """One PNG a quantity of the report's samples; returns their paths."""
    quantities = dict.fromkeys(samples.quantity for samples in report.samples)
    with house_style():
        return [
            _draw(report, quantity, folder / f"{report.dataset}-{_file_name(quantity)}.png")
            for quantity in quantities
        ]


def _file_name(quantity: str) -> str:
    """
    >>> _file_name("step_ms (decode)")
    'step-ms-decode'
    """
    words = "".join(c if c.isalnum() else " " for c in quantity).split()
    return "-".join(words)


def _draw(report: DatasetReport, quantity: str, path: Path) -> Path:
    held = [samples for samples in report.samples if samples.quantity == quantity]
    loads = len({s.load for s in held if s.load is not None}) > 1
    figure = Figure(figsize=(WIDTH_IN, 4.6 + 0.22 * len(held)), layout="constrained")
    axes = figure.subplots(1, 3 if loads else 2)
    name, unit = _words(quantity)
    _scatter(axes[0], held, f"{name} ({unit})")
    _distributions(axes[1], held, f"{name} ({unit})")
    if loads:
        _error_by_load(axes[2], held)
    handles, labels = axes[0].get_legend_handles_labels()
    wide = max(map(len, labels)) > WIDEST_OF_THREE
    columns = min(2 if wide else 3, len(held))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)
    figure.suptitle(
        f"{name}: simulated against measured, {report.dataset}", x=0.01, ha="left", weight="bold"
    )
    return save(figure, path)


def _words(quantity: str) -> tuple[str, str]:
    """
    >>> _words("ttft_ms"), _words("step_ms (decode)"), _words("makespan_s")
    (('TTFT', 'ms'), ('step (decode)', 'ms'), ('makespan', 's'))
    """
    head, _, rest = quantity.partition(" ")
    stem, _, unit = head.rpartition("_")
    name = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "E2E", "itl": "ITL"}.get(stem, stem)
    return f"{name} {rest}".strip(), unit


def _look(index: int) -> dict[str, object]:
    return {"color": OKABE_ITO[index % len(OKABE_ITO)]}


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
            marker=MARKERS[index % len(MARKERS)],
            markersize=3,
            alpha=0.5,
            label=f"{samples.run}: MAPE {100 * mape:.1f} %",
            **_look(index),  # type: ignore[arg-type]  # colours are strings
        )
    if low > 0 and high > 30 * low:
        ax.set(xscale="log", yscale="log")
    ax.set(title="each pair", xlabel=f"measured {label}", ylabel=f"simulated {label}")


def _distributions(ax: Axes, held: Sequence[Samples], label: str) -> None:
    for index, samples in enumerate(held):
        for values, style in ((samples.measured, "-"), (samples.predicted, ":")):
            ordered = np.sort(values)
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            ax.step(ordered, share, linestyle=style, **_look(index))  # type: ignore[arg-type]
    ax.plot([], [], color=INK, linestyle="-", label="measured")
    ax.plot([], [], color=INK, linestyle=":", label="simulated")
    low = min(float(s.measured.min()) for s in held)
    if low > 0 and max(float(s.measured.max()) for s in held) > 30 * low:
        ax.set_xscale("log")
    ax.set(title="cumulative share", xlabel=label, ylabel="share of samples", ylim=(0, 1.02))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=9)


def _error_by_load(ax: Axes, held: Sequence[Samples]) -> None:
    for index, samples in enumerate(held):
        if samples.load is None:
            continue
        mean = float(samples.predicted.mean() / samples.measured.mean() - 1)
        marker = MARKERS[index % len(MARKERS)]
        ax.plot([samples.load], [100 * mean], marker, markersize=7, **_look(index))  # type: ignore[arg-type]
    ax.axhline(0, color=MUTED, linewidth=1)
    ax.set(title="error of the mean", xlabel="load (requests/s)", ylabel="error (%)")
