"""The tables of a run's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments.percent import percentage

from .page import Cell, Facts, Section, Table
from .run_charts import LATENCIES

Summary = Mapping[str, Any]
"""summary.json. Any: JSON values."""

MOST_LISTED = 150
_MORE = {
    "itl_per_request_ms": "ITL, mean per request",
    "queue_ms": "queueing",
    "prefill_ms": "prefill",
    "stalled_ms": "stalled",
    "preempted_ms": "preempted",
}
_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max", "n")
_RATES = {
    "request_throughput": ("requests finished", "requests/s"),
    "request_goodput": ("requests within the SLO", "requests/s"),
    "offered_rate": ("arrivals", "requests/s"),
    "input_throughput": ("prompt tokens", "tokens/s"),
    "output_throughput": ("output tokens", "tokens/s"),
    "processed_token_rate": ("tokens computed", "tokens/s"),
    "goodput_fraction": ("requests within the SLO", "share"),
    "engine_busy": ("time with a step running", "share"),
    "kv_util_mean": ("KV blocks in use, mean", "share"),
    "kv_util_peak": ("KV blocks in use, peak", "share"),
    "prefix_hit_rate": ("prompt tokens found in the cache", "share"),
    "recompute_tax": ("tokens computed again", "share"),
    "preemptions_total": ("preemptions", ""),
}
_REQUEST_COLUMNS = {
    "prompt_tokens": "prompt tokens",
    "output_tokens": "output tokens",
    "ttft_ms": "TTFT ms",
    "tpot_ms": "TPOT ms",
    "e2el_ms": "E2E ms",
    "queue_ms": "queued ms",
    "stalled_ms": "stalled ms",
    "worst_itl_ms": "worst ITL ms",
    "num_preemptions": "preemptions",
}


def latency_table(summary: Summary) -> Table:
    """Every latency with its statistics, ms."""
    rows = [
        [name, *(summary[field][statistic] for statistic in _STATISTICS)]
        for field, name in {**LATENCIES, **_MORE}.items()
        if summary[field]["n"]
    ]
    return Table(["ms", *_STATISTICS], rows)


def rate_table(summary: Summary) -> Table:
    """Rates and shares that the run has."""
    rows: list[list[Cell]] = [
        [words, _shown(summary[name], unit), unit]
        for name, (words, unit) in _RATES.items()
        if summary[name] is not None
    ]
    return Table(["of the whole run", "value", "unit"], rows, digits=3)


def _shown(value: float, unit: str) -> float:
    """A share as 1 only if it is all."""
    return round(percentage(value, 1) / 100, 3) if unit == "share" else value


def client_section(summary: Summary) -> Iterator[Section]:
    """How the clients fare beside each other; nothing with fewer than two."""
    clients = (summary["fairness"] or {}).get("clients") or []
    if len(clients) < 2:
        return
    heading = ("client", "requests", "TTFT p50 ms", "TTFT p99 ms", "TPOT p50 ms", "TPOT p99 ms")
    rows = [
        [
            str(client["client"]),
            client["submitted"],
            *(client[field][q] for field in ("ttft_ms", "tpot_ms") for q in ("p50", "p99")),
            None if client["goodput_fraction"] is None else percentage(client["goodput_fraction"]),
            client["service"],
            client["service_per_demand"],
        ]
        for client in clients
    ]
    jain = summary["fairness"]["jain"]["service_per_demand"]
    words = [f"Jain's index of service / demand: {jain:.3f} (1 is equal)."] if jain else []
    more = ("within the SLO %", "service", "service / demand")
    yield Section("Clients", words, tables=[Table((*heading, *more), rows)])


def slowest_section(done: pd.DataFrame, points: pd.DataFrame) -> Section:
    """The requests that took longest. points: those that are drawn, numbered as the page's rows."""
    worst = points.sort_values("e2el_ms", ascending=False, kind="stable").head(MOST_LISTED)
    rows = [
        [str(row["id"]), *(_cell(row[field]) for field in _REQUEST_COLUMNS)]
        for _, row in worst.iterrows()
    ]
    table = Table(
        ("request", *_REQUEST_COLUMNS.values()),
        rows,
        digits=1,
        numbers=[int(i) for i in worst.index],
    )
    of = f"Of {len(done):,} finished requests" + (
        f", {len(points):,} of them drawn" if len(points) < len(done) else ""
    )
    return Section(
        "The slowest requests", [f"{of}, the {len(rows)} that took longest."], tables=[table]
    )


def _cell(value: Any) -> float | int | None:  # Any: a cell of a pandas row
    if pd.isna(value):
        return None
    number = float(value)
    return int(number) if isinstance(value, int | np.integer) else number


def request_facts(row: pd.Series[Any]) -> Facts:  # Any: a row of all kinds
    """What a request's point says when pointed at."""
    facts = [("client", str(row["client"]))] if isinstance(row["client"], str) else []
    facts.append(("arrived", f"{row['arrival_s']:,.3f} s"))
    for field, name in _REQUEST_COLUMNS.items():
        if not pd.isna(row[field]):
            ms = field.endswith("_ms")
            words = name.removesuffix(" ms")
            facts.append((words, f"{row[field]:,.1f} ms" if ms else f"{int(row[field]):,}"))
    return facts
