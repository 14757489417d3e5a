"""Step timelines: who got the GPU in each step, a lane per scheduler or setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from .style import (
    DECODE,
    INK,
    MUTED,
    PREFILL,
    RULE,
    WIDTH_IN,
    headline,
    plain_ticks,
    save,
    value_label,
)

READING = "Every box is one step, as wide as it lasts; heights are square roots."
_MANY = 300
"""More boxes than this have no edges, which would hide them."""


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """One engine's steps.

    steps: columns start_ms, duration_ms, prefill_tokens, decode_seqs; one row a step.
    first_token_ms: when the watched prompt produced its first token; None if it never did.
    note: stands at the right above the lane.
    """

    name: str
    steps: pd.DataFrame
    first_token_ms: float | None = None
    note: str = ""


def save_timeline(
    path: Path,
    lanes: Sequence[Lane],
    *,
    title: str,
    subtitle: str = "",
    arrival_ms: float = 0.0,
    start_ms: float,
    end_ms: float,
) -> Path:
    """A whole figure of lanes over one stretch of time; returns the path.

    subtitle: one or several lines.
    """
    figure = Figure(figsize=(WIDTH_IN, 1.8 + max(2.0, 1.45 * len(lanes))), layout="constrained")
    grid = figure.subplots(len(lanes), 1, squeeze=False, sharex=True)[:, 0]
    headline(figure, title, *subtitle.split("\n"))
    draw_timeline(list(grid), lanes, arrival_ms=arrival_ms, start_ms=start_ms, end_ms=end_ms)
    figure.legend(handles=timeline_legend(), loc="outside lower left", ncols=4, fontsize=10)
    return save(figure, path)


def draw_timeline(
    grid: Sequence[Axes],
    lanes: Sequence[Lane],
    *,
    arrival_ms: float | None = 0.0,
    start_ms: float,
    end_ms: float,
) -> None:
    """Draw each lane in its axes; a step is a box as wide as it lasts.

    arrival_ms: of the watched prompt; None if nobody is watched.

    Up, orange: the step's prompt tokens. Down, blue: the sequences that got a token. Heights
    have one scale for all lanes: a root, so that a chunk of 256 shows beside a prompt of 8,192.
    """
    sights = [_in_sight(lane.steps, start_ms, end_ms) for lane in lanes]
    top = max([1, *(int(steps["prefill_tokens"].max()) for steps in sights if len(steps))])
    bottom = max([1, *(int(steps["decode_seqs"].max()) for steps in sights if len(steps))])
    for axes, lane, steps in zip(grid, lanes, sights, strict=True):
        _draw_steps(axes, steps, top, bottom)
        if arrival_ms is not None:
            _draw_marks(axes, lane, arrival_ms, end_ms)
        _dress(axes, top, bottom)
        axes.set_title(lane.name)
        axes.set_title(lane.note, loc="right", fontsize=10.5, weight="normal", color=MUTED)
        axes.set_xlim(start_ms, end_ms)
    plain_ticks(grid[-1], "x")
    grid[-1].set_xlabel(
        "time since the long prompt arrived (ms)" if arrival_ms == 0 else "time (ms)"
    )


def _in_sight(steps: pd.DataFrame, start_ms: float, end_ms: float) -> pd.DataFrame:
    begin, end = steps["start_ms"], steps["start_ms"] + steps["duration_ms"]
    return steps[(end > start_ms) & (begin < end_ms)]


def _draw_steps(axes: Axes, steps: pd.DataFrame, top: int, bottom: int) -> None:
    left, width = steps["start_ms"].to_numpy(), steps["duration_ms"].to_numpy()
    for column, most, sign, colour in (
        ("prefill_tokens", top, 1, PREFILL),
        ("decode_seqs", bottom, -1, DECODE),
    ):
        heights = sign * np.sqrt(steps[column].to_numpy(np.float64) / most)
        boxes = [
            Rectangle((x, 0.0), w, h) for x, w, h in zip(left, width, heights, strict=True) if h
        ]
        edge = 0.8 if len(boxes) <= _MANY else 0.0
        axes.add_collection(
            PatchCollection(boxes, facecolor=colour, edgecolor="white", linewidth=edge, zorder=3)
        )
    axes.axhline(0, color=INK, linewidth=0.8, zorder=4)


def _draw_marks(axes: Axes, lane: Lane, arrival_ms: float, end_ms: float) -> None:
    """When the prompt arrived and got its first token; a sideways mark if that is yet to come."""
    axes.axvline(arrival_ms, color=INK, linewidth=1.1, linestyle=(0, (3, 2)), zorder=5)
    if lane.first_token_ms is None:
        return
    comes_later = lane.first_token_ms > end_ms
    at_ms, marker = (end_ms, ">") if comes_later else (lane.first_token_ms, "v")
    axes.plot([at_ms], [1.0], marker=marker, color=INK, markersize=8, clip_on=False, zorder=6)


def _dress(axes: Axes, top: int, bottom: int) -> None:
    axes.set_ylim(-1.08, 1.2)
    ticks = {}
    for sign, most in ((1, top), (-1, bottom)):
        for value in {most, max(1, most // 4)}:
            ticks[sign * (value / most) ** 0.5] = value
    axes.set_yticks([*ticks], [value_label(value) for value in ticks.values()], fontsize=9.5)
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x", color=RULE)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0)


def timeline_legend(*, arrives: bool = True) -> list[Patch | Line2D]:
    """What the boxes are, and the marks if a prompt is watched."""
    boxes: list[Patch | Line2D] = [
        Patch(color=PREFILL, label="prompt tokens in the step (up)"),
        Patch(color=DECODE, label="streams that get a token (down)"),
    ]
    if not arrives:
        return boxes
    return [
        *boxes,
        Line2D([], [], color=INK, linewidth=1.1, linestyle=(0, (3, 2)), label="the prompt arrives"),
        Line2D([], [], color=INK, marker="v", linestyle="none", label="its first token"),
    ]
