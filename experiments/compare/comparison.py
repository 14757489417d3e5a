"""Differences of two logs: per metric, per request, and in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .log import LATENCIES, RATES, STATISTICS, TOKENS, Floats, Log
from .matching import Matching, match

NAMES = {
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "itl_ms": "ITL",
    "e2el_ms": "E2E",
    "queue_ms": "queueing",
    "norm_latency_ms": "normalized latency",
    "request_throughput": "request throughput",
    "output_throughput": "output throughput",
    "total_token_throughput": "total token throughput",
    "request_goodput": "goodput",
    "duration_s": "duration",
    "prompt_tokens": "prompt tokens",
    "output_tokens": "output tokens",
}
UNITS = {
    **dict.fromkeys(LATENCIES, "ms"),
    "request_throughput": "requests/s",
    "output_throughput": "tokens/s",
    "total_token_throughput": "tokens/s",
    "request_goodput": "requests/s",
    "duration_s": "s",
    "prompt_tokens": "tokens",
    "output_tokens": "tokens",
}
_SERVED = ("ttft_ms", "tpot_ms", "e2el_ms")
_THOUSAND = (100.0, 10_000.0)
"""Ratios of latencies within this look like seconds taken for milliseconds."""

_TOTALS_APART = 0.01
"""Token totals that differ by more than this are two workloads."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One number in both logs. relative: (other - reference) / reference; None if that is 0."""

    metric: str
    statistic: str
    reference: float
    other: float
    relative: float | None


