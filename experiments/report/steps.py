"""The step timeline of a run's page: who got the GPU in each step, and each request's phases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.phases import request_phases, rows_in_flight
from experiments.plots.run_timeline import Moment, choose_moment
from experiments.saved_run import SavedRun
from simulator.units import NS_PER_MS

from .chart import Chart
from .curves import spread
from .page import Section
from .scale import Axis, over_names

WIDTH = 960
_LEFT, _RIGHT = 120.0, 948.0
MOST_ROWS = 24
_ROW_PX = 17
_PHASES = {
    "queue": "queued",
    "prefill": "prompt computed",
    "decode": "gets tokens",
    "stalled": "stalled: in no step",
    "preempted": "preempted",
}


def step_charts(run: SavedRun) -> Iterator[Section]:
    """One section; none if the run was saved without steps, or no prompt met running streams."""
    moment = choose_moment(run)
    if moment is None or run.tokens is None or run.preemptions is None:
        return
    assert moment.watched is not None
    prompt = int(run.requests["prompt_tokens"].iloc[moment.watched])
    yield Section(
        f"Who got the GPU when a {prompt:,}-token prompt arrived",
        ["Every box is one step, as wide as it lasts. Point at a step or at a request's phase."],
        charts=[_steps(run, moment), _requests(run, moment)],
    )


def _time(moment: Moment) -> Axis:
    label = "time since the long prompt arrived (ms)"
    return Axis(label, moment.start_ms, moment.end_ms, _LEFT, _RIGHT)


def _steps(run: SavedRun, moment: Moment) -> Chart:
    assert run.steps is not None
    lasting = run.steps["step_ms"].to_numpy(np.float64)
    starts = run.steps["end_s"].to_numpy(np.float64) * 1e3 - lasting - moment.zero_ns / NS_PER_MS
    inside = np.flatnonzero((starts + lasting > moment.start_ms) & (starts < moment.end_ms))
    steps = run.steps.iloc[inside]
    top = max(1, int(steps["prefill_tokens"].max()))
    bottom = max(1, int(steps["decode_seqs"].max()))
    chart = Chart(
        f"{run.policy}, step by step",
        _time(moment),
        Axis("", -1.0, 1.0, 150.0, 8.0, fixed=((1.0, f"{top:,}"), (-1.0, f"{bottom:,}"))),
        WIDTH,
        194,
        note=f"Up: prompt tokens, at most {top:,}. Down: streams that get a token, at most "
        f"{bottom:,}. Heights are roots.",
        legend=[
            ("prefill", "prompt tokens in the step", "box"),
            ("decode", "streams that get a token", "box"),
        ],
    )
    for place, (_, step) in zip(inside.tolist(), steps.iterrows(), strict=True):
        start = max(float(starts[place]), moment.start_ms)
        end = min(float(starts[place] + lasting[place]), moment.end_ms)
        tip = (
            f"step {place:,}: {lasting[place]:,.2f} ms\n"
            f"prompt tokens {int(step['prefill_tokens']):,}, of prompts "
            f"{int(step['prefill_seqs']):,}\n"
            f"streams that get a token {int(step['decode_seqs']):,}\n"
            f"{int(step['running']):,} seated, {int(step['used_blocks']):,} KV blocks"
        )
        for column, most, sign, css in (
            ("prefill_tokens", top, 1, "bar cell prefill"),
            ("decode_seqs", bottom, -1, "bar cell decode"),
        ):
            if step[column]:
                height = sign * float(np.sqrt(step[column] / most))
                chart.box((start, 0.0, end, height), css, tip=tip)
    chart.limit(0.0, "x", "the prompt arrives")
    return chart


def _requests(run: SavedRun, moment: Moment) -> Chart:
    """Rows of requests; y runs downward."""
    rows = rows_in_flight(run, moment.span)
    kept = {moment.watched, *spread(rows, MOST_ROWS - 1)}
    rows = [row for row in rows if row in kept]
    names = [_name(str(run.requests["id"].iloc[row])) for row in rows]
    height = _ROW_PX * len(rows) + 52
    y = over_names("", names, 8.0, float(height - 44))
    chart = Chart("The requests in those steps", _time(moment), y, WIDTH, height)
    start_ms, end_ms = moment.start_ms, moment.end_ms
    seen = set()
    place_of = {row: place for place, row in enumerate(rows)}
    prompts = run.requests["prompt_tokens"].to_numpy(np.int64)
    for part in request_phases(run, rows):
        begin, end = ((at - moment.zero_ns) / NS_PER_MS for at in (part.start_ns, part.end_ns))
        if end <= start_ms or begin >= end_ms:
            continue
        seen.add(part.phase)
        place = place_of[part.request]
        tip = (
            f"{names[place]}: {_PHASES[part.phase]}\n{end - begin:,.1f} ms, "
            f"prompt of {prompts[part.request]:,} tokens"
        )
        corners = (max(begin, start_ms), place - 0.36, min(end, end_ms), place + 0.36)
        chart.box(corners, f"bar {part.phase}", tip=tip)
    chart.legend = [(css, words, "box") for css, words in _PHASES.items() if css in seen]
    return chart


def _name(name: str) -> str:
    return name if len(name) <= 16 else f"…{name[-15:]}"
