"""A cost table as a figure: its prices, the steps it was measured with, and how far it is off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from costmodels import LoadedCostModel
from costmodels.operators_table import TimedStep

from .cost_points import (
    Floats,
    Line,
    Reach,
    batch_line,
    compared,
    context_line,
    levels,
    on_one_device,
    prompt_line,
    reach_of,
)
from .cost_roofline import draw_roofline
from .style import (
    DECODE,
    INK,
    MUTED,
    OKABE_ITO,
    PREFILL,
    WIDTH_IN,
    dot,
    headline,
    house_style,
    plain_ticks,
    save,
    value_label,
)

LEAST_CONTEXT = 16
STEPS_ARE = "Dots: whole steps as timed (hollow: held out); their other counts differ from a line's"
WITHOUT_ALL_REDUCE = (
    "They were timed on one device: compared without the all-reduce, which the lines include"
)
BAND = 0.10
"""The shaded band around a perfect prediction."""
SHADES = ("#9ecae1", "#4292c6", "#08519c")
WARM = ("#f5a742", "#8c4a00")


def plot_cost(model: LoadedCostModel, path: Path) -> Path:
    """Draw what a table says; beside it, where the table keeps them, the steps that were timed.

    Three panels of prices: of prompt chunks, of decode batches, of context. With whole steps in the
    table, three more: measured against predicted, residuals, and the GEMMs on a roofline.
    """
    table, reach = model.table, reach_of(model.table)
    steps = table.operators.steps if table.operators else ()
    explained = [STEPS_ARE] if steps else []
    if steps and on_one_device(model) is not model:
        explained.append(WITHOUT_ALL_REDUCE)
    with house_style():
        rows = 2 if steps else 1
        figure = Figure(figsize=(WIDTH_IN * 1.25, 1.0 + 3.6 * rows), layout="constrained")
        headline(figure, f"Cost table {table.name}", table.summary, model.stamp or "", *explained)
        panels = figure.subplots(rows, 3, squeeze=False)
        _draw_prompts(panels[0][0], model, reach, steps)
        _draw_batches(panels[0][1], model, reach, steps)
        _draw_contexts(panels[0][2], model, reach, steps)
        if steps:
            _draw_compared(panels[1][0], panels[1][1], model, steps)
            draw_roofline(panels[1][2], model)
        return save(figure, path)


def _draw_prompts(
    axes: Axes, model: LoadedCostModel, reach: Reach, steps: Sequence[TimedStep]
) -> None:
    """Prompt chunks alone, with and without a past."""
    lines = [
        (f"past {value_label(past)} tokens" if past else "no past", prompt_line(model, reach, past))
        for past in (0, reach.context // 2)
    ]
    _draw_lines(axes, lines, WARM)
    alone = [step for step in steps if step.chunk and not step.decode_seqs]
    _draw_steps(axes, alone, lambda step: step.chunk)
    _finish(axes, "Prompt chunk alone", "prompt tokens in the step")


def _draw_batches(
    axes: Axes, model: LoadedCostModel, reach: Reach, steps: Sequence[TimedStep]
) -> None:
    lines = [
        (f"context {value_label(context)}", batch_line(model, reach, context))
        for context in levels(reach.context, LEAST_CONTEXT)
    ]
    _draw_lines(axes, lines, SHADES)
    _draw_steps(axes, [s for s in steps if not s.chunk], lambda step: step.decode_seqs)
    _finish(axes, "Decode step by batch", "sequences that decode")


def _draw_contexts(
    axes: Axes, model: LoadedCostModel, reach: Reach, steps: Sequence[TimedStep]
) -> None:
    lines = [
        (f"{value_label(seqs)} sequence{'s' if seqs > 1 else ''}", context_line(model, reach, seqs))
        for seqs in levels(reach.seqs)
    ]
    _draw_lines(axes, lines, SHADES)
    _draw_steps(axes, [s for s in steps if not s.chunk], lambda step: step.decode_context)
    _finish(axes, "Decode step by context", "tokens in the KV cache, each")


def _draw_lines(axes: Axes, lines: Sequence[tuple[str, Line]], colours: Sequence[str]) -> None:
    for (label, line), colour in zip(lines, colours, strict=False):
        axes.plot(line.counts, line.ms, color=colour, label=label)


def _draw_steps(axes: Axes, steps: Sequence[TimedStep], count: Callable[[TimedStep], int]) -> None:
    """Timed steps, whatever their other counts are: between the lines, not on them."""
    for held_out in (False, True):
        chosen = [step for step in steps if step.is_held_out == held_out]
        counts = np.array([count(step) for step in chosen])
        _mark(axes, counts, np.array([step.us / 1e3 for step in chosen]), hollow=held_out)


def _mark(
    axes: Axes,
    across: Floats,
    up: Floats,
    *,
    hollow: bool,
    colour: str = INK,
    marker: str = "o",
) -> None:
    axes.plot(
        *(across, up),
        linestyle="none",
        marker=marker,
        markersize=5,
        color=colour,
        markerfacecolor="white" if hollow else colour,
    )


def _finish(axes: Axes, title: str, counted: str) -> None:
    axes.set(xscale="log", yscale="log", title=title, xlabel=counted, ylabel="step time (ms)")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.28)  # room for the legend above the lines
    for which in ("x", "y"):
        plain_ticks(axes, which)
    axes.legend(loc="upper left", fontsize=9, handlelength=1.4, borderaxespad=0.2)


def _draw_compared(
    across: Axes, residual: Axes, model: LoadedCostModel, steps: Sequence[TimedStep]
) -> None:
    """Measured whole steps against the table's price, and how far it is off."""
    pairs = compared(model, steps)
    error = 100 * (pairs.predicted_ms / pairs.measured_ms - 1)
    ends = np.array([pairs.measured_ms.min() * 0.8, pairs.measured_ms.max() * 1.25])
    across.fill_between(ends, ends * (1 - BAND), ends * (1 + BAND), color=MUTED, alpha=0.18, lw=0)
    across.plot(ends, ends, color=MUTED, linewidth=1.0)
    residual.axhspan(-100 * BAND, 100 * BAND, color=MUTED, alpha=0.18, lw=0)
    residual.axhline(0, color=MUTED, linewidth=1.0)
    kinds = np.array([_kind(step) for step in steps])
    for held_out in (False, True):
        for kind, (colour, marker) in KINDS.items():
            chosen = (kinds == kind) & (pairs.held_out == held_out)
            for axes, up in ((across, pairs.predicted_ms), (residual, error)):
                _mark(
                    *(axes, pairs.measured_ms[chosen], up[chosen]),
                    hollow=held_out,
                    colour=colour,
                    marker=marker,
                )
    across.set(xscale="log", yscale="log", title="Whole steps", xlabel="measured (ms)")
    across.set_ylabel("predicted (ms)")
    across.legend(
        handles=[dot(kind, *look) for kind, look in KINDS.items() if kind in kinds],
        loc="upper left",
        fontsize=9,
        handletextpad=0.2,
        borderaxespad=0.2,
    )
    reach = max(float(np.abs(error).max()) * 1.15, 100 * BAND * 1.3)
    residual.set(xscale="log", ylim=(-reach, reach), xlabel="measured (ms)")
    residual.set_title("Residuals: hollow was held out")
    residual.set_ylabel("predicted / measured - 1 (%)")
    for axes in (across, residual):
        plain_ticks(axes, "x")
    plain_ticks(across, "y")


KINDS = {
    "decodes": (DECODE, "o"),
    "prompt chunk": (PREFILL, "s"),
    "both": (OKABE_ITO[2], "^"),
}


def _kind(step: TimedStep) -> str:
    if not step.chunk:
        return "decodes"
    return "both" if step.decode_seqs else "prompt chunk"
