"""Arrival processes have the rate and the burstiness they are asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simulator.errors import WorkloadError
from workloads.arrivals import all_at_once, constant, gamma, on_off, poisson


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_burstiness_keeps_the_mean_gap_and_sets_its_variation(burstiness: float) -> None:
    """Shape 0.25 has a coefficient of variation of 1/sqrt(0.25) = 2, within 3 %."""
    gaps = np.diff(gamma(100_001, 8.0, burstiness, seed=7))
    assert gaps.mean() / 1e9 == pytest.approx(1 / 8, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(1 / math.sqrt(burstiness), rel=0.03)


def test_infinite_burstiness_is_constant_spacing() -> None:
    assert gamma(4, 8.0, math.inf, seed=1).tolist() == constant(4, 8.0).tolist()
    assert constant(4, 8.0).tolist() == [125_000_000, 250_000_000, 375_000_000, 500_000_000]


def test_constant_spacing_does_not_drift() -> None:
    assert constant(3_000_000, 3.0)[-1] == 1_000_000 * 10**9


@pytest.mark.parametrize("burstiness", [0.0, -1.0, math.nan, -math.inf, 1e-320])
def test_burstiness_without_a_distribution_is_refused(burstiness: float) -> None:
    with pytest.raises(WorkloadError, match="burstiness"):
        gamma(1000, 8.0, burstiness, seed=1)


def test_gaps_are_not_rescaled_to_the_nominal_duration() -> None:
    """The end of 1,000 Poisson arrivals varies by 1/sqrt(1000) = 3.2 % from seed to seed."""
    ends = np.array([poisson(1000, 10.0, seed)[-1] / 1e9 for seed in range(400)])
    assert ends.mean() == pytest.approx(100.0, rel=0.01)
    assert ends.std() / ends.mean() == pytest.approx(1 / math.sqrt(1000), rel=0.1)


def test_the_first_request_waits_a_gap_too() -> None:
    firsts = np.array([poisson(1, 10.0, seed)[0] / 1e9 for seed in range(2000)])
    assert firsts.mean() == pytest.approx(0.1, rel=0.06)


def test_bursts_keep_the_mean_rate_and_the_silences() -> None:
    """On 2 s, off 3 s: all arrivals fall into [0, 2) of each 5 s, and 4/s remain the mean."""
    arrivals = on_off(50_000, 4.0, 2.0, 3.0, seed=5)
    assert bool((arrivals % (5 * 10**9) < 2 * 10**9).all())
    assert bool((np.diff(arrivals) >= 0).all())
    assert len(arrivals) / (arrivals[-1] / 1e9) == pytest.approx(4.0, rel=0.02)


def test_arrivals_are_whole_ascending_and_repeatable() -> None:
    one, two, other = (gamma(1000, 5.0, 0.5, seed) for seed in (3, 3, 4))
    assert one.dtype == np.int64
    assert bool((np.diff(one) >= 0).all())
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)
    assert all_at_once(3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf, 1e-12])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    for process in (lambda: poisson(9, rate, 1), lambda: constant(9, rate)):
        with pytest.raises(WorkloadError, match="rate"):
            process()
    with pytest.raises(WorkloadError, match="rate"):
        on_off(9, rate, 1.0, 1.0, seed=1)


def test_counts_seeds_and_durations_out_of_range_are_refused() -> None:
    with pytest.raises(WorkloadError, match="requests 0 must be a whole number of at least 1"):
        poisson(0, 1.0, seed=1)
    with pytest.raises(WorkloadError, match="seed -1 must be"):
        poisson(1, 1.0, seed=-1)
    with pytest.raises(WorkloadError, match="on_s 0 must be a finite number above 0"):
        on_off(1, 1.0, 0, 1.0, seed=1)
    with pytest.raises(WorkloadError, match="off_s nan must be"):
        on_off(1, 1.0, 1.0, math.nan, seed=1)
