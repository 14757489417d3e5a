"""Measured points as piecewise linear curves in whole numbers of 2**-24 ns.

Whole numbers make both forms of a price the same bits: sums are exact in any order, and `>> 24`
rounds a Python int and an int64 alike. A curve passes through its points exactly; between them it
is linear in the count, whatever the spacing of the grid (U20 of the use cases: 2,048 tokens between
1,024 -> 2.0 and 4,096 -> 5.0 cost 3.0).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple  # Any: the element of an array of two kinds

import numpy as np
from numpy.typing import NDArray

from .extrapolation import Beyond

BITS = 24
ONE_NS = 1 << BITS
HALF = ONE_NS >> 1
FITS = 1 << 62
"""Prices below it fit an int64; a step of 275 s does not."""
SHARE_UNITS = 1 << 20
UNMEASURED = -1
"""The limit of a curve that lies outside the measured range everywhere."""


def fixed(time_us: float) -> int:
    """Microseconds as a whole number of 2**-24 ns.

    >>> fixed(0.001) == ONE_NS
    True
    """
    return round(time_us * 1000 * ONE_NS)


class Curve(NamedTuple):
    """A price over one count. Segment i starts at knots[i]; before the first, prices are flat.

    knots: ascending counts; values: prices there; slopes: per count, after each knot, the last one
    beyond the measured range; limit: the last measured count; all prices in 2**-24 ns.
    """

    knots: list[int]
    values: list[int]
    slopes: list[int]
    limit: int

    def at(self, count: int) -> int:
        """The price at a count, not negative.

        >>> curve_through([(4, 80.0), (8, 90.0)], grows=True).at(6) == fixed(85.0)
        True
        """
        i = bisect_right(self.knots, count) - 1
        if i < 0:
            return self.values[0]
        return self.values[i] + self.slopes[i] * (count - self.knots[i])

    def along(self, first: int, stride: int, steps: int) -> NDArray[Any]:
        """`at` of first, first + stride, … ; shape (steps,), the same bits.

        An int64 array that is the caller's, or one of Python ints if int64 is too narrow.
        """
        last = first + stride * (steps - 1)
        i = max(bisect_right(self.knots, first) - 1, 0)
        end = max(bisect_right(self.knots, last), i + 1)
        values = self.values[i:end]
        if max(self.at(last), *values, 0) >= FITS:
            return np.array([self.at(first + stride * k) for k in range(steps)], dtype=object)
        ahead = np.arange(first, last + 1, stride) if stride else np.full(steps, first)
        if len(values) == 1:
            ahead -= self.knots[i]
            if first < self.knots[i]:
                np.maximum(ahead, 0, out=ahead)
            ahead *= self.slopes[i]
            ahead += values[0]
            return ahead
        knots, slopes = np.array(self.knots[i:end]), np.array(self.slopes[i:end])
        segment = np.maximum(np.searchsorted(knots, ahead, side="right") - 1, 0)
        past = np.maximum(ahead - knots[segment], 0)
        prices: NDArray[np.int64] = np.array(values)[segment] + slopes[segment] * past
        return prices

    def stretched(self, times: int, plus: int = 0) -> Curve:
        """The same prices and `plus`, over a count that runs `times` as fast."""
        knots = [knot * times for knot in self.knots]
        values = [value + plus for value in self.values]
        return _curve(knots, values, self.slopes[-1] // times, self.limit * times)

    def split(self, share: float) -> tuple[Curve, Curve]:
        """(the rest, a share) of these prices, which add up to them exactly at every point.

        >>> rest, part = curve_through([(4, 80.0), (8, 90.0)], grows=True).split(0.25)
        >>> rest.at(8) == fixed(67.5), part.at(8) == fixed(22.5)
        (True, True)
        """
        units = round(share * SHARE_UNITS)
        part = [value * units // SHARE_UNITS for value in self.values]
        rest = [value - taken for value, taken in zip(self.values, part, strict=True)]
        last = self.slopes[-1] * units // SHARE_UNITS
        return (
            _curve(self.knots, rest, self.slopes[-1] - last, self.limit),
            _curve(self.knots, part, last, self.limit),
        )


def curve_through(points: Iterable[tuple[int, float]], *, grows: bool) -> Curve:
    """The curve through (count, microseconds), ascending; beyond the last it is flat or `grows`.

    It grows by the slope of the last two points, or not at all if that one falls: noise at the end
    of a grid must not lead to prices below zero.
    """
    counts, times_us = zip(*points, strict=True)
    values = [fixed(time_us) for time_us in times_us]
    last = 0
    if grows and len(values) > 1:
        last = max((values[-1] - values[-2]) // (counts[-1] - counts[-2]), 0)
    return _curve(list(counts), values, last, counts[-1])


def _curve(knots: list[int], values: list[int], last: int, limit: int) -> Curve:
    """Slopes are rounded to 2**-24 ns per count: a point is exact, what lies between nearly so."""
    slopes = [
        (values[i + 1] - values[i]) // (knots[i + 1] - knots[i]) for i in range(len(knots) - 1)
    ]
    return Curve(knots, values, [*slopes, last], limit)


class Surface:
    """Curves over a second count, at some values of a first one; between them it is bilinear.

    `at(first)` is made once per `first` and kept. Rows may end at different counts.
    """

    __slots__ = ("_grows", "_kept", "_rows", "firsts")

    def __init__(self, rows: Mapping[int, Sequence[tuple[int, float]]], *, grows: bool) -> None:
        self.firsts = sorted(rows)
        self._grows = grows
        self._rows = {first: curve_through(points, grows=grows) for first, points in rows.items()}
        self._kept = dict(self._rows)

    def at(self, first: int) -> Curve:
        """The curve at a value of the first count; beyond the largest, none of it is measured."""
        curve = self._kept.get(first)
        if curve is None:
            curve = self._between(first)
            if first > self.firsts[-1]:
                curve = curve._replace(limit=UNMEASURED)
            self._kept[first] = curve
        return curve

    def beyond(self, axis: str, first: int, other: str, count: float) -> list[Beyond]:
        """The axes on which (first, count) lies beyond the measured range."""
        row = self.at(min(first, self.firsts[-1]))
        found = []
        if first > self.firsts[-1]:
            found.append(Beyond(axis, first, self.firsts[0], self.firsts[-1]))
        if count > row.limit:
            found.append(Beyond(other, count, row.knots[0], row.limit))
        return found

    def reaching(self, first: int) -> Surface:
        """The same with one more row, before or after the others: on the line through the nearest
        two, not below zero; as the only one, if there is one.
        """
        near = self.firsts[:2] if first < self.firsts[0] else self.firsts[-2:]
        low, high = near[0], near[-1]
        row = self._rows[low]
        if high > low:
            row = _blend(row, self._rows[high], first - low, high - low)
        more = copy(self)
        more.firsts = sorted([*self.firsts, first])
        more._rows = {**self._rows, first: row}
        more._kept = dict(more._rows)
        return more

    def _between(self, first: int) -> Curve:
        firsts = self.firsts
        if first < firsts[0] or len(firsts) == 1:
            return self._rows[firsts[0]]
        i = min(bisect_right(firsts, first), len(firsts) - 1)
        low, high = firsts[i - 1], firsts[i]
        if first > high and not self._grows:
            return self._rows[high]
        return _blend(self._rows[low], self._rows[high], first - low, high - low)


def _blend(low: Curve, high: Curve, ahead: int, gap: int) -> Curve:
    """`low` + (`high` - `low`) x ahead / gap; beyond them at least `high`, before them 0."""

    def mix(below: int, above: int) -> int:
        mixed = below + (above - below) * ahead // gap
        if ahead < 0:
            return max(mixed, 0)
        return max(mixed, above) if ahead > gap else mixed

    knots = sorted({*low.knots, *high.knots})
    values = [mix(low.at(knot), high.at(knot)) for knot in knots]
    last = max(mix(low.slopes[-1], high.slopes[-1]), 0)
    return _curve(knots, values, last, min(low.limit, high.limit))
