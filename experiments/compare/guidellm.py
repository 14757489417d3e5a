"""benchmarks.json of GuideLLM.

Source: GuideLLM, "Metrics". Its inter token latency leaves the first token out and is an average
per request: our TPOT. Its "time per output token" counts the first token: our normalized latency.
Request latency is in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.errors import ConfigError

from .log import Log

_LATENCIES = {
    "time_to_first_token_ms": ("ttft_ms", 1.0),
    "inter_token_latency_ms": ("tpot_ms", 1.0),
    "time_per_output_token_ms": ("norm_latency_ms", 1.0),
    "request_latency": ("e2el_ms", 1e3),
}
_RATES = {
    "requests_per_second": "request_throughput",
    "output_tokens_per_second": "output_throughput",
    "tokens_per_second": "total_token_throughput",
}
_NOTES = (
    "its inter token latency is compared as TPOT and its time per output token, which counts the "
    "first token, as normalized latency",
    "rates are over its active window",
)


def recognises(content: Any) -> bool:  # Any: parsed JSON
    """Benchmarks with metrics that tell successful requests apart."""
    if not isinstance(content, dict) or not isinstance(content.get("benchmarks"), list):
        return False
    return all(isinstance(each, dict) and "metrics" in each for each in content["benchmarks"])


def read(path: Path, content: Any) -> Log:  # Any: parsed JSON
    """Read the statistics of the one benchmark's successful requests.

    Raises:
        ConfigError: none or several benchmarks.
    """
    benchmarks = content["benchmarks"]
    if len(benchmarks) != 1:
        raise ConfigError(
            f"{path}: holds {len(benchmarks)} benchmarks: run one rate at a time, not a sweep"
        )
    metrics = benchmarks[0]["metrics"]
    stated = {
        ours: _statistics(metrics[theirs]["successful"], scale)
        for theirs, (ours, scale) in _LATENCIES.items()
        if theirs in metrics
    }
    rates = {
        ours: float(metrics[theirs]["successful"]["mean"])
        for theirs, ours in _RATES.items()
        if theirs in metrics
    }
    if benchmarks[0].get("duration"):
        rates["duration_s"] = float(benchmarks[0]["duration"])
    return Log(path.name, "GuideLLM", is_measured=True, stated=stated, rates=rates, notes=_NOTES)


def _statistics(held: Mapping[str, Any], scale: float) -> dict[str, float]:  # Any: parsed JSON
    shares = held.get("percentiles") or {}
    known = {
        "mean": held.get("mean"),
        "p50": shares.get("p50", held.get("median")),
        "p90": shares.get("p90"),
        "p99": shares.get("p99", held.get("p99")),
    }
    found = {name: float(value) * scale for name, value in known.items() if value is not None}
    if held.get("count"):
        found["n"] = float(held["count"])
    return found
