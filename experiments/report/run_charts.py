"""The charts of a run's page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from experiments.compare.run_folder import pooled_gaps
from experiments.plots.load_curves import mean_count, mean_level
from experiments.saved_run import SavedRun

from .chart import Chart, across, colour, upward
from .curves import cdf_chart, level_chart, ranked
from .page import Section
from .scale import fitted

SLICES = 120
LATENCIES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "itl_ms": "ITL", "e2el_ms": "E2E"}
_FEW_CLIENTS = 5


def latency_charts(run: SavedRun, done: pd.DataFrame) -> Iterator[Chart]:
    """Cumulative distributions, a curve per client if there are few of them."""
    clients = done["client"].dropna().unique()
    parts = {"all": done}
    if 1 < len(clients) <= _FEW_CLIENTS:
        parts = {str(client): done[done["client"] == client] for client in clients}
    slo = run.summary["slo"] or {}
    for field, name in LATENCIES.items():
        limit = (slo.get(field) or {}).get("limit")
        if field == "itl_ms":
            gaps = pooled_gaps(run)
            if gaps is not None:
                share = np.cumsum(gaps.count) / gaps.count.sum()
                yield cdf_chart("ITL, all gaps", {"all": (gaps.gap_ms, share)}, of="gaps")
            continue
        curves = {
            who: ranked(part[field].dropna().to_numpy(np.float64)) for who, part in parts.items()
        }
        curves = {who: held for who, held in curves.items() if len(held[0])}
        if curves:
            yield cdf_chart(name, curves, limit_ms=limit)


def first_token_scatter(points: pd.DataFrame) -> Iterator[Section]:
    """TTFT over prompt length, a point a request."""
    known = points[points["ttft_ms"].notna()]
    if known.empty:
        return
    x = fitted("prompt tokens", known["prompt_tokens"].tolist(), *across(960))
    y = fitted("TTFT (ms)", known["ttft_ms"].tolist(), *upward(360))
    chart = Chart("TTFT by prompt length: a point is a request", x, y, 960, 360)
    clients = list(known["client"].dropna().unique())
    for place, row in known.iterrows():
        rank = clients.index(row["client"]) if row["client"] in clients else 0
        at = (float(row["prompt_tokens"]), float(row["ttft_ms"]))
        chart.dot(at, colour(rank), row=int(str(place)), radius=4)
    if 1 < len(clients) <= _FEW_CLIENTS:
        chart.legend += [(colour(rank), str(name), "dot") for rank, name in enumerate(clients)]
    yield Section("Who waits for the first token", charts=[chart])


def load_charts(run: SavedRun) -> Iterator[Chart]:
    """Waiting, running and the KV cache over time."""
    here = run.requests[~run.requests["state"].isin(["rejected", "not_arrived"])]
    if here.empty:
        return
    enter = here["arrival_s"].to_numpy(np.float64)
    start = enter + here["queue_ms"].to_numpy(np.float64) / 1e3
    leave = enter + here["e2el_ms"].to_numpy(np.float64) / 1e3
    last = float(np.nanmax([*leave, *enter, *start]))
    edges = np.linspace(0.0, last, SLICES + 1)
    begun = ~np.isnan(start)
    waiting = mean_count(enter, start, edges)
    yield level_chart("Waiting for their first step", "requests", edges, waiting, "prefill")
    running = mean_count(start[begun], leave[begun], edges)
    yield level_chart("Running", "requests", edges, running, "decode")
    if run.steps is not None:
        blocks = run.summary["provenance"]["kv_cache"]["blocks"]
        used = mean_level(
            run.steps["end_s"].to_numpy(np.float64),
            run.steps["step_ms"].to_numpy(np.float64) / 1e3,
            run.steps["used_blocks"].to_numpy(np.float64) * 100 / blocks,
            edges,
        )
        yield level_chart("KV cache in use", f"% of {blocks:,} blocks", edges, used, "muted")
