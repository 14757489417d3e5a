"""`CountedTimes`: the sum of operators that depend on one count, as a list of prices."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from simulator.errors import ConfigError

from .curves import Curve, curve_through
from .extrapolation import Beyond
from .operators_table import Operator

MAX_LIST = 1 << 16
MAX_US = 1e7
UNLIMITED = 1 << 62


class CountedTimes:
    """Operators summed over layers and calls; prices in 2**-24 ns by count, looked up in a list.

    operators: by name, all against one count, or against the bytes of that many tokens; limit: the
    largest count that all of them measured.
    """

    __slots__ = ("_counts", "_curves", "_prices", "limit")

    def __init__(self, operators: Mapping[str, Operator], layers: int, *, grows: bool) -> None:
        self._curves: list[tuple[str, Curve, int]] = []
        limits, lowest = [UNLIMITED], [0]
        for name, operator in operators.items():
            times = operator.calls * (layers if operator.per == "layer" else 1)
            points = [(count, time_us * times) for count, time_us in _with_edges(operator)]
            _check(name, max(time_us for _, time_us in points))
            scale = operator.bytes_per_token or 1
            self._curves.append((name, curve_through(points, grows=grows), scale))
            limits.append(points[-1][0] // scale)
            lowest.append(-(-points[0][0] // scale))
        self.limit = min(limits)
        self._counts = (max(lowest), self.limit)
        self._prices = self._listed(min(self.limit + 1, MAX_LIST)) if operators else [0]

    def at(self, count: int) -> int:
        """The price at a count, not negative."""
        if count < len(self._prices):
            return self._prices[count]
        return sum(price for _, price in self.terms(count))

    def terms(self, count: int) -> list[tuple[str, int]]:
        """(operator, price) at a count."""
        return [(name, max(curve.at(count * scale), 0)) for name, curve, scale in self._curves]

    def beyond(self, axis: str, count: int) -> list[Beyond]:
        """The axis, if the count lies beyond the measured range."""
        return [Beyond(axis, count, *self._counts)] if count > self.limit else []

    def _listed(self, counts: int) -> list[int]:
        total = np.zeros(counts, np.int64)
        for _, curve, scale in self._curves:
            total += np.maximum(curve.along(0, scale, counts), 0)
        prices: list[int] = total.tolist()
        return prices


def counted_by(operators: Mapping[str, Operator], axis: str) -> dict[str, Operator]:
    """Those that were timed against this count: `tokens`, `sequences` or `bytes`."""
    return {name: operator for name, operator in operators.items() if operator.axis == axis}


def _with_edges(operator: Operator) -> list[tuple[int, float]]:
    """The points, and for `between: next` also the counts right after them, at the next price.

    >>> _with_edges(Operator(axis="tokens", points=((16, 5.0), (32, 8.0)), between="next"))
    [(16, 5.0), (17, 8.0), (32, 8.0)]
    """
    points = list(operator.points)
    if operator.between == "next":
        after = [
            (count + 1, time_us)
            for (count, _), (following, time_us) in pairwise(points)
            if count + 1 < following
        ]
        points = sorted([*points, *after])
    return points


def _check(name: str, time_us: float) -> None:
    if time_us > MAX_US:
        raise ConfigError(
            f"operator {name!r} takes {time_us / 1e6:g} s a step: must be at most "
            f"{MAX_US / 1e6:g} s; times are microseconds of one call"
        )


def padded_size(sizes: Sequence[int], count: int) -> int:
    """The smallest of the ascending sizes that holds `count`; 0 for 0, `count` if none does.

    >>> padded_size([1, 2, 4, 8], 5), padded_size([1, 2, 4, 8], 9)
    (8, 9)
    """
    i = bisect_left(sizes, count)
    return sizes[i] if count and i < len(sizes) else count
