"""Pauses between the turns of a session: how long a person thinks or a tool runs.

As text: `fixed:2`, `exponential:30`, `lognormal:135:1.03:1:1477`, in seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simulator.errors import WorkloadError, nearest
from simulator.units import NS_PER_S

from .arrivals import Ints
from .limits import positive, shortest

PAUSES: dict[str, str] = {
    "fixed": "fixed:SECONDS",
    "exponential": "exponential:MEAN",
    "lognormal": "lognormal:MEDIAN:SIGMA[:MIN[:MAX]] (clipped to the limits)",
}
"""Kind of pause -> how it is written; all figures but SIGMA in seconds."""

LONGEST_S = 1e9
"""31 years."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """A distribution of pauses. `str()` of it is how it is written.

    kind: a name in `PAUSES`. typical_s: the value, mean or median. sigma, low_s, high_s: lognormal.

    Raises:
        WorkloadError: an unknown kind, or a figure out of range.
    """

    kind: str
    typical_s: float
    sigma: float = 0.0
    low_s: float = 0.0
    high_s: float = LONGEST_S

    def __post_init__(self) -> None:
        if self.kind not in PAUSES:
            forms = ", ".join(PAUSES.values())
            raise WorkloadError(f"unknown pause {self.kind!r}{nearest(self.kind, PAUSES)}: {forms}")
        if not 0 <= self.typical_s <= LONGEST_S:
            raise WorkloadError(
                f"{self.kind} pause {self.typical_s} s must be from 0 to {LONGEST_S:g} s"
            )
        if self.kind == "lognormal":
            positive("lognormal median", self.typical_s)
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise WorkloadError(f"lognormal sigma {self.sigma} must be a number of at least 0")
        if not 0 <= self.low_s <= self.high_s <= LONGEST_S:
            raise WorkloadError(
                f"pauses from {self.low_s} s to {self.high_s} s must be "
                f"0 <= min <= max <= {LONGEST_S:g}"
            )

    def draw_ns(self, pauses: int, rng: np.random.Generator) -> Ints:
        """int64 nanoseconds, shape (pauses,), each at least 0."""
        if self.kind == "fixed":
            seconds = np.full(pauses, self.typical_s)
        elif self.kind == "exponential":
            seconds = self.typical_s * rng.standard_exponential(pauses)
        else:
            with np.errstate(over="ignore"):
                seconds = self.typical_s * np.exp(self.sigma * rng.standard_normal(pauses))
            seconds = np.clip(seconds, self.low_s, self.high_s)
        pauses_ns: Ints = np.rint(seconds * NS_PER_S).astype(np.int64)
        return pauses_ns

    def __str__(self) -> str:
        figures = [self.typical_s]
        if self.kind == "lognormal":
            figures += [self.sigma, self.low_s, self.high_s]
        return ":".join((self.kind, *map(shortest, figures)))


def parse_pauses(text: str | float) -> Pauses:
    """A distribution from its text; a bare number is a fixed pause in seconds.

    >>> str(parse_pauses(1.5)), str(parse_pauses("exponential:30"))
    ('fixed:1.5', 'exponential:30')

    Raises:
        WorkloadError: an unknown kind, a wrong number of figures, or one out of range.
    """
    kind, _, rest = str(text).partition(":")
    try:
        if not rest:
            return Pauses("fixed", float(kind))
        typical_s, *figures = (float(part) for part in rest.split(":"))
    except ValueError as error:
        if isinstance(error, WorkloadError):
            raise
        form = PAUSES.get(kind, ", ".join(PAUSES.values()))
        raise WorkloadError(f"pause {text!r} must be written {form}") from None
    if len(figures) not in ((1, 2, 3) if kind == "lognormal" else (0,)) and kind in PAUSES:
        raise WorkloadError(f"pause {text!r} must be written {PAUSES[kind]}")
    return Pauses(kind, typical_s, *figures)
