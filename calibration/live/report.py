"""What report.json, requests.parquet and steps.parquet of a live validation hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.comparison import errors_by_kind, errors_of, kind_of, numbers_of, spread_of
from simulator.result import Result
from simulator.tables import request_table, step_table

from .serve import Served
from .validate import LiveOutcome, LiveSettings

Column = NDArray[Any]  # Any: integers, floats or text

COMPARED = ("ttft_ms", "tpot_ms", "e2el_ms")


def report_of(
    outcome: LiveOutcome, settings: LiveSettings, about: Mapping[str, object]
) -> dict[str, Any]:  # Any: JSON values
    """The report; about: what was served, for its head.

    errors: signed relative error of mean, p50 and p99, and mape, of every quantity; against
    several runs, of the means over them. errors_by_run: the same of each. spread: (largest -
    smallest) / mean over the runs, None for one run.
    """
    comparisons = outcome.comparisons
    return {
        **about,
        "repeats": settings.repeats,
        "requests": len(settings.trace),
        "finished": len(comparisons[0].requests["ttft_ms"][0]),
        "schedule_identical_given_times": outcome.identical,
        "errors": errors_of(comparisons),
        "spread": spread_of(comparisons),
        "values": numbers_of(comparisons),
        "errors_by_run": [errors_of([comparison]) for comparison in comparisons],
        "steps_by_kind": errors_by_kind(comparisons),
        "steps": {
            "served": [len(run.work) for run in outcome.runs],
            "simulated": len(outcome.predicted.work),
        },
        "makespan_s": {
            "served": [run.result.end_ns / 1e9 for run in outcome.runs],
            "simulated": outcome.predicted.result.end_ns / 1e9,
        },
        "others_cpus": [run.others_cpus for run in outcome.runs],
        "cpu_share": min(run.cpu_share for run in outcome.runs),
        "host_ms_per_step": outcome.host_ns / 1e6,
    }


def requests_of(outcome: LiveOutcome) -> dict[str, Column]:
    """One row per request: what was asked, TTFT, TPOT and E2E simulated, and of every run."""
    predicted = request_table(outcome.predicted.result)
    shown = ("id", "arrival_s", "prompt_tokens", "output_tokens", "state")
    table: dict[str, Column] = {name: predicted[name] for name in shown}
    for name in COMPARED:
        table[f"simulated_{name}"] = predicted[name]
    for number, run in enumerate(outcome.runs, 1):
        served = request_table(run.result)
        for name in COMPARED:
            table[f"served{number}_{name}"] = served[name]
    return table


def steps_of(outcome: LiveOutcome) -> dict[str, Column]:
    """One row per step: of the simulation (run 0), then of every served run, with its price."""
    parts = [_steps(0, outcome.predicted, outcome.predicted.result.steps.duration_ns / 1e6)]
    for number, (run, compared) in enumerate(
        zip(outcome.runs, outcome.comparisons, strict=True), 1
    ):
        parts.append(_steps(number, run, compared.steps[1]))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _steps(number: int, run: Served, price_ms: NDArray[np.float64]) -> dict[str, Column]:
    table = step_table(run.result)
    steps = len(run.work)
    model = np.zeros(steps) if run.model_ns is None else run.model_ns / 1e6
    names = ("end_s", "step_ms", "prefill_tokens", "decode_seqs", "context_tokens", "running")
    return {
        "run": np.full(steps, number),
        "kind": np.array([kind_of(shape) for shape in run.shapes], dtype=object),
        **{name: table[name] for name in names},
        "longest_context": np.array([shape.longest_context for shape in run.shapes]),
        "price_ms": price_ms,
        "model_ms": np.ma.masked_array(model, mask=np.full(steps, run.model_ns is None)),
    }


def timeline_of(result: Result) -> dict[str, Column]:
    """Columns of the figures' timelines: start_ms, duration_ms, prefill_tokens, decode_seqs."""
    steps = result.steps
    return {
        "start_ms": (steps.end_ns - steps.duration_ns) / 1e6,
        "duration_ms": steps.duration_ns / 1e6,
        "prefill_tokens": steps.prefill_tokens,
        "decode_seqs": steps.decode_seqs,
    }
