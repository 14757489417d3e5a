"""A point as a row: the swept values, how it went, and flat metric columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .spec import SweepSpec

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
"""Column -> value. Any: numbers, texts, truth values or None."""

DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "ttft_ms": ("mean", "p50", "p90", "p99", "max", "n"),
    "tpot_ms": ("mean", "p50", "p90", "p99", "max", "n"),
    "itl_ms": ("mean", "p50", "p90", "p99", "max", "n"),
    "e2el_ms": ("mean", "p50", "p90", "p99", "max"),
    "queue_ms": ("mean", "p50", "p99"),
    "step_ms": ("mean", "p99"),
    "batch_size": ("mean",),
}
"""Summary field -> the statistics of it that become columns, such as `ttft_ms_p99`."""

RATES = (
    "request_throughput",
    "input_throughput",
    "output_throughput",
    "total_token_throughput",
    "offered_rate",
    "achieved_rate",
    "request_goodput",
    "goodput_fraction",
    "output_goodput",
    "kv_util_mean",
    "kv_util_peak",
    "engine_busy",
    "duration_s",
    "recompute_tax",
    "prefix_hit_rate",
)
COUNTS = (
    "preemptions_total",
    "cached_prompt_tokens",
    "submitted",
    "finished",
    "rejected",
    "unfinished",
    "not_arrived",
)

AVERAGED = (
    *(f"{field}_{name}" for field, names in DISTRIBUTIONS.items() for name in names),
    *RATES,
    *COUNTS,
    "steps",
    "events",
    "extrapolated_share",
)
"""Metric columns that are averaged over seeds."""


def metric_row(summary: Mapping[str, Any]) -> Row:  # Any: JSON values
    """The metric columns of a run's summary; None where the run has no such number."""
    row: Row = {
        "effective_chunk_size": summary["provenance"]["scheduler"]["effective_chunk_size"],
        "saturated": summary["saturated"],
    }
    for field, statistics in DISTRIBUTIONS.items():
        row |= {f"{field}_{name}": summary[field][name] for name in statistics}
    row |= {name: summary[name] for name in (*RATES, *COUNTS)}
    return {
        **row,
        "steps": summary["run"]["steps"],
        "events": summary["run"]["events"],
        "extrapolated_share": extrapolated_share(summary),
    }


def extrapolated_share(summary: Mapping[str, Any]) -> float | None:  # Any: JSON values
    """Share of the time in steps priced beyond the measured range; None: prices without a range."""
    beyond = summary["cost_model"]["extrapolation"]
    share: float | None = beyond["share_of_time"] if beyond else None
    return share


def sweep_frame(spec: SweepSpec, records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per point, in order, with a type per column that does not depend on the rows.

    records: `{"status", "reason", "metrics"}` per point. Any: JSON values. With several seeds
    a number is the mean over them, beside the ends of its confidence interval.
    """
    import pandas as pd

    columns: dict[str, pd.Series] = {}
    rows = [record.get("metrics") or {} for record in records]
    columns["index"] = pd.Series(range(len(records)), dtype="int64")
    columns["status"] = pd.Series([record["status"] for record in records], dtype="str")
    columns["reason"] = pd.Series([record["reason"] for record in records], dtype="str")
    points = list(spec.points())
    for name in spec.varied:
        columns[name] = _swept([point.values[name] for point in points])
    several = len(spec.runs) > 1
    if several:
        columns["replicates"] = pd.Series([row.get("replicates") for row in rows], dtype="Int64")
    for name in metric_names():
        ends = ("", "_ci_low", "_ci_high") if several and name in AVERAGED else ("",)
        for end in ends:
            kind = "Float64" if several and name in AVERAGED else _kind(name)
            columns[name + end] = pd.Series([row.get(name + end) for row in rows], dtype=kind)
    return pd.DataFrame(columns)


def metric_names() -> list[str]:
    """The metric columns, in order."""
    return ["effective_chunk_size", "saturated", *AVERAGED]


def _kind(name: str) -> str:
    if name == "saturated":
        return "boolean"
    whole = ("effective_chunk_size", "steps", "events", *COUNTS)
    return "Int64" if name in whole or name.endswith("_n") else "Float64"


def _swept(values: Sequence[Any]) -> pd.Series:  # Any: values of any setting
    """Numbers as numbers; a column with any text in it is text throughout."""
    import pandas as pd

    held = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in held):
        return pd.Series(values, dtype="boolean")
    if all(isinstance(value, int) for value in held):
        return pd.Series(values, dtype="Int64")
    if all(isinstance(value, int | float) for value in held):
        return pd.Series(values, dtype="Float64")
    return pd.Series([None if value is None else str(value) for value in values], dtype="str")