@dataclass(frozen=True, slots=True)
class RequestErrors:
    """What single requests say of one metric, over pairs of matched requests.

    Relative errors (other - reference) / reference: their median, the median and the 90th
    percentile of their absolute values. longer: the share of requests whose other value is larger.
    """

    metric: str
    pairs: int
    median: float
    median_absolute: float
    p90_absolute: float
    longer: float


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Everything that can be said. reference: the measured log if one is, else the first.

    apart: metric -> largest vertical distance of the two cumulative distributions (the
    Kolmogorov-Smirnov statistic), for metrics of which both logs have the samples.
    """

    reference: Log
    other: Log
    differences: tuple[Difference, ...]
    matching: Matching | None
    errors: tuple[RequestErrors, ...]
    apart: dict[str, float]
    notes: tuple[str, ...]
    verdict: str

    def described(self) -> dict[str, Any]:  # Any: JSON values
        """What compare.json holds."""
        return {
            "verdict": self.verdict,
            "reference": _described(self.reference),
            "other": _described(self.other),
            "differences": [asdict(each) for each in self.differences],
            "matched": None
            if self.matching is None
            else {"how": self.matching.how, "pairs": len(self.matching.first)},
            "request_errors": [asdict(each) for each in self.errors],
            "distributions_apart": self.apart,
            "notes": list(self.notes),
        }

    def pairs(self, metric: str) -> tuple[Floats, Floats]:
        """Values of matched requests that both have one, shape (pairs,) each: reference, other."""
        if self.matching is None:
            return np.zeros(0), np.zeros(0)
        nothing = np.full(max(len(self.reference), len(self.other)), np.nan)
        one = self.reference.requests.get(metric, nothing)[self.matching.first]
        two = self.other.requests.get(metric, nothing)[self.matching.second]
        both = ~np.isnan(one) & ~np.isnan(two)
        return one[both], two[both]


def compare(first: Log, second: Log) -> Comparison:
    """Compare two logs; what only one of them has is left out.

    Raises:
        ConfigError: they have no metric in common.
    """
    from simulator.errors import ConfigError

    from .verdict import verdict

    reference, other = (
        (second, first) if second.is_measured and not first.is_measured else (first, second)
    )
    differences = tuple(_differences(reference, other))
    if not differences:
        raise ConfigError(
            f"{first.name} and {second.name} have no metric in common: "
            f"{_have(first)} against {_have(second)}"
        )
    matching = match(reference, other)
    found = Comparison(
        reference, other, differences, matching, (), _apart(reference, other), (), ""
    )
    errors = tuple(_errors(found))
    notes = tuple(_notes(reference, other, differences))
    sentence = verdict(reference, other, differences, errors, matching)
    return Comparison(reference, other, differences, matching, errors, found.apart, notes, sentence)


def _differences(reference: Log, other: Log) -> Iterator[Difference]:
    for metric in LATENCIES:
        one, two = reference.statistics(metric), other.statistics(metric)
        for statistic in STATISTICS:
            if statistic in one and statistic in two:
                yield _difference(metric, statistic, one[statistic], two[statistic])
    for metric in RATES:
        if metric in reference.rates and metric in other.rates:
            yield _difference(metric, "", reference.rates[metric], other.rates[metric])
    for metric in TOKENS:
        total, another = reference.tokens(metric), other.tokens(metric)
        if total is not None and another is not None:
            yield _difference(metric, "total", total, another)


def _difference(metric: str, statistic: str, one: float, two: float) -> Difference:
    return Difference(metric, statistic, one, two, (two - one) / one if one else None)


def _errors(found: Comparison) -> Iterator[RequestErrors]:
    for metric in LATENCIES:
        one, two = found.pairs(metric)
        one, two = one[one > 0], two[one > 0]
        if not len(one):
            continue
        relative = (two - one) / one
        yield RequestErrors(
            metric,
            len(one),
            float(np.median(relative)),
            float(np.median(np.abs(relative))),
            float(np.quantile(np.abs(relative), 0.9)),
            float(np.mean(two > one)),
        )


def _apart(reference: Log, other: Log) -> dict[str, float]:
    found = {}
    for metric in LATENCIES:
        one, two = reference.samples(metric), other.samples(metric)
        if len(one) and len(two):
            at = np.concatenate((one, two))
            share = [np.searchsorted(held, at, side="right") / len(held) for held in (one, two)]
            found[metric] = float(np.max(np.abs(share[0] - share[1])))
    return found


def _notes(reference: Log, other: Log, differences: tuple[Difference, ...]) -> Iterator[str]:
    for each in differences:
        if each.metric in TOKENS and abs(each.relative or 0.0) > _TOTALS_APART:
            yield (
                f"{NAMES[each.metric]} in all: {each.reference:,.0f} against {each.other:,.0f}, so "
                "these are two workloads: nothing else can be compared before this"
            )
    yield from _unit_note(reference, other, differences)
    if any(each.metric == "request_goodput" for each in differences) and (
        reference.slo != other.slo or reference.is_measured
    ):
        yield "goodput is of each one's own limits, which may not be the same"
    if reference.is_measured != other.is_measured:
        yield (
            "a client sees responses, a simulator tokens: network and streaming are in the "
            "measured latencies only"
        )
    for log in (reference, other):
        yield from (f"{log.name}: {note}" for note in log.notes)


def _unit_note(reference: Log, other: Log, differences: tuple[Difference, ...]) -> Iterator[str]:
    """Where every latency of one is about 1000 times the other's: no engine differs like that."""
    ratios = [
        each.other / each.reference
        for each in differences
        if each.metric in _SERVED and each.statistic in ("mean", "p50") and each.reference > 0
    ]
    low, high = _THOUSAND
    inverse = [1 / ratio for ratio in ratios if ratio > 0]
    for small, large, of in ((reference, other, ratios), (other, reference, inverse)):
        if len(of) > 1 and len(of) == len(ratios) and all(low < ratio < high for ratio in of):
            # Runway's own runs hold milliseconds for sure.
            in_seconds = small.is_measured or not large.is_measured
            suspect, unit, end = (small, "", "_s") if in_seconds else (large, "micro", "_us")
            yield (
                f"every latency of {large.name} is about {float(np.median(of)):,.0f} times that of "
                f"{small.name}: {suspect.name} may hold {unit}seconds under names in _ms; if so, "
                f"name its columns ttft{end}, e2el{end} ..."
            )


def _have(log: Log) -> str:
    names = [NAMES[metric] for metric in LATENCIES if log.statistics(metric)]
    return ", ".join([*names, *(NAMES[rate] for rate in log.rates)]) or "nothing"


def _described(log: Log) -> dict[str, Any]:  # Any: JSON values
    return {
        "name": log.name,
        "kind": log.kind,
        "measured": log.is_measured,
        "requests": len(log),
        "statistics": {m: log.statistics(m) for m in LATENCIES if log.statistics(m)},
        "rates": dict(log.rates),
        "cost_model": log.prices,
    }
