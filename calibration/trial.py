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
NOTICED = 0.05
"""Share of a step that a kernel must last longer than usual to be called disturbed."""


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

    @cached_property
    def undisturbed(self) -> Trial:
        """The samples without those that were taken while something else held the machine.

        A disturbance only ever adds time: a sample over `DISTURBED` times the fastest tenth is one.
        """
        most = DISTURBED * self.fastest_tenth_ns
        return Trial(tuple(ns for ns in self.samples_ns if ns <= most))

    @property
    def fastest_tenth_ns(self) -> float:
        """The sample that a tenth of them do not exceed; 0 without samples."""
        if not self.samples_ns:
            return 0.0
        return float(np.percentile(self.samples_ns, 10, method="lower"))

    def divided_by(self, calls: int) -> Trial:
        """The samples of one call, where each was that of so many in a row."""
        return Trial(tuple(ns / calls for ns in self.samples_ns))

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
    """The same parts, each without its disturbed samples.

    A part that is short beside the whole varies by more than `DISTURBED` by itself, and to drop its
    slow half would make it too cheap: a sample is only disturbed if it also makes the whole longer
    by `NOTICED`.

    >>> trials = {"a": Trial((10.0, 11.0, 21.0, 10.5)), "b": Trial((0.1, 0.1, 0.15, 0.1))}
    >>> undisturbed(trials)["a"].samples_ns, len(undisturbed(trials)["b"].samples_ns)
    ((10.0, 11.0, 10.5), 4)
    """
    fastest = {name: trial.fastest_tenth_ns for name, trial in trials.items()}
    noticed_ns = NOTICED * sum(fastest.values())
    return {
        name: Trial(
            tuple(
                ns
                for ns in trial.samples_ns
                if ns <= max(DISTURBED * fastest[name], fastest[name] + noticed_ns)
            )
        )
        for name, trial in trials.items()
    }


def spread_of(trials: Mapping[str, Trial]) -> float:
    """Inter-quartile ranges of the parts / their medians, summed each.

    >>> spread_of({"a": Trial((9.0, 10.0, 11.0)), "b": Trial((30.0, 30.0, 30.0))})
    0.025
    """
    medians = sum(trial.median_ns for trial in trials.values())
    return sum(trial.iqr_ns for trial in trials.values()) / medians if medians else 0.0
