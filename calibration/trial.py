"""`Trial`: the samples of one call, and what they say; which of them were disturbed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

OUTLIER_IQRS = 3.0
"""A sample further than this many inter-quartile ranges beyond a quartile is an outlier (Tukey)."""
DISTURBED = 1.2
"""A sample this many times the fastest tenth was taken while something else held the machine."""


@dataclass(frozen=True)
class Trial:
    """The samples of one call, nanoseconds per evaluation, in the order they were taken."""

    samples_ns: tuple[float, ...]

    @cached_property
    def quartiles_ns(self) -> tuple[float, float, float]:
        """First quartile, median, third quartile.

        >>> Trial((4.0, 1.0, 3.0, 2.0, 5.0)).quartiles_ns
        (2.0, 3.0, 4.0)
        """
        first, median, third = np.percentile(self.samples_ns, (25, 50, 75)).tolist()
        return first, median, third

    @property
    def median_ns(self) -> float:
        """What the call is said to take."""
        return self.quartiles_ns[1]

    @property
    def iqr_ns(self) -> float:
        """Inter-quartile range."""
        return self.quartiles_ns[2] - self.quartiles_ns[0]

    @property
    def spread(self) -> float:
        """Inter-quartile range / median."""
        return self.iqr_ns / self.median_ns if self.median_ns else 0.0

    @property
    def outliers(self) -> int:
        """Samples more than `OUTLIER_IQRS` inter-quartile ranges beyond a quartile.

        >>> Trial((10.0, 11.0, 12.0, 13.0, 90.0)).outliers
        1
        """
        first, _, third = self.quartiles_ns
        reach = OUTLIER_IQRS * self.iqr_ns
        return sum(not first - reach <= sample <= third + reach for sample in self.samples_ns)

    def __add__(self, other: Trial) -> Trial:
        return Trial(self.samples_ns + other.samples_ns)


def totals_ns(trials: Mapping[str, Trial]) -> list[float]:
    """Sample by sample, the sum of the parts.

    >>> totals_ns({"a": Trial((1.0, 2.0)), "b": Trial((10.0, 20.0))})
    [11.0, 22.0]
    """
    samples = (trial.samples_ns for trial in trials.values())
    return [sum(parts) for parts in zip(*samples, strict=True)]


def undisturbed(trials: Mapping[str, Trial]) -> dict[str, Trial]:
    """The same parts without the samples in which something else held the machine.

    A disturbance only ever adds time, so a sample whose total is over `DISTURBED` times that of
    the fastest tenth is one.

    >>> undisturbed({"a": Trial((10.0, 11.0, 21.0, 10.5))})
    {'a': Trial(samples_ns=(10.0, 11.0, 10.5))}
    """
    totals = np.array(totals_ns(trials))
    if not len(totals):
        return dict(trials)
    kept = np.flatnonzero(totals <= DISTURBED * np.percentile(totals, 10, method="lower"))
    return {
        name: Trial(tuple(trial.samples_ns[i] for i in kept.tolist()))
        for name, trial in trials.items()
    }
