"""Metrics of a part of a run. Times in ms."""

from dataclasses import replace

import numpy as np
import pytest

from costmodels import ConstantCostModel
from simulator import ChunkedPrefillScheduler, KVCache, Trace, simulate
from simulator.timings import Slo
from simulator.window import Trim, Window
from tests.simulator.results import Asked, Step, result_of
from tests.simulator.runs import (
    one_request,
    only_value,
    summary_of,
)
from tests.simulator.single_server import one_at_a_time

MS = 1_000_000


def test_a_window_selects_latencies_by_arrival_and_rates_by_event() -> None:
    """Of arrivals 0, 10, 20 (service 15, finishes 15, 30, 45) the window [10, 30) has two; it
    sees one finish, at 15."""
    served = one_at_a_time(np.array([0, 10, 20]) * MS, np.full(3, 15 * MS))
    seen = summary_of(served, window=Window(10 * MS, 30 * MS), slo=Slo(e2el_ms=20))
    assert seen["duration_s"] == 0.020
    assert (seen["e2el_ms"]["n"], seen["e2el_ms"]["min"], seen["e2el_ms"]["max"]) == (2, 20, 25)
    assert seen["request_throughput"] == seen["achieved_rate"] == 1 / 0.020
    assert seen["offered_rate"] == 2 / 0.020
    assert seen["emitted_token_rate"] == 1 / 0.020
    assert seen["request_goodput"] == 1 / 0.020
    assert seen["goodput_fraction"] == 0.5
    assert seen["engine_busy"] == 1
    assert seen["in_system"]["mean"] == (5 + 20 + 10) / 20
    assert seen["window"]["submitted"] == seen["window"]["finished"] == 2
    assert seen["submitted"] == 3


def test_gaps_of_a_window_are_those_of_the_requests_that_arrived_in_it() -> None:
    steps = [Step(0, 10, {0: 8}), Step(10, 40, {1: 8}, decode=(0,)), Step(40, 60, decode=(0, 1))]
    result = result_of([Asked(0, 8, 3), Asked(5, 8, 2)], steps)
    assert summary_of(result)["itl_ms"]["n"] == 3
    late = summary_of(result, window=Window(5 * MS, 60 * MS))
    assert only_value(late["itl_ms"]) == 20
    by_hand = summary_of(replace(result, pieces=None), window=Window(0, 5 * MS))["itl_ms"]
    assert (by_hand["n"], by_hand["mean"], by_hand["max"]) == (2, 25, 30)
    assert by_hand["p99"] is None


def test_default_window_is_stated() -> None:
    window = summary_of(one_request())["window"]
    assert (window["start_s"], window["end_s"]) == (0.0, 0.2)
    assert not any(window[name] for name in window if name.startswith(("warmup", "cooldown")))
    trimmed = summary_of(one_request(), window=Trim(cooldown_s=0.05))["window"]
    assert (trimmed["end_s"], trimmed["cooldown_s"]) == (0.15, 0.05)


def test_gaps_of_a_window_equal_those_read_off_every_token() -> None:
    """With preemptions, chunks and half of the requests outside the window."""
    rng = np.random.default_rng(3)
    arrivals = np.sort(rng.integers(0, 2_000 * MS, 60))
    trace = Trace(arrivals, rng.integers(1, 300, 60), rng.integers(1, 40, 60))
    prices = ConstantCostModel(prefill_ms=30, decode_ms=8)
    result = simulate(trace, ChunkedPrefillScheduler(), prices, KVCache(24))
    start_ns, end_ns = 500 * MS, 1_500 * MS
    inside = np.flatnonzero((arrivals >= start_ns) & (arrivals < end_ns))
    gaps = np.concatenate([np.diff(result.token_times_ns(row)) for row in inside.tolist()])
    seen = summary_of(result, window=Window(start_ns, end_ns))["itl_ms"]
    assert (seen["n"], seen["max"]) == (len(gaps), gaps.max() / MS)
    assert seen["mean"] == pytest.approx(gaps.mean() / MS, rel=1e-12)
    assert seen["p99"] == pytest.approx(np.percentile(gaps, 99) / MS, rel=1e-12)
    assert result.requests.preemptions.sum() > 0
