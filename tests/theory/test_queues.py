"""Queues with a textbook answer (U18): one sequence at a time, output 1, 0.01 ms a prompt token.

Mean wait at load r and mean service s: M/D/1 r s / (2 (1 - r)), M/M/1 r s / (1 - r).
Source: Kleinrock, Queueing Systems I (1975), sections 3.2 and 5.6 (Pollaczek-Khinchine).

Two halves make the whole case in seconds: the engine equals Lindley's recursion in every wait, to
the nanosecond, on the beginnings of the very streams whose means over five seeds of 200,000
requests are then compared with the formulas. `pytest -m benchmark tests/theory` runs all of it
through the engine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from simulator import (
    AlternatingScheduler,
    ChunkedPrefillScheduler,
    ContinuousScheduler,
    KVCache,
    Scheduler,
    StaticScheduler,
    Trace,
    simulate,
)
from simulator.result import Ints
from simulator.units import NS_PER_MS
from tests.timeline import PerItem
from workloads.arrivals import poisson

SERVICE_MS = 10.0
NS_PER_TOKEN = 10_000
SEEDS = range(5)
REQUESTS = 200_000

QUEUES = {"M/D/1 at 0.5": 5.0, "M/D/1 at 0.8": 20.0, "M/M/1 at 0.5": 10.0, "M/M/1 at 0.8": 40.0}
"""Mean wait in ms."""


def stream(queue: str, seed: int, requests: int = REQUESTS) -> Trace:
    """Poisson arrivals at the load; prompts of 1,000 tokens, or exponential with that mean."""
    load = float(queue.split()[-1])
    prompts = np.full(REQUESTS, 1000)
    if queue.startswith("M/M"):
        drawn = np.random.default_rng([seed, 18]).exponential(1000, REQUESTS)
        prompts = np.maximum(1, np.rint(drawn)).astype(np.int64)
    arrivals = poisson(REQUESTS, load * 1000 / SERVICE_MS, seed)
    ones = np.ones(requests, np.int64)
    return Trace(arrivals[:requests], prompts[:requests], ones)


def lindley_waits(trace: Trace) -> Ints:
    """Waits of a first-come-first-served server: w' = max(0, w + service - gap), unrolled."""
    service = trace.prompt_tokens * NS_PER_TOKEN
    before = np.cumsum(service) - service
    return np.maximum.accumulate(trace.arrival_ns - before) + before - trace.arrival_ns


def simulated_waits(trace: Trace, scheduler: Scheduler) -> Ints:
    """Waits in the engine, ns."""
    prices = PerItem(token_ms=NS_PER_TOKEN / NS_PER_MS)
    log = simulate(trace, scheduler, prices, KVCache(10_000)).requests
    service = trace.prompt_tokens * NS_PER_TOKEN
    assert (log.first_token_ns - log.first_start_ns == service).all()
    return log.first_start_ns - log.arrival_ns


ONE_AT_A_TIME: dict[str, Callable[[], Scheduler]] = {
    "static": lambda: StaticScheduler(1),
    "continuous": lambda: ContinuousScheduler(None, 1),
    "chunked": lambda: ChunkedPrefillScheduler(None, 1),
    "alternating": lambda: AlternatingScheduler(None, 1),
}


@pytest.mark.parametrize("queue", QUEUES)
def test_waits_are_those_of_lindleys_recursion_to_the_nanosecond(queue: str) -> None:
    """8,000 requests of each seed."""
    for seed in SEEDS:
        trace = stream(queue, seed, requests=8_000)
        waits = simulated_waits(trace, ChunkedPrefillScheduler(None, 1))
        assert (waits == lindley_waits(trace)).all()


@pytest.mark.parametrize("policy", ONE_AT_A_TIME)
def test_one_at_a_time_every_policy_is_the_same_queue(policy: str) -> None:
    trace = stream("M/M/1 at 0.8", seed=0, requests=3_000)

    waits = simulated_waits(trace, ONE_AT_A_TIME[policy]())

    assert (waits == lindley_waits(trace)).all()


@pytest.mark.parametrize("queue", QUEUES)
def test_mean_wait_of_five_seeds_is_within_three_percent_of_the_formula(queue: str) -> None:
    """Mean TTFT is the wait and a mean service of 10 ms."""
    traces = [stream(queue, seed) for seed in SEEDS]

    wait_ms = np.mean([lindley_waits(trace).mean() for trace in traces]) / NS_PER_MS
    service_ms = np.mean([trace.prompt_tokens.mean() for trace in traces]) * 0.01

    assert wait_ms == pytest.approx(QUEUES[queue], rel=0.03)
    assert wait_ms + service_ms == pytest.approx(QUEUES[queue] + SERVICE_MS, rel=0.03)


@pytest.mark.benchmark
@pytest.mark.parametrize("queue", QUEUES)
def test_mean_wait_of_a_million_requests_through_the_engine(queue: str) -> None:
    waits = []
    for seed in SEEDS:
        trace = stream(queue, seed)
        waits.append(simulated_waits(trace, ChunkedPrefillScheduler(None, 1)).mean())

    assert np.mean(waits) / NS_PER_MS == pytest.approx(QUEUES[queue], rel=0.03)


def test_generated_gaps_are_not_rescaled_to_the_nominal_duration() -> None:
    """1,000 arrivals at 10/s last 100 s with a deviation of sqrt(1000) / 10 = 3.16 s, not 0."""
    lasts = [poisson(1000, 10.0, seed)[-1] / 1e9 for seed in range(400)]

    assert np.mean(lasts) == pytest.approx(100, rel=0.01)
    assert np.std(lasts) == pytest.approx(3.16, rel=0.1)
