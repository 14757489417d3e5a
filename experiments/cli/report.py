"""The summary of a run as a person reads it: warnings first, then latencies, then rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .terminal import number, table_text

Summary = Mapping[str, Any]  # Any: JSON values

LATENCIES = {
    "TTFT": "ttft_ms",
    "TPOT": "tpot_ms",
    "ITL": "itl_ms",
    "E2E": "e2el_ms",
    "queueing": "queue_ms",
}
STATISTICS = ("mean", "p50", "p90", "p99", "max", "n")


def report(summary: Summary, out: str | None) -> str:
    """Everything worth saying about a run, as text."""
    parts = [
        headline(summary),
        *(f"! {text}" for text in warnings(summary)),
        table_text(
            "", ("ms", *STATISTICS), [_row(name, summary[key]) for name, key in _shown(summary)]
        ),
        table_text("", ("rates and shares", "", ""), list(_rates(summary)), text_columns=1),
        f"{footer(summary)}{f'; results in {out}' if out else ''}",
    ]
    return "\n".join(parts)


def headline(summary: Summary) -> str:
    """What was simulated: scheduler, its settings, prices, KV cache."""
    scheduler, cache = summary["provenance"]["scheduler"], summary["provenance"]["kv_cache"]
    settings = ", ".join(
        f"{key} {'none' if value is None else value}"
        for key, value in scheduler["parameters"].items()
    )
    return (
        f"scheduler {scheduler['name']} ({settings}); cost model {summary['cost_model']['name']}; "
        f"KV cache {cache['blocks']:,} blocks of {cache['block_size']}"
    )


def warnings(summary: Summary) -> Iterator[str]:
    """What a reader must know before believing the numbers."""
    if summary["cost_model"]["stamp"]:
        yield summary["cost_model"]["stamp"]
    if summary["saturated"]:
        yield (
            f"saturated: {summary['saturation']['reason']}; the means describe this run, "
            "not a steady state"
        )
    if summary["rejected"]:
        yield f"{summary['rejected']:,} requests rejected: {_counts(summary['rejected_by_reason'])}"
    if summary["dropped"]:
        yield f"{summary['dropped']:,} rows dropped: {_counts(summary['dropped_by_reason'])}"
    for state, words in (
        ("unfinished", "unfinished at the stop time"),
        ("not_arrived", "not arrived by then"),
    ):
        if summary[state]:
            yield f"{summary[state]:,} requests {words}"
    yield from summary["provenance"]["notes"]


def footer(summary: Summary) -> str:
    """Counts and cost of the run itself."""
    run = summary["run"]
    wall = f" in {number(1000 * run['wall_s'])} ms" if run["wall_s"] is not None else ""
    return (
        f"{summary['finished']:,} of {summary['submitted']:,} requests finished; "
        f"simulated {number(summary['duration_s'])} s with {run['steps']:,} steps{wall}"
    )


def _shown(summary: Summary) -> Iterator[tuple[str, str]]:
    yield from LATENCIES.items()
    if summary["ttft_from_schedule_ms"]["n"]:
        yield "TTFT, from schedule", "ttft_from_schedule_ms"
        yield "E2E, from schedule", "e2el_from_schedule_ms"


def _row(name: str, held: Mapping[str, Any]) -> tuple[str, ...]:  # Any: JSON numbers
    few = "*" if held["p99_few_samples"] else ""
    return (
        name,
        *(number(held[key], 2) + (few if key == "p99" else "") for key in STATISTICS[:-1]),
        f"{held['n']:,}",
    )


def _rates(summary: Summary) -> Iterator[tuple[str, str, str]]:
    for name, key, unit in (
        ("request throughput", "request_throughput", "requests/s"),
        ("input throughput", "input_throughput", "tokens/s"),
        ("output throughput", "output_throughput", "tokens/s"),
    ):
        yield name, number(summary[key], 2), unit
    if summary["slo"]:
        limits = ", ".join(
            f"{name.removesuffix('_ms')} <= {held['limit']:g} ms"
            for name, held in summary["slo"].items()
        )
        yield f"goodput ({limits})", number(summary["request_goodput"], 2), "requests/s"
        yield "requests that meet it", _share(summary["goodput_fraction"]), ""
    yield "KV cache used, mean / peak", _pair(summary, "kv_util_mean", "kv_util_peak"), ""
    yield "engine busy", _share(summary["engine_busy"]), ""
    if summary["preemptions_total"]:
        yield "preemptions", f"{summary['preemptions_total']:,}", ""


def _pair(summary: Summary, first: str, second: str) -> str:
    return f"{_share(summary[first])} / {_share(summary[second])}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _counts(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
