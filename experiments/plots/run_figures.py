"""Figures of one run, from its saved files: latencies, load over time, its busiest moment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from experiments.caption import caption_parts
from experiments.compare.log import Gaps
from experiments.compare.run_folder import pooled_gaps
from experiments.saved_run import SavedRun, load_run
from simulator.errors import ConfigError

from .clients import draw_clients
from .load_curves import mean_count, mean_level
from .run_timeline import choose_moment, draw_moment_of_run, moment_of
from .style import (
    DECODE,
    INK,
    MUTED,
    PREFILL,
    WIDTH_IN,
    headline,
    legend_rows,
    plain_ticks,
    save,
    spans_decades,
    value_label,
)
from .waterfall import draw_waterfall

Span = tuple[int, int]
"""Start and end, ns on the run's clock."""

Summary = Mapping[str, Any]
"""`summary.json`. Any: JSON values."""

Floats = NDArray[np.float64]

SLICES = 400
_QUANTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99, "max": 1.0}
_LATENCIES = {
    "ttft_ms": ("TTFT", "ttft_ms"),
    "tpot_ms": ("TPOT", "tpot_ms"),
    "worst_itl_ms": ("ITL", "itl_max_ms"),
    "e2el_ms": ("End to end", "e2el_ms"),
}
"""Column of requests.parquet -> panel and the limit that belongs to it."""


def draw_run(folder: Path, figures: Path, span: Span | None = None) -> list[Path]:
    """Everything that a run's files allow; returns the PNGs written.

    `latencies.png`, `load.png`, `clients.png` if the trace names clients and, if the run was saved
    with its steps, `waterfall.png` and `timeline.png`. span: what these two show, in ns on the
    run's clock; None is the busiest moment.

    Raises:
        ConfigError: the folder holds no run, or a span is asked for and the steps were not saved,
            or none is in it.
    """
    run = load_run(folder)
    if span and (run.steps is None or run.tokens is None):
        raise ConfigError(
            f"{folder}: no steps.parquet with tokens.parquet here, so there is no window to show: "
            "simulate again with --steps"
        )
    moment = moment_of(run, span) if span else choose_moment(run)
    drawn = [
        _draw_latencies(run, figures / "latencies.png"),
        _draw_load(run.summary, run.requests, run.steps, figures / "load.png"),
        draw_clients(run.summary, run.setting, figures / "clients.png"),
    ]
    if moment is not None and run.tokens is not None and run.preemptions is not None:
        watched = moment.watched
        drawn.append(draw_waterfall(run, figures / "waterfall.png", watched=watched, span=span))
    if moment is not None:
        drawn.append(draw_moment_of_run(run, moment, figures / "timeline.png"))
    return [path for path in drawn if path is not None]


def _setting(summary: Summary) -> str:
    return ", ".join([str(summary["provenance"]["scheduler"]["name"]), *caption_parts(summary)])


