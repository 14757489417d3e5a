"""Distributions: exact sums, numpy's percentiles, weights without expanding."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.statistics import Distribution, describe, describe_weighted, exact_dot

NS = st.integers(0, 2**61)


def test_percentiles_interpolate_between_order_statistics() -> None:
    """Of 1, 2, 3, 4: p90 is 0.9 x 3 = 2.7 steps up, so 3.7."""
    seen = describe(np.array([4, 1, 3, 2]))
    assert (seen.p50, seen.p90, seen.p99) == (2.5, 3.7, 3.97)
    assert (seen.mean, seen.min, seen.max, seen.n) == (2.5, 1.0, 4.0, 4)
    assert seen.std == pytest.approx(np.sqrt(1.25), rel=1e-15)


@pytest.mark.parametrize("value", [np.array([7]), np.array([0.1])])
def test_every_percentile_of_one_value_is_that_value(value: np.ndarray) -> None:
    seen = describe(value)
    assert {seen.mean, seen.min, seen.p50, seen.p90, seen.p95, seen.p99, seen.max} == {value[0]}
    assert seen.std == 0.0


def test_equal_floats_have_that_mean() -> None:
    seen = describe(np.full(3, 0.1))
    assert seen.mean == seen.min == seen.max == 0.1


def test_nothing_to_describe_is_none_and_not_zero() -> None:
    empty = np.array([], np.int64)
    assert describe(empty) == describe_weighted(empty, empty) == Distribution()
    assert describe_weighted(np.array([5]), np.array([0])) == Distribution()
    described = Distribution().as_dict()
    assert json.loads(json.dumps(described, allow_nan=False))["p99"] is None
    assert described["n"] == 0


def test_p99_of_fewer_than_a_hundred_samples_is_flagged() -> None:
    assert describe(np.arange(99)).p99_few_samples
    assert not describe(np.arange(100)).p99_few_samples
    assert not Distribution().p99_few_samples


def test_nanoseconds_become_milliseconds_once_at_the_end() -> None:
    seen = describe(np.array([17_843_750, 9_250_000]), per=1_000_000)
    assert (seen.min, seen.max, seen.mean) == (9.25, 17.84375, 13.546875)


@given(st.lists(st.tuples(NS, st.integers(0, 50)), min_size=1, max_size=40))
def test_weighted_equals_expanded_to_the_last_bit(samples: list[tuple[int, int]]) -> None:
    values = np.array([value for value, _ in samples], np.int64)
    counts = np.array([count for _, count in samples], np.int64)
    expanded = np.repeat(values, counts)
    assert describe_weighted(values, counts) == describe(expanded)
    assert describe_weighted(values, counts, per=1_000_000) == describe(expanded, per=1_000_000)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=300))
def test_agrees_with_numpy(samples: list[int]) -> None:
    values = np.array(samples, np.int64)
    for seen in (describe(values), describe(values.astype(np.float64))):
        expected = np.percentile(values, [50, 90, 95, 99])
        assert [seen.p50, seen.p90, seen.p95, seen.p99] == pytest.approx(expected, rel=1e-12)
        assert seen.mean == pytest.approx(values.mean(), rel=1e-9, abs=1e-3)
        assert seen.std == pytest.approx(values.std(), rel=1e-9, abs=1e-3)


@given(st.lists(st.integers(0, 2**62), min_size=2, max_size=50), st.randoms())
def test_order_does_not_matter(samples: list[int], random: object) -> None:
    shuffled = samples.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert describe(np.array(samples)) == describe(np.array(shuffled))
    floats = np.array(samples) / 7e6
    assert describe(floats) == describe(np.array(shuffled) / 7e6)


@given(st.lists(st.tuples(NS, NS, NS), min_size=1, max_size=30))
def test_exact_dot_never_overflows(rows: list[tuple[int, int, int]]) -> None:
    one, two, three = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    assert exact_dot(one) == sum(a for a, _, _ in rows)
    assert exact_dot(one, two) == sum(a * b for a, b, _ in rows)
    assert exact_dot(one, two, three) == sum(a * b * c for a, b, c in rows)


def test_a_hundred_million_gaps_need_no_list() -> None:
    """10^8 gaps of 18 ms and one of 88 ms: mean 18 + 70 / (10^8 + 1)."""
    values, counts = np.array([18_000_000, 88_000_000]), np.array([10**8, 1])
    seen = describe_weighted(values, counts, per=1_000_000)
    assert seen.n == 10**8 + 1
    assert seen.p99 == 18.0
    assert seen.mean == (18 * 10**8 + 88) / (10**8 + 1)


def test_long_columns_are_summed_in_blocks() -> None:
    values = np.full(2**20 + 5, 2**45, np.int64)
    assert exact_dot(values, values) == (2**20 + 5) * 2**90
    assert describe(values).std == 0.0
