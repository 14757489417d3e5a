"""The SLO of a search: limits of statistics (`ttft_p99=500ms`) and of requests (`ttft=500ms`).

A statistic's limit is met if the statistic over all requests is at or below it. Limits of requests
are met together: the share of submitted requests that finished and met all of them
(`goodput_fraction`) must reach the attainment asked for. A request that was rejected or never
finished counts as over every limit. Definitions: docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.run import Outcome
from experiments.values import SLO_LIMITS, pairs, slo
from simulator.errors import ConfigError, nearest
from simulator.result import State
from simulator.timings import e2el_ns, tpot_ms, ttft_ns
from simulator.units import NS_PER_MS
from simulator.window import Trim, resolve

STATISTICS: Mapping[str, float | None] = {
    "mean": None,
    "p50": 50.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "max": 100.0,
}
"""Name -> the percentile it is; None for the mean."""

METRICS = ("ttft", "tpot", "itl", "e2el")
REQUESTS = "requests"
SATURATED = "saturated"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Limit:
    """`metric`'s `statistic` may be at most `limit_ms`. Its name is as written: ttft_p99."""

    metric: str
    statistic: str
    limit_ms: float

    @property
    def name(self) -> str:
        """As written on the command line."""
        return f"{self.metric}_{self.statistic}"


@dataclass(frozen=True, slots=True)
class Objective:
    """What a rate must meet. per_request: limits in ms; attainment: the share that meets them."""

    limits: tuple[Limit, ...]
    per_request: Mapping[str, float]
    attainment: float
    saturated_is_bad: bool = True

    def described(self) -> dict[str, object]:
        """For search.json, and for the identity of an evaluation."""
        return {
            "limits": {limit.name: limit.limit_ms for limit in self.limits},
            "per_request": dict(self.per_request),
            "attainment": self.attainment if self.per_request else None,
            "saturated_is_bad": self.saturated_is_bad,
        }

    def of_requests(self) -> dict[str, float] | None:
        """Limits that a good request meets: those of requests, else those of the statistics."""
        if self.per_request:
            return dict(self.per_request)
        own = [limit for limit in self.limits if limit.metric != "itl"]
        return {f"{limit.metric}_ms": limit.limit_ms for limit in own} or None

    def words(self) -> str:
        """One line: `ttft p99 <= 500 ms, tpot p99 <= 50 ms`."""
        parts = [f"{x.metric} {x.statistic} <= {x.limit_ms:g} ms" for x in self.limits]
        if self.per_request:
            each = ", ".join(
                f"{name.removesuffix('_ms')} <= {ms:g} ms" for name, ms in self.per_request.items()
            )
            parts.append(f"{100 * self.attainment:g} % of requests with {each}")
        return ", ".join(parts)


def read_objective(
    texts: Sequence[str], attainment: float = 0.99, *, saturated_is_bad: bool = True
) -> Objective:
    """Limits as written, `ttft_p99=500ms` or `ttft=500ms`, comma between several.

    >>> read_objective(["ttft_p99=0.5s", "tpot=50"]).words()
    'ttft p99 <= 500 ms, 99 % of requests with tpot <= 50 ms'

    Raises:
        ConfigError: no limit at all, an unknown name, or no time.
    """
    if not 0 < attainment <= 1:
        raise ConfigError(f"--attainment {attainment:g}: must be a share above 0 and at most 1")
    try:
        given = {_plain(name): value for name, value in pairs(list(texts)).items()} if texts else {}
        each = {name: value for name, value in given.items() if f"{name}_ms" in SLO_LIMITS}
        limits = tuple(_limit(name, value) for name, value in given.items() if name not in each)
        per_request = (slo(each) or {}) if each else {}
    except ValueError as error:
        raise ConfigError(f"--slo {' '.join(texts)}: {error}") from None
    if not limits and not per_request:
        raise ConfigError("no SLO: give at least one --slo, such as --slo ttft_p99=500ms")
    return Objective(limits, per_request, attainment, saturated_is_bad)


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix("_ms")


def _limit(name: str, value: object) -> Limit:
    metric, _, statistic = name.rpartition("_")
    if metric not in METRICS or statistic not in STATISTICS:
        raise ValueError(_unknown(name))
    held = slo({"ttft": value}) or {}
    return Limit(metric, statistic, held["ttft_ms"])


def _unknown(name: str) -> str:
    known = [f"{metric}_{statistic}" for metric in METRICS for statistic in STATISTICS]
    known += [limit.removesuffix("_ms") for limit in SLO_LIMITS]
    close = nearest(name, known)
    return (
        f"no limit {name}{close or '.'} A limit is one of {', '.join(METRICS)} with one "
        f"of {', '.join(STATISTICS)}, such as ttft_p99, or of each request: ttft, tpot, e2el, "
        "itl_max"
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """One limit in one run.

    value: in ms, or the share that met all limits of requests; None if unanswered requests decide
    it or nobody has such a time. share: of the requests within the limit (of all gaps, for ITL).
    """

    value: float | None
    share: float
    met: bool


def measure(outcome: Outcome, objective: Objective) -> dict[str, Measured]:
    """Every limit of the objective; those of requests together, under `requests`."""
    window = outcome.summary["window"]
    missing = window["submitted"] - window["finished"]
    answered = window["finished"] / window["submitted"] if window["submitted"] else 1.0
    found: dict[str, Measured] = {}
    for limit in objective.limits:
        value = outcome.summary[f"{limit.metric}_ms"][limit.statistic]
        percentile = STATISTICS[limit.statistic]
        times = _times_ms(outcome, limit.metric)
        share = float(np.mean(times <= limit.limit_ms)) if len(times) else 1.0
        if missing and percentile is not None:
            lifted = np.percentile(np.append(times, np.full(missing, np.inf)), percentile)
            value = float(lifted) if np.isfinite(lifted) else None
        elif missing:
            value = None
        met = not missing if value is None else value <= limit.limit_ms
        found[limit.name] = Measured(value, answered * share, met)
    if objective.per_request:
        share = outcome.summary["goodput_fraction"] or 0.0
        found[REQUESTS] = Measured(share, share, share >= objective.attainment)
    return found


def _times_ms(outcome: Outcome, metric: str) -> Floats:
    """One per finished request (per gap, for ITL) of the window that is measured."""
    result = outcome.result
    if metric == "itl":
        return np.repeat(result.gaps.gap_ns, result.gaps.count) / NS_PER_MS
    trim = Trim(**{name: getattr(outcome.config, name) for name in Trim.__dataclass_fields__})
    submitted = resolve(result, None if trim == Trim() else trim).submitted(result)
    done = np.flatnonzero(submitted & (result.requests.state == State.FINISHED))
    if metric == "tpot":
        return tpot_ms(result, done[result.requests.emitted_tokens[done] > 1])
    return (ttft_ns if metric == "ttft" else e2el_ns)(result, done) / NS_PER_MS
