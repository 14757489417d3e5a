"""`Distribution`: mean, deviation and percentiles of a population, exactly.

Times are int64 nanoseconds, so sums are taken over integers of any size: the result does not
depend on the order of the samples, and a weighted list gives the same bits as the expanded one.
Percentiles interpolate linearly between order statistics (numpy's default method).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import product
from math import fsum, prod, sqrt
from typing import cast

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PERCENTILES = (50, 90, 95, 99)
FEW_SAMPLES = 100
"""A 99th percentile of fewer samples than this is little more than the maximum."""

_BLOCK = 1 << 20
_PRODUCT_BITS = 42  # a product of limbs; 2^20 of them still fit an int64


@dataclass(frozen=True, slots=True)
class Distribution:
    """A population in a few numbers; all but `n` are None where there is nothing to describe.

    std: of the population (divided by n). p99_few_samples: p99 is given, but of n < 100.
    """

    mean: float | None = None
    std: float | None = None
    min: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None
    n: int = 0
    p99_few_samples: bool = False

    def as_dict(self) -> dict[str, float | int | bool | None]:
        """The fields by name, ready for strict JSON."""
        return asdict(self)


def describe(values: Ints | Floats, *, per: int = 1) -> Distribution:
    """Describe a list: int64 (exact) or finite float64 (sums by `math.fsum`), shape (n,).

    per: how many units of the input make one of the output; 1_000_000 turns ns into ms.

    >>> one_to_four = describe(np.array([1, 2, 3, 4]))
    >>> one_to_four.p50, one_to_four.p90, one_to_four.p99
    (2.5, 3.7, 3.97)
    """
    n = len(values)
    if n == 0:
        return Distribution()
    ordered = np.partition(values, _needed_ranks(n))
    if values.dtype.kind == "f":
        mean, std = _float_moments(cast(Floats, values), per)
    else:
        mean, std = _exact_moments(cast(Ints, values), None, per)
    return _distribution(n, mean, std, lambda rank: ordered[rank].item(), per)


def describe_weighted(values: Ints, counts: Ints, *, per: int = 1) -> Distribution:
    """Describe the list in which values[i] stands counts[i] times, without writing it out.

    values, counts: int64, shape (m,); counts at least 0. Equals `describe` of the expanded list,
    bit for bit.

    >>> gaps, times = np.array([10, 100]), np.array([10, 1])
    >>> describe_weighted(gaps, times) == describe(np.repeat(gaps, times))
    True
    """
    if not bool(np.all(values[1:] > values[:-1])):
        order = np.argsort(values, kind="stable")
        values, counts = values[order], counts[order]
    if bool(np.any(counts == 0)):
        values, counts = values[counts > 0], counts[counts > 0]
    below = np.cumsum(counts)
    n = int(below[-1]) if len(below) else 0
    if n == 0:
        return Distribution()
    mean, std = _exact_moments(values, counts, per)

    def at(rank: int) -> int:
        return int(values[np.searchsorted(below, rank, side="right")])

    return _distribution(n, mean, std, at, per)


def exact_dot(*columns: Ints) -> int:
    """Sum over i of the product of columns[j][i], exact whatever its size.

    columns: int64 of one shape (n,), every entry at least 0. One column: its sum.
    Works through blocks, and splits numbers into limbs only where an int64 could overflow.

    >>> exact_dot(np.array([2**62, 1]), np.array([2**62, 1])) == 2**124 + 1
    True
    """
    length = len(columns[0])
    return sum(
        _block_dot([column[start : start + _BLOCK] for column in columns])
        for start in range(0, length, _BLOCK)
    )


def _block_dot(columns: list[Ints]) -> int:
    largest = [int(column.max()) for column in columns]
    if prod(largest) * len(columns[0]) < 2**63:
        return _dot(columns)
    width = _PRODUCT_BITS // len(columns)
    limbs = [
        [(column >> shift) & ((1 << width) - 1) for shift in range(0, top.bit_length(), width)]
        for column, top in zip(columns, largest, strict=True)
    ]
    return sum(
        _dot([limb for _, limb in choice]) << (width * sum(place for place, _ in choice))
        for choice in product(*(list(enumerate(column)) for column in limbs))
    )


def _dot(columns: list[Ints]) -> int:
    first, *rest = columns
    if not rest:
        return int(first.sum())
    for column in rest[:-1]:
        first = first * column
    return int(np.dot(first, rest[-1]))


def _exact_moments(values: Ints, counts: Ints | None, per: int) -> tuple[float, float]:
    """Mean and population deviation. Deviations are taken from the minimum: it changes nothing."""
    low = int(values.min())
    weights = [] if counts is None else [counts]
    n = len(values) if counts is None else exact_dot(counts)
    total = squares = 0
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK] - low
        weight = [column[start : start + _BLOCK] for column in weights]
        total += exact_dot(block, *weight)
        squares += exact_dot(block, block, *weight)
    variance = Fraction(n * squares - total * total, n * n)
    return (total + n * low) / (n * per), sqrt(variance / per**2)


def _float_moments(values: Floats, per: int) -> tuple[float, float]:
    n = len(values)
    mean = fsum(values.tolist()) / n
    return mean / per, sqrt(fsum(np.square(values - mean).tolist()) / n) / per


def _needed_ranks(n: int) -> list[int]:
    ranks = {0, n - 1}
    for percentile in PERCENTILES:
        below = percentile * (n - 1) // 100
        ranks |= {below, min(below + 1, n - 1)}
    return sorted(ranks)


def _distribution(
    n: int, mean: float, std: float, at: Callable[[int], int | float], per: int
) -> Distribution:
    def percentile(percent: int) -> float:
        below, rest = divmod(percent * (n - 1), 100)
        low = at(below)
        return _between(low, at(below + 1) if rest else low, rest, per)

    least, most = at(0) / per, at(n - 1) / per
    mean = min(max(mean, least), most)  # a rounded float mean of equal values may step outside
    p50, p90, p95, p99 = map(percentile, PERCENTILES)
    return Distribution(mean, std, least, p50, p90, p95, p99, most, n, n < FEW_SAMPLES)


def _between(low: float, high: float, hundredths: int, per: int) -> float:
    if low == high:
        return low / per
    if isinstance(low, int):
        return (low * (100 - hundredths) + high * hundredths) / (100 * per)
    return min(low + (high - low) * hundredths / 100, high) / per
