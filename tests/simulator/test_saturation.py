"""Overload is flagged, chance is not."""

import numpy as np
import pytest

from simulator.result import Result
from simulator.saturation import saturation
from simulator.window import resolve
from tests.simulator.results import Asked, Step, result_of
from tests.simulator.single_server import one_at_a_time

MS = 1_000_000


def judged(result: Result) -> dict[str, object]:
    return saturation(result, resolve(result, None))


def poisson(load: float, requests: int, seed: int) -> Result:
    """M/D/1 with a service of 10 ms."""
    gaps = np.random.default_rng(seed).exponential(10 * MS / load, requests)
    arrivals = np.cumsum(gaps).astype(np.int64)
    return one_at_a_time(arrivals, np.full(requests, 10 * MS))


def sharing(load: float, seconds: int) -> Result:
    """Nobody waits: requests share a server that finishes 100 a second, the oldest first."""
    arrivals = (np.arange(int(100 * load * seconds)) * 10 * MS / load).astype(np.int64)
    served = one_at_a_time(arrivals, np.full(len(arrivals), 10 * MS))
    served.requests.first_start_ns[:] = arrivals
    return served


@pytest.mark.parametrize("load", [0.5, 0.8])
@pytest.mark.parametrize("requests", [200, 2_000, 200_000])
def test_a_queue_that_comes_back_is_no_overload(load: float, requests: int) -> None:
    seeds = range(40 if requests < 10_000 else 3)
    assert not any(judged(poisson(load, requests, seed))["saturated"] for seed in seeds)


@pytest.mark.parametrize("requests", [1_000, 20_000])
def test_overload_is_flagged_with_its_reason(requests: int) -> None:
    for seed in range(5):
        seen = judged(poisson(1.25, requests, seed))
        assert seen["saturated"]
        assert "queue keeps growing" in str(seen["reason"])
        assert seen["offered_rate"] > seen["completion_rate"]  # type: ignore[operator]


def test_overload_without_a_queue_is_flagged_by_completions() -> None:
    seen = judged(sharing(1.25, 20))
    assert seen["saturated"]
    assert "slower than they arrive" in str(seen["reason"])
    assert not judged(sharing(0.8, 20))["saturated"]


def test_a_short_run_that_only_fills_up_is_no_overload() -> None:
    """Answers take 5 s of a run of 20 s: the number in system rises from nothing to 50, then
    stays; and after the last arrival the run drains."""
    requests = [Asked(100 * k, 10, 2) for k in range(200)]
    steps = [Step(50 * k, 50 * k + 50, *_work(k // 2, at_start=k % 2 == 0)) for k in range(2 * 250)]
    assert not judged(result_of(requests, steps))["saturated"]


def _work(tick: int, *, at_start: bool) -> tuple[dict[int, int], tuple[int, ...]]:
    """Every 100 ms a prompt starts, and the one that started 5 s ago produces its last token."""
    if at_start:
        return ({tick: 10} if tick < 200 else {}), ()
    return {}, ((tick - 49,) if 0 <= tick - 49 < 200 else ())


def test_everybody_at_once_is_not_judged() -> None:
    seen = judged(one_at_a_time(np.zeros(1000, np.int64), np.full(1000, 10 * MS)))
    assert not seen["saturated"]
    assert seen["offered_rate"] is None


def test_draining_after_the_last_arrival_says_nothing() -> None:
    """Judged over the 7.992 s of arrivals, in which 799 of 999 finish."""
    seen = judged(one_at_a_time(np.arange(1000) * 8 * MS, np.full(1000, 10 * MS)))
    assert seen["offered_rate"] == 125
    assert seen["completion_rate"] == pytest.approx(799 / 7.992)
