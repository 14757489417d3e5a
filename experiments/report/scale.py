"""Axes of the page's charts: from values to pixels, and where the ticks stand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_DECADES_APART = 8.0
_MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. low, high: values at its ends. start, end: pixels there.

    names: what stands at 0, 1, 2 ... on an axis of names. fixed: the ticks, if not the usual ones.
    """

    label: str
    low: float
    high: float
    start: float
    end: float
    is_log: bool = False
    names: tuple[str, ...] = ()
    fixed: tuple[tuple[float, str], ...] = ()

    def at(self, value: float) -> float:
        """The pixel of a value, to a tenth.

        >>> Axis("x", 0, 10, 100, 200).at(5), Axis("x", 1, 100, 0, 200, is_log=True).at(10)
        (150.0, 100.0)
        """
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = (math.log(max(v, 1e-12)) for v in (value, low, high))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Values and what is written there.

        >>> [text for _, text in Axis("x", 0, 2700, 0, 1).ticks()]
        ['0', '500', '1,000', '1,500', '2,000', '2,500']
        >>> [text for _, text in Axis("x", 20, 3000, 0, 1, is_log=True).ticks()]
        ['100', '1,000']
        """
        if self.fixed:
            return list(self.fixed)
        if self.names:
            return [(float(place), name) for place, name in enumerate(self.names)]
        values = self._log_ticks() if self.is_log else self._linear_ticks()
        return [(value, tick_text(value)) for value in values]

    def _linear_ticks(self) -> list[float]:
        rough = (self.high - self.low) / _MOST_TICKS
        if rough <= 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(place * step, 12) for place in range(first, last + 1)]

    def _log_ticks(self) -> list[float]:
        subs = (1,) if self.high / self.low > 100 else (1, 2, 5)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        every = [sub * 10.0**power for power in powers for sub in subs]
        return [value for value in every if self.low <= value <= self.high]


def fitted(
    label: str, values: Iterable[float], start: float, end: float, *, log: bool | None = None
) -> Axis:
    """An axis with room for all values: log over decades, else from zero.

    log: True or False decides it.

    >>> axis = fitted("x", [1.0, 4.0], 0, 1)
    >>> axis.low, round(axis.high, 2), axis.is_log
    (0.0, 4.24, False)
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return Axis(label, 0.0, 1.0, start, end)
    low, high = min(known), max(known)
    if log or (log is None and low > 0 and high / low > _DECADES_APART):
        room = max(high / low, 1.5) ** 0.06
        return Axis(label, low / room, high * room, start, end, is_log=True)
    return Axis(label, min(0.0, low), high * 1.06 if high > 0 else 1.0, start, end)


def over_names(label: str, names: Sequence[str], start: float, end: float) -> Axis:
    """An axis with a place for each name."""
    return Axis(label, -0.4, len(names) - 0.6, start, end, names=tuple(names))


def tick_text(value: float) -> str:
    """A number on an axis.

    >>> [tick_text(value) for value in (0.5, 20, 1500, 20_000, 3_000_000)]
    ['0.5', '20', '1,500', '20k', '3M']
    """
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"
