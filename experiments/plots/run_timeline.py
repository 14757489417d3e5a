"""`timeline.png` of one run: a moment step by step, and who was in each step."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments.busy_moment import Seen, choose_row, choose_window
from experiments.caption import caption_parts
from experiments.phases import rows_in_flight
from experiments.saved_run import SavedRun
from simulator.errors import ConfigError
from simulator.units import NS_PER_MS, NS_PER_S

from .pauses import lane_note
from .phase_rows import PhaseRow, draw_rows, phase_legend, phase_rows
from .style import WIDTH_IN, headline, legend_rows, plain_ticks, save, value_label
from .timeline import READING, Lane, draw_timeline, timeline_legend

STEPS_IN_SIGHT = 150
MOST_ROWS = 26


class Moment(NamedTuple):
    """What is shown. watched: the request whose arrival is time 0, or None: the window's start."""

    watched: int | None
    zero_ns: int
    start_ms: float
    end_ms: float

    @property
    def span(self) -> tuple[int, int]:
        """On the run's clock, ns."""
        start, end = (round(ms * NS_PER_MS) for ms in (self.start_ms, self.end_ms))
        return self.zero_ns + start, self.zero_ns + end


def choose_moment(run: SavedRun) -> Moment | None:
    """A long prompt arriving on running streams; None if none ever did, or without steps."""
    if run.steps is None:
        return None
    seen = Seen(
        arrival_ms=run.requests["arrival_s"].to_numpy(np.float64) * 1e3,
        wait_ms=run.requests["ttft_ms"].to_numpy(np.float64),
        end_ms=run.steps["end_s"].to_numpy(np.float64) * 1e3,
        duration_ms=run.steps["step_ms"].to_numpy(np.float64),
        streams=(run.steps["running"] - run.steps["prefill_seqs"]).to_numpy(np.float64),
    )
    row = choose_row(run.requests["prompt_tokens"].to_numpy(np.float64), [seen])
    if row is None:
        return None
    before_ms, after_ms = choose_window([seen], row, STEPS_IN_SIGHT)
    return Moment(row, round(float(seen.arrival_ms[row]) * NS_PER_MS), -before_ms, after_ms)


def moment_of(run: SavedRun, span: tuple[int, int]) -> Moment:
    """A window that somebody asked for, cut to the run (ns on its clock).

    Raises:
        ConfigError: no step runs in it.
    """
    assert run.steps is not None
    ends = run.steps["end_s"].to_numpy(np.float64) * NS_PER_S
    starts = ends - run.steps["step_ms"].to_numpy(np.float64) * NS_PER_MS
    if not np.any((ends > span[0]) & (starts < span[1])):
        known = f"its steps are from {starts[0] / NS_PER_S:,.3f} to {ends[-1] / NS_PER_S:,.3f} s"
        raise ConfigError(
            f"{run.folder}: no step in this window, {known if len(ends) else 'it has none'}: "
            "change --from-s or --to-s"
        )
    start = max(span[0], 0)
    end = min(span[1], round(float(ends[-1])) if len(ends) else 0)
    return Moment(None, start, 0.0, (end - start) / NS_PER_MS)


def draw_moment_of_run(run: SavedRun, moment: Moment, path: Path) -> Path | None:
    """Steps above, a row for each request below (if its tokens were saved); None without steps."""
    lane = _lane(run, moment)
    if lane is None:
        return None
    rows = _rows(run, moment)
    figure = Figure(figsize=(WIDTH_IN, 3.9 + 0.22 * len(rows)), layout="constrained")
    heights = [1.5, 0.2 * len(rows) + 0.3]
    grid = figure.subplots(
        1 + bool(rows), 1, squeeze=False, sharex=True, height_ratios=heights[: 1 + bool(rows)]
    )[:, 0]
    headline(figure, *_words(run, moment))
    arrival = None if moment.watched is None else 0.0
    draw_timeline(
        [grid[0]], [lane], arrival_ms=arrival, start_ms=moment.start_ms, end_ms=moment.end_ms
    )
    if rows:
        draw_rows(grid[1], rows, zero_ns=moment.zero_ns, per=NS_PER_MS, watched=moment.watched)
        grid[0].set_xlabel("")
        flying = len(rows_in_flight(run, moment.span))
        cut = f"; {len(rows)} of {flying} in flight" if flying > len(rows) else ""
        grid[1].set_title(f"Who got it: a row is a request with its prompt tokens{cut}")
        plain_ticks(grid[1], "x")
    grid[-1].set_xlabel(_axis_words(moment))
    legend_rows(
        figure,
        [timeline_legend(arrives=moment.watched is not None), phase_legend(rows, moment.span)],
    )
    return save(figure, path)


def _lane(run: SavedRun, moment: Moment) -> Lane | None:
    assert run.steps is not None
    lasting = run.steps["step_ms"].to_numpy(np.float64)
    starts = run.steps["end_s"].to_numpy(np.float64) * 1e3 - lasting - moment.zero_ns / NS_PER_MS
    shown = run.steps.assign(start_ms=starts, duration_ms=lasting)
    shown = shown[(starts + lasting > moment.start_ms) & (starts < moment.end_ms)]
    if shown.empty:
        return None
    if moment.watched is None:
        return Lane(run.policy, shown)
    wait_ms = float(run.requests["ttft_ms"].iloc[moment.watched])
    return Lane(run.policy, shown, wait_ms, lane_note(shown, wait_ms))


def _rows(run: SavedRun, moment: Moment) -> list[PhaseRow]:
    """The requests in flight; if too many, those whose prompts were computed or waiting first."""
    if run.tokens is None or run.preemptions is None:
        return []
    start, end = moment.span
    rows = phase_rows(run, rows_in_flight(run, moment.span))
    if len(rows) <= MOST_ROWS:
        return rows

    def rank(row: PhaseRow) -> tuple[bool, bool]:
        inside = {p.phase for p in row.parts if p.end_ns > start and p.start_ns < end}
        return row.row != moment.watched, not inside & {"prefill", "queue", "preempted"}

    kept = sorted(rows, key=rank)[:MOST_ROWS]
    return sorted(kept, key=lambda row: row.span)


def _words(run: SavedRun, moment: Moment) -> tuple[str, ...]:
    served = ", ".join(caption_parts(run.summary))
    if moment.watched is None:
        start, end = (at / NS_PER_S for at in moment.span)
        return f"Who got the GPU, {start:,.2f} s to {end:,.2f} s", READING, run.setting
    prompt = value_label(int(run.requests["prompt_tokens"].iloc[moment.watched]))
    at_s = moment.zero_ns / NS_PER_S
    title = f"A {prompt}-token prompt arrives on running streams"
    return title, READING, f"{served}, after {at_s:,.1f} s"


def _axis_words(moment: Moment) -> str:
    if moment.watched is not None:
        return "time since the long prompt arrived (ms)"
    return f"time since {moment.zero_ns / NS_PER_S:,.3f} s (ms)"