def _draw_latencies(run: SavedRun, path: Path) -> Path | None:
    """Cumulative distributions; None when no request finished."""
    summary, requests = run.summary, run.requests
    done = requests[requests["state"] == "finished"]
    known = [column for column in _LATENCIES if done[column].notna().any()]
    if not known:
        return None
    rows = -(-len(known) // 2)
    figure = Figure(figsize=(WIDTH_IN, 1.5 + 2.6 * rows), layout="constrained")
    grid = figure.subplots(rows, 2, squeeze=False)
    headline(figure, "How long users wait", _setting(summary))
    for axes, column in zip(grid.flat, known, strict=False):
        name, limit = _LATENCIES[column]
        limit_ms = ((summary["slo"] or {}).get(limit) or {}).get("limit")
        values = np.sort(done[column].dropna().to_numpy(np.float64))
        _draw_cdf(axes, values, limit_ms)
        if column == "worst_itl_ms":
            _draw_pooled(axes, summary["itl_ms"], pooled_gaps(run))
        axes.set_title(f"{name}{_title_note(column, summary)}")
        _scale(axes, values, limit_ms)
    for axes in grid[:, 0]:
        axes.set_ylabel("share of requests")
    for axes in list(grid.flat)[len(known) :]:
        axes.remove()
    legend_rows(figure, [_latency_legend(summary)])
    return save(figure, path)


def _title_note(column: str, summary: Summary) -> str:
    if column == "worst_itl_ms":
        return ": all gaps, and each request's worst"
    described = summary[column]
    return f": p50 {described['p50']:,.0f} ms, p99 {described['p99']:,.0f} ms"


def _draw_cdf(axes: Axes, values: Floats, limit_ms: float | None) -> None:
    share = np.arange(1, len(values) + 1) / len(values)
    axes.plot(
        np.append(values[:1], values),
        np.append(0.0, share),
        color=DECODE,
        linewidth=2,
        drawstyle="steps-post",
    )
    if limit_ms is not None:
        axes.axvline(limit_ms, color=INK, linewidth=1.1, linestyle=(0, (3, 2)))
    axes.set_ylim(0, 1.02)


def _draw_pooled(axes: Axes, itl: Summary, gaps: Gaps | None) -> None:
    """All gaps pooled; of a run without its tokens the summary knows only quantiles."""
    known = {name: share for name, share in _QUANTILES.items() if itl[name] is not None}
    values, shares = [itl[name] for name in known], list(known.values())
    axes.plot(values, shares, color=PREFILL, marker="o", markersize=4.5, linestyle="none")
    if gaps is not None:
        values, shares = gaps.gap_ms.tolist(), (np.cumsum(gaps.count) / gaps.count.sum()).tolist()
    axes.plot(values, shares, color=PREFILL, linewidth=1.5)


def _scale(axes: Axes, values: Floats, limit_ms: float | None) -> None:
    drawn = [*values[values > 0].tolist(), *([limit_ms] if limit_ms else [])]
    if spans_decades(drawn):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    plain_ticks(axes, "x")
    axes.set_xlabel("ms")


def _latency_legend(summary: Summary) -> list[Line2D]:
    handles = [Line2D([], [], color=DECODE, label="requests, cumulative")]
    if summary["itl_ms"]["n"]:
        handles.append(
            Line2D([], [], color=PREFILL, marker="o", label="all gaps; marks: p50 to max")
        )
    if summary["slo"]:
        handles.append(Line2D([], [], color=INK, linestyle=(0, (3, 2)), label="SLO limit"))
    return handles


def _draw_load(
    summary: Summary, requests: pd.DataFrame, steps: pd.DataFrame | None, path: Path
) -> Path | None:
    """Requests waiting and running, and cache in use, averaged over slices of the run."""
    arrived = requests.dropna(subset=["arrival_s"])
    arrived = arrived[arrived["state"] != "rejected"]
    if arrived.empty:
        return None
    enter = arrived["arrival_s"].to_numpy(np.float64)
    start = enter + arrived["queue_ms"].to_numpy(np.float64) / 1e3
    leave = enter + arrived["e2el_ms"].to_numpy(np.float64) / 1e3
    last = float(np.nanmax([*leave, *enter, *start]))
    edges = np.linspace(min(0.0, float(enter.min())), last, SLICES + 1)
    begun = ~np.isnan(start)
    curves = {
        "Waiting for their first step (requests)": (mean_count(enter, start, edges), PREFILL),
        "Running (requests)": (mean_count(start[begun], leave[begun], edges), DECODE),
    }
    if steps is not None:
        blocks = summary["provenance"]["kv_cache"]["blocks"]
        used = mean_level(
            steps["end_s"].to_numpy(np.float64),
            steps["step_ms"].to_numpy(np.float64) / 1e3,
            steps["used_blocks"].to_numpy(np.float64) * 100 / blocks,
            edges,
        )
        curves[f"KV cache in use (% of {value_label(blocks)} blocks)"] = (used, MUTED)
    return _save_load(summary, edges, curves, path)


def _save_load(
    summary: Summary, edges: Floats, curves: Mapping[str, tuple[Floats, str]], path: Path
) -> Path:
    figure = Figure(figsize=(WIDTH_IN, 1.1 + 1.75 * len(curves)), layout="constrained")
    grid = figure.subplots(len(curves), 1, squeeze=False, sharex=True)[:, 0]
    cache = ", what the cache holds" if len(curves) > 2 else ""
    headline(figure, f"Who waits, who runs{cache}", _setting(summary))
    for axes, (name, (values, colour)) in zip(grid, curves.items(), strict=True):
        axes.stairs(values, edges, color=colour, fill=True, alpha=0.35)
        axes.stairs(values, edges, color=colour, linewidth=1.2)
        axes.set_title(name)
        axes.set_ylim(0, max(float(values.max()) * 1.1, 1.0))
        axes.set_xlim(edges[0], edges[-1])
        plain_ticks(axes, "y")
    plain_ticks(grid[-1], "x")
    grid[-1].set_xlabel("time (s)")
    return save(figure, path)
