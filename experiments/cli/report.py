"""The summary of a run as a person reads it: warnings first, then latencies, then rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.caption import caption_parts
from experiments.percent import percent

from .terminal import number, table_text

Summary = Mapping[str, Any]  # Any: JSON values

LATENCIES = {
    "TTFT": "ttft_ms",
    "TPOT": "tpot_ms",
    "ITL": "itl_ms",
    "E2E": "e2el_ms",
    "queueing": "queue_ms",
}
FEW_SAMPLES = "\n * of fewer than 100 samples: little more than the maximum"
STATISTICS = ("mean", "p50", "p90", "p99", "max", "n")


def report(summary: Summary, out: str | None) -> str:
    """Everything worth saying about a run, as text."""
    shown = list(_shown(summary))
    latencies = [_row(name, summary[key]) for name, key in shown]
    parts = [
        "\n".join([headline(summary), *(f"! {text}" for text in warnings(summary))]),
        table_text("", ("ms", *STATISTICS), latencies)
        + (FEW_SAMPLES if any(summary[key]["p99_few_samples"] for _, key in shown) else ""),
        table_text("", ("rates and shares", "", ""), _rates(summary)),
        f"{footer(summary)}{f'; results in {out}' if out else ''}",
    ]
    return "\n\n".join(parts)


def headline(summary: Summary) -> str:
    """What was simulated: workload, scheduler, its settings, prices, KV cache."""
    name, requests, _ = caption_parts(summary)
    scheduler, cache = summary["provenance"]["scheduler"], summary["provenance"]["kv_cache"]
    settings = ", ".join(
        f"{key} {'none' if value is None else value}"
        for key, value in scheduler["parameters"].items()
    )
    held_out = summary["cost_model"]["held_out"]
    error = (
        f" (held-out error median {_share(held_out['median'])}, p90 {_share(held_out['p90'])})"
        if held_out
        else ""
    )
    ahead = ", async scheduling" if scheduler["async_scheduling"] else ""
    shared = ", prefix caching" if cache["prefix_caching"] else ""
    return (
        f"workload {name}, {requests}\n"
        f"scheduler {scheduler['name']}: {settings}{_effective(scheduler)}{ahead}\n"
        f"cost model {summary['cost_model']['name']}{error}\n"
        f"KV cache {cache['blocks']:,} blocks of {cache['block_size']} tokens{shared}"
    )


def _effective(scheduler: Mapping[str, Any]) -> str:  # Any: JSON values
    """The chunk size that counts, where the token budget makes it smaller than asked."""
    asked, effective = scheduler["parameters"].get("chunk_size"), scheduler["effective_chunk_size"]
    return f" (effective {effective})" if asked and effective and effective < asked else ""


def warnings(summary: Summary) -> Iterator[str]:
    """What a reader must know before believing the numbers."""
    if summary["cost_model"]["stamp"]:
        yield summary["cost_model"]["stamp"]
    beyond = summary["cost_model"]["extrapolation"]
    if beyond and beyond["outside_steps"]:
        farthest = ", ".join(
            f"{axis} {far['asked']:,} (measured to {far['measured'][1]:,})"
            for axis, far in beyond["farthest"].items()
        )
        yield (
            f"extrapolated ({beyond['extrapolation']}): {_share(beyond['share_of_time'])} of the "
            f"time in steps beyond the measured range; farthest {farthest}"
        )
    if summary["saturated"]:
        yield (
            f"saturated: {summary['saturation']['reason']}; the means describe this run, "
            "not a steady state"
        )
    if summary["rejected"]:
        yield f"requests rejected: {_rejected(summary)}"
    if summary["dropped"]:
        yield f"rows dropped: {_counts(summary['dropped_by_reason'])}"
    for state, words in (
        ("unfinished", "unfinished at the end of the run"),
        ("not_arrived", "not arrived by then"),
    ):
        if summary[state]:
            yield f"requests {words}: {summary[state]:,}"
    yield from (note for note in summary["provenance"]["workload"]["notes"] if _is_news(note))
    yield from summary["provenance"]["notes"]


def _is_news(note: str) -> bool:
    """What a file did that nobody asked for; the other notes repeat settings."""
    return note.startswith(("input was not sorted", "no arrival times"))


def _rejected(summary: Summary) -> str:
    cache = summary["provenance"]["kv_cache"]
    limits = {
        "exceeds_kv_capacity": f" ({cache['blocks']:,} blocks of {cache['block_size']} tokens)",
        "exceeds_model_len": f" ({cache['max_model_len'] or 0:,} tokens)",
    }
    counts = summary["rejected_by_reason"].items()
    return ", ".join(f"{count:,} {why}{limits.get(why, '')}" for why, count in counts)


def footer(summary: Summary) -> str:
    """Counts and cost of the run itself."""
    run = summary["run"]
    wall = f" in {number(1000 * run['wall_s'])} ms" if run["wall_s"] is not None else ""
    return (
        f"{summary['finished']:,} of {summary['submitted']:,} requests finished; "
        f"simulated {number(summary['duration_s'])} s with {_steps(run['steps'])}{wall}"
    )


def _steps(count: int) -> str:
    return f"{count:,} step{'' if count == 1 else 's'}"


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
        limits = {name: held["limit"] for name, held in summary["slo"].items()}
        yield (
            f"goodput ({limits_text(limits)})",
            number(summary["request_goodput"], 2),
            "requests/s",
        )
        yield "requests that meet it", _share(summary["goodput_fraction"]), ""
    yield "KV cache used, mean / peak", _pair(summary, "kv_util_mean", "kv_util_peak"), ""
    if summary["provenance"]["kv_cache"]["prefix_caching"]:
        yield "prompt tokens found in the cache", _share(summary["prefix_hit_rate"]), ""
    yield "engine busy", _share(summary["engine_busy"]), ""
    if summary["preemptions_total"]:
        yield "preemptions", f"{summary['preemptions_total']:,}", ""


def limits_text(limits: Mapping[str, float]) -> str:
    """An SLO in words. limits: in ms, by name.

    >>> limits_text({"ttft_ms": 1000.0, "tpot_ms": 50.0})
    'ttft <= 1000 ms, tpot <= 50 ms'
    """
    return ", ".join(f"{name.removesuffix('_ms')} <= {ms:g} ms" for name, ms in limits.items())


def _pair(summary: Summary, first: str, second: str) -> str:
    return f"{_share(summary[first])} / {_share(summary[second])}"


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _counts(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
