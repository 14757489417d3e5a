"""JSON of `vllm bench serve --save-result`, with single requests if `--save-detailed` was given.

Source: vllm/benchmarks/serve.py. Times of single requests are in seconds, statistics in ms. E2E of
a request is its TTFT plus its gaps; the clock starts when the client's concurrency limit lets the
request go.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import ConfigError
from simulator.units import NS_PER_MS, NS_PER_S

from .log import Floats, Log, completed, pooled

MS_PER_S = NS_PER_S / NS_PER_MS
_METRICS = {"ttft_ms": "ttft", "tpot_ms": "tpot", "itl_ms": "itl", "e2el_ms": "e2el"}
_STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99"}
_RATES = {
    "request_throughput": "request_throughput",
    "output_throughput": "output_throughput",
    "total_token_throughput": "total_token_throughput",
    "request_goodput": "request_goodput",
    "duration_s": "duration",
}


def recognises(content: Any) -> bool:  # Any: parsed JSON
    """One result, or several appended to one file."""
    return _is_result(content) or (
        isinstance(content, list) and len(content) > 0 and all(map(_is_result, content))
    )


def read(path: Path, content: Any) -> Log:  # Any: parsed JSON
    """Read one result.

    Raises:
        ConfigError: the file holds several.
    """
    if isinstance(content, list):
        if len(content) > 1:
            raise ConfigError(
                f"{path}: holds {len(content)} results (--append-result): keep one in the file"
            )
        content = content[0]
    columns, gaps = _requests(content) if "ttfts" in content else ({}, np.zeros(0))
    rates = {ours: content.get(theirs) for ours, theirs in _RATES.items()}
    return Log(
        name=path.name,
        kind="vllm bench serve",
        is_measured=True,
        requests=columns,
        gaps=pooled(gaps),
        stated=_stated(content),
        rates={name: float(value) for name, value in rates.items() if value is not None},
        notes=_notes(content, columns, len(gaps)),
    )


def _is_result(content: Any) -> bool:  # Any: parsed JSON
    return isinstance(content, dict) and {"request_throughput", "completed"} <= content.keys()


def _requests(content: Mapping[str, Any]) -> tuple[dict[str, Floats], Floats]:
    """Columns of all requests and the gaps of those that succeeded. Any: parsed JSON."""
    ttft = np.array(content["ttfts"], np.float64)
    chunks = content["itls"]
    errors = content.get("errors") or [""] * len(ttft)
    good = np.array([not error for error in errors])
    columns = {
        "ttft_ms": np.where(good, ttft * MS_PER_S, np.nan),
        "e2el_ms": np.where(good, (ttft + np.array([sum(c) for c in chunks])) * MS_PER_S, np.nan),
        "prompt_tokens": np.array(content["input_lens"], np.float64),
        "output_tokens": np.array(content["output_lens"], np.float64),
    }
    if content.get("start_times"):
        start = np.array(content["start_times"], np.float64)
        columns["arrival_s"] = start - start.min()
    gaps = [np.array(c) for c, ok in zip(chunks, good, strict=True) if ok]
    return completed(columns), np.concatenate([np.zeros(0), *gaps]) * MS_PER_S


def _stated(content: Mapping[str, Any]) -> dict[str, dict[str, float]]:  # Any: parsed JSON
    found: dict[str, dict[str, float]] = {}
    for ours, theirs in _METRICS.items():
        known = {name: content.get(f"{word}_{theirs}_ms") for name, word in _STATISTICS.items()}
        held = {name: float(value) for name, value in known.items() if value is not None}
        if held:
            found[ours] = held
    return found


def _notes(
    content: Mapping[str, Any],  # Any: parsed JSON
    columns: Mapping[str, Floats],
    gaps: int,
) -> tuple[str, ...]:
    notes = []
    if not columns:
        notes.append("no single requests in it: write it with --save-detailed to compare them")
    failed = int(np.isnan(columns["ttft_ms"]).sum()) if columns else content.get("failed", 0)
    if failed:
        notes.append(f"{failed:,} requests failed and are in no latency")
    if content.get("max_concurrency"):
        notes.append(
            f"at most {content['max_concurrency']} requests under way: TTFT starts when the client "
            "sent a request, not when it was due"
        )
    if str(content.get("request_rate")) == "inf":
        notes.append("all requests were sent at once (request rate inf)")
    if columns:
        tokens = columns["output_tokens"][~np.isnan(columns["ttft_ms"])]
        expected = float(np.maximum(tokens - 1, 0).sum())
        if gaps and gaps < 0.98 * expected:
            notes.append(
                f"{gaps:,} gaps for {expected:,.0f} tokens after the first: responses carried "
                "several tokens, so its ITL is not ours; compare TPOT"
            )
    return tuple(notes)
