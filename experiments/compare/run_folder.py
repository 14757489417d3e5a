"""A folder that `runway simulate --out` wrote, as a log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.saved_run import SavedRun, load_run
from simulator.units import NS_PER_MS, NS_PER_S

from .log import LATENCIES, RATES, STATISTICS, TOKENS, Floats, Gaps, Log

_TRIM = 1e-9
"""Seconds by which a window's edge may be off in text."""


def read(folder: Path) -> Log:
    """The requests of the window that the run's own metrics are about."""
    run = load_run(folder)
    window, requests = run.summary["window"], run.requests
    inside = np.ones(len(requests), np.bool_)
    if window["submitted"] < run.summary["submitted"]:
        arrival = requests["arrival_s"].to_numpy(np.float64)
        inside = (arrival >= window["start_s"] - _TRIM) & (arrival < window["end_s"] - _TRIM)
    finished = (requests["state"] == "finished").to_numpy()
    columns: dict[str, Floats] = {}
    for name in (*LATENCIES, *TOKENS, "arrival_s"):
        if name in requests and name != "itl_ms":
            values = requests[name].to_numpy(np.float64, na_value=np.nan)
            in_time = name in LATENCIES
            columns[name] = (
                np.where(finished, values, np.nan)[inside] if in_time else values[inside]
            )
    stated = {"itl_ms": _stated(run.summary["itl_ms"])}
    return Log(
        name=f"{folder.resolve().name} ({run.policy})",
        kind="Runway run",
        is_measured=False,
        requests=columns,
        ids=tuple(requests["id"][inside]),
        gaps=pooled_gaps(run),
        stated={name: held for name, held in stated.items() if held},
        rates={name: run.summary[name] for name in RATES if run.summary.get(name) is not None},
        slo={name: held["limit"] for name, held in (run.summary["slo"] or {}).items()},
        prices=run.summary["cost_model"],
        notes=_notes(run),
    )


def _stated(described: Mapping[str, Any]) -> dict[str, float]:  # Any: JSON values
    known = {name: described[name] for name in (*STATISTICS, "n")}
    return {name: float(value) for name, value in known.items() if value is not None}


def pooled_gaps(run: SavedRun) -> Gaps | None:
    """Every gap between two tokens of the finished requests.

    None unless saved with its steps, or if the run's metrics are of a part of its requests.
    """
    if run.steps is None or run.tokens is None:
        return None
    if run.summary["window"]["submitted"] < run.summary["submitted"]:
        return None
    if run.summary["provenance"]["scheduler"]["parameters"].get("deliver") == "batch_end":
        return None
    ends = np.rint(run.steps["end_s"].to_numpy(np.float64) * NS_PER_S)
    ends = ends[run.steps["decode_seqs"].to_numpy() > 0]
    finished = (run.requests["state"] == "finished").to_numpy()
    pieces = run.tokens[finished[run.tokens["request"].to_numpy()]]
    first = np.rint(pieces["first_s"].to_numpy(np.float64) * NS_PER_S)
    last = np.rint(pieces["last_s"].to_numpy(np.float64) * NS_PER_S)
    rows = pieces["request"].to_numpy()
    between = (first[1:] - last[:-1])[rows[1:] == rows[:-1]]
    counts = np.zeros(len(ends) + 1)
    decoded = pieces["decoded"].to_numpy() > 0
    low = np.searchsorted(ends, first[decoded])
    np.add.at(counts, low + 1, 1)
    np.add.at(counts, low + pieces["tokens"].to_numpy()[decoded], -1)
    weights = np.cumsum(counts)[: len(ends)]
    inside = np.flatnonzero(weights)
    gaps = np.concatenate((between, ends[inside] - ends[inside - 1])) / NS_PER_MS
    weights = np.concatenate((np.ones(len(between)), weights[inside]))
    distinct, place = np.unique(gaps, return_inverse=True)
    counted = np.bincount(place, weights, minlength=1).astype(np.float64)
    return Gaps(distinct, counted[: len(distinct)]) if len(distinct) else None


def _notes(run: SavedRun) -> tuple[str, ...]:
    config = run.summary["config"]
    notes = []
    if run.summary["cost_model"]["stamp"]:
        notes.append(str(run.summary["cost_model"]["stamp"]))
    if run.summary["saturated"]:
        notes.append("saturated: its means describe this run, not a steady state")
    if config.get("users"):
        notes.append(f"a closed loop of {config['users']} users: arrivals follow completions")
    if config.get("max_concurrency"):
        notes.append(
            f"at most {config['max_concurrency']} requests were let in: TTFT starts when a "
            "request was let in, not when it was due"
        )
    return tuple(notes)
