"""The highest rate that passes, by bracketing and bisection: a question at a time.

A `Bracket` says which rate to try next and is told how it went; it runs nothing itself, so that
many can advance side by side. If passing is monotone in the rate, the answer lies between the
highest rate that passed and the lowest that failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

GROWTH = 2.0
"""How far a bracket reaches in one go while it has only one end."""


def rounded(rate: float) -> float:
    """To four significant digits: a rate people can read and give again.

    >>> rounded(12.34567), rounded(0.00123456)
    (12.35, 0.001235)
    """
    return float(f"{rate:.4g}")


@dataclass(slots=True)
class Bracket:
    """Where the answer lies. passed: the highest rate that passed below every failure.

    start: the rate tried first. precision: how near the two ends must come, as a share.
    lowest, highest: rates beyond which nothing is tried. growth: of the first step away.
    """

    start: float
    precision: float
    lowest: float
    highest: float
    growth: float = GROWTH
    tried: dict[float, bool] = field(default_factory=dict)

    @property
    def passed(self) -> float | None:
        """The highest rate that passed and has no failure below it."""
        failed = self.failed
        below = [r for r, ok in self.tried.items() if ok and (failed is None or r < failed)]
        return max(below, default=None)

    @property
    def failed(self) -> float | None:
        """The lowest rate that failed."""
        return min((rate for rate, ok in self.tried.items() if not ok), default=None)

    @property
    def violations(self) -> list[tuple[float, float]]:
        """(failed, passed) pairs out of order: a rate that passed above one that failed."""
        failed = self.failed
        above = sorted(
            r for r, ok in self.tried.items() if ok and failed is not None and r > failed
        )
        return [(failed, rate) for rate in above if failed is not None]

    def tell(self, rate: float, *, passed: bool) -> None:
        """How a rate went, asked for or not."""
        self.tried[rate] = passed

    def next_rate(self) -> float | None:
        """The rate to try next; None when the answer is near enough or beyond the ends.

        >>> bracket = Bracket(start=4.0, precision=0.25, lowest=0.1, highest=100.0)
        >>> while (rate := bracket.next_rate()) is not None:
        ...     bracket.tell(rate, passed=rate <= 11)
        >>> list(bracket.tried), bracket.passed, bracket.failed
        ([4.0, 8.0, 32.0, 16.0, 11.31, 9.512], 9.512, 11.31)
        """
        rate = self._wanted()
        return None if rate in self.tried else rate

    def _wanted(self) -> float | None:
        low, high = self.passed, self.failed
        if low is None and high is None:
            return rounded(min(max(self.start, self.lowest), self.highest))
        if high is None:
            assert low is not None
            return None if low >= self.highest else rounded(min(low * self._reach, self.highest))
        if low is None:
            return None if high <= self.lowest else rounded(max(high / self._reach, self.lowest))
        if high / low <= 1 + self.precision:
            return None
        middle = rounded(sqrt(low * high))
        return middle if low < middle < high else None

    @property
    def _reach(self) -> float:
        """Each step away from the start is larger than the one before, squared."""
        return float(self.growth ** max(1, len(self.tried)))
