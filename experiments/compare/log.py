"""What a run or an engine's log says, in one form whatever tool wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STATISTICS = ("mean", "p50", "p90", "p99")
LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms", "e2el_ms", "queue_ms", "norm_latency_ms")
RATES = (
    *("request_throughput", "output_throughput", "total_token_throughput"),
    *("request_goodput", "duration_s"),
)
TOKENS = ("prompt_tokens", "output_tokens")
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Pooled inter-token gaps. gap_ms: ascending, shape (m,); count: how many of each."""

    gap_ms: Floats
    count: Floats

    def statistics(self) -> dict[str, float]:
        """Mean and percentiles (interpolated linearly), and n."""
        if not len(self.gap_ms):
            return {}
        total = float(self.count.sum())
        upto = np.cumsum(self.count)
        found = {"mean": float(self.gap_ms @ self.count) / total, "n": total}
        for name, share in _QUANTILES.items():
            place = share * (total - 1)
            low, high = (
                self.gap_ms[np.searchsorted(upto, at, side="right")]
                for at in (np.floor(place), np.ceil(place))
            )
            found[name] = float(low + (high - low) * (place - np.floor(place)))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """One run of one engine, simulated or real.

    name: what to call it. kind: what wrote it. is_measured: a real engine ran.
    requests: column -> shape (n,), NaN where a request has no such number: `LATENCIES` but
        `itl_ms`, `TOKENS` and `arrival_s`; all requests in the order they were sent, failed ones
        with NaN. Empty if the log has no single requests.
    ids: names of the requests, shape (n,), or None.
    gaps: all inter-token gaps, or None.
    stated: metric -> statistic -> value, where the log itself states it.
    rates: of `RATES`. slo: the limits behind its goodput, where it states them.
    prices: `cost_model` of a simulated run's summary: what priced its steps, and how accurately.
    notes: what a reader must know before comparing.
    """

    name: str
    kind: str
    is_measured: bool
    requests: Mapping[str, Floats] = field(default_factory=dict)
    ids: tuple[str, ...] | None = None
    gaps: Gaps | None = None
    stated: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    slo: Mapping[str, float] = field(default_factory=dict)
    prices: Mapping[str, Any] | None = None  # Any: JSON values
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.requests.values()), ()))

    def samples(self, metric: str) -> Floats:
        """All values of a latency that single requests have, ascending."""
        values = self.requests.get(metric, np.zeros(0))
        return np.sort(values[~np.isnan(values)])

    def statistics(self, metric: str) -> dict[str, float]:
        """Mean, p50, p90, p99 and n: from the samples, else as the log states them."""
        if metric == "itl_ms" and self.gaps is not None:
            return self.gaps.statistics()
        values = self.samples(metric)
        if len(values):
            quantiles = np.quantile(values, list(_QUANTILES.values()))
            return {
                "mean": float(values.mean()),
                **dict(zip(_QUANTILES, map(float, quantiles), strict=True)),
                "n": float(len(values)),
            }
        return dict(self.stated.get(metric, {}))

    def tokens(self, which: str) -> float | None:
        """All prompt or output tokens of the requests that finished; None if unknown."""
        values = self.requests.get(which)
        ended = self.requests.get("e2el_ms", self.requests.get("ttft_ms"))
        if values is None or ended is None:
            return None
        total = float(np.nansum(values[~np.isnan(ended)]))
        return total or None


def pooled(values: Floats) -> Gaps | None:
    """Gaps from a list of them, ms; None for none.

    >>> pooled(np.array([2.0, 1.0, 2.0])).count.tolist()
    [1.0, 2.0]
    """
    if not len(values):
        return None
    gap_ms, count = np.unique(values, return_counts=True)
    return Gaps(gap_ms, count.astype(np.float64))


def completed(columns: Mapping[str, Floats]) -> dict[str, Floats]:
    """The columns with TPOT, E2E and normalized latency added where the others determine them.

    TPOT = (E2E - TTFT) / (output tokens - 1), and none for one token.
    """
    known = dict(columns)
    tokens = known.get("output_tokens")
    if tokens is None:
        return known
    later = np.where(tokens > 1, tokens - 1, np.nan)
    if "e2el_ms" not in known and {"ttft_ms", "tpot_ms"} <= known.keys():
        decoding = np.where(tokens > 1, known["tpot_ms"] * later, 0.0)
        known["e2el_ms"] = known["ttft_ms"] + decoding
    if "tpot_ms" not in known and {"ttft_ms", "e2el_ms"} <= known.keys():
        known["tpot_ms"] = (known["e2el_ms"] - known["ttft_ms"]) / later
    if "e2el_ms" in known:
        known["norm_latency_ms"] = known["e2el_ms"] / np.where(tokens > 0, tokens, np.nan)
    return known
