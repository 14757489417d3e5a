"""`waterfall.png`: requests one below the other, from arrival to last token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments.phases import rows_in_flight
from experiments.saved_run import SavedRun
from simulator.units import NS_PER_S

from .phase_rows import PhaseRow, draw_rows, phase_legend, phase_rows
from .style import WIDTH_IN, headline, legend_rows, plain_ticks, save

MOST_ROWS = 36
_BEFORE = 12
"""Rows above the watched request."""


def draw_waterfall(
    run: SavedRun, path: Path, *, watched: int | None, span: tuple[int, int] | None
) -> Path | None:
    """Draw the requests around the watched one or those in flight in `span` (ns); None for none.

    The run must have been saved with its steps.
    """
    rows = _in_flight(run, span) if span else _around(run, watched or 0)
    if not rows:
        return None
    start, end = span or (rows[0].span[0], max(row.span[1] for row in rows))
    start = max(start, min(row.span[0] for row in rows))
    end = min(end, max(row.span[1] for row in rows))
    figure = Figure(figsize=(WIDTH_IN, 2.1 + 0.2 * len(rows)), layout="constrained")
    axes = figure.subplots()
    headline(
        figure,
        "Where each request's time went",
        f"{len(rows):,} of {len(run.requests):,} requests. A row is a request with its prompt "
        "tokens, from arrival to last token.",
        run.setting,
    )
    draw_rows(axes, rows, zero_ns=0, per=NS_PER_S, watched=watched)
    margin = 0.01 * (end - start)
    axes.set_xlim((start - margin) / NS_PER_S, (end + margin) / NS_PER_S)
    plain_ticks(axes, "x")
    axes.set_xlabel("time (s)")
    legend_rows(figure, [phase_legend(rows, (start, end))])
    return save(figure, path)


def _around(run: SavedRun, watched: int) -> list[PhaseRow]:
    """Those that came shortly before and after."""
    order = run.requests["arrival_s"].argsort(kind="stable").to_numpy()
    at = int(np.flatnonzero(order == watched)[0])
    first = max(0, min(at - _BEFORE, len(order) - MOST_ROWS))
    return phase_rows(run, order[first : first + MOST_ROWS].tolist())


def _in_flight(run: SavedRun, span: tuple[int, int]) -> list[PhaseRow]:
    """Those in the system in the span, at most `MOST_ROWS` spread evenly over them."""
    rows = rows_in_flight(run, span)
    if len(rows) > MOST_ROWS:
        keep = np.linspace(0, len(rows) - 1, MOST_ROWS).round().astype(int)
        rows = [rows[place] for place in keep]
    return phase_rows(run, rows)
