"""Arrival processes: when requests arrive, int64 nanoseconds from the start, ascending.

The first request arrives after the first gap, not at 0, so that the arrivals are a stationary
process seen from t=0. Gaps are never rescaled to hit a nominal duration: that would remove
part of the variance (some load generators do it).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import WorkloadError
from simulator.units import NS_PER_S, seconds_to_ns

from .limits import MAX_NS, at_least, positive

Ints = NDArray[np.int64]


def poisson(requests: int, rate: float, seed: int) -> Ints:
    """Exponential gaps with mean 1/rate. rate: requests per second.

    >>> round(int(poisson(100_000, 8.0, seed=1)[-1]) / 100_000 / NS_PER_S, 2)  # near 1/8
    0.12
    """
    at_least("requests", requests, 1)
    with np.errstate(over="ignore"):
        gaps_s = _generator(seed).standard_exponential(requests) / positive("rate", rate)
    return _summed(gaps_s, "rate", rate)


def gamma(requests: int, rate: float, burstiness: float, seed: int) -> Ints:
    """Gamma gaps with mean 1/rate and shape `burstiness`, as vLLM's benchmark names it.

    1 is Poisson, below 1 burstier, above 1 more even, infinity constant; the coefficient of
    variation of the gaps is 1/sqrt(burstiness).

    Raises:
        WorkloadError: burstiness 0, negative, NaN or so small that no gap can be drawn.
    """
    at_least("requests", requests, 1)
    if burstiness == math.inf:
        return constant(requests, rate)
    if not burstiness > 0:
        raise WorkloadError(f"burstiness {burstiness} must be above 0 (1 is Poisson)")
    unit = _generator(seed).standard_gamma(burstiness, requests)
    with np.errstate(all="ignore"):
        gaps_s = unit / burstiness / positive("rate", rate)
    if not gaps_s.any():
        raise WorkloadError(f"burstiness {burstiness} is too small: every gap comes out 0")
    return _summed(gaps_s, "burstiness", burstiness)


def constant(requests: int, rate: float) -> Ints:
    """One request every 1/rate seconds, the first after one gap.

    >>> constant(3, 8.0).tolist()
    [125000000, 250000000, 375000000]
    """
    at_least("requests", requests, 1)
    _require_span(requests / positive("rate", rate), "rate", rate)
    times_ns: Ints = np.rint(np.arange(1, requests + 1) * (NS_PER_S / rate)).astype(np.int64)
    return times_ns


def on_off(requests: int, rate: float, on_s: float, off_s: float, seed: int) -> Ints:
    """Poisson bursts of `on_s` seconds with silences of `off_s` between; starts with a burst.

    Inside a burst the rate is `rate * (on_s + off_s) / on_s`, so that the long-run mean is `rate`.
    """
    if not (math.isfinite(off_s) and off_s >= 0):
        raise WorkloadError(f"off_s {off_s} must be a finite number of at least 0")
    stretch = (positive("on_s", on_s) + off_s) / on_s
    busy = poisson(requests, positive("rate", rate) * stretch, seed)
    _require_span(float(busy[-1]) * stretch / NS_PER_S + off_s, "rate", rate)
    return busy + busy // max(1, seconds_to_ns(on_s)) * seconds_to_ns(off_s)


def all_at_once(requests: int) -> Ints:
    """Everything at t=0: an offline batch, or the closed loop's supply of requests."""
    return np.zeros(at_least("requests", requests, 1), dtype=np.int64)


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(at_least("seed", seed, 0)))


def _summed(gaps_s: NDArray[np.floating[Any]], name: str, value: float) -> Ints:
    _require_span(float(gaps_s.sum()), name, value)
    # Whole-nanosecond gaps add up exactly, in any order and on any machine.
    return np.cumsum(np.rint(gaps_s * NS_PER_S).astype(np.int64))


def _require_span(span_s: float, name: str, value: float) -> None:
    if not span_s < MAX_NS / NS_PER_S:
        raise WorkloadError(f"{name} {value} spreads the arrivals over more than 146 years")
