"""Length distributions: how many tokens a prompt or an output has.

As text: `fixed:1000`, `uniform:100:2000`, `lognormal:1020:0.9:1:8192`, `empirical:FILE`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.errors import WorkloadError, nearest
from simulator.trace import Trace

from .limits import MAX_TOKENS, at_least, positive, shortest

Ints = NDArray[np.int64]

LENGTHS: dict[str, str] = {
    "fixed": "fixed:TOKENS",
    "uniform": "uniform:MIN:MAX (both included)",
    "lognormal": "lognormal:MEDIAN:SIGMA[:MIN[:MAX]] (clipped to the limits)",
    "lognormal-mean": "lognormal-mean:MEAN:SIGMA[:MIN[:MAX]] (mean before clipping)",
    "empirical": "empirical:FILE (lengths drawn with replacement from a trace)",
}
"""Kind of distribution -> how it is written."""


class Lengths(Protocol):
    """A length distribution. `str()` of it is how it is written."""

    def draw(self, requests: int, column: str, rng: np.random.Generator) -> Ints:
        """Token counts, int64, shape (requests,), each at least 1.

        column: "prompt_tokens" or "output_tokens", which only `Empirical` looks at.
        """


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same length."""

    tokens: int

    def __post_init__(self) -> None:
        _require_range(self.tokens, self.tokens)

    def draw(self, requests: int, column: str, rng: np.random.Generator) -> Ints:
        """See `Lengths.draw`."""
        return np.full(requests, self.tokens, dtype=np.int64)

    def __str__(self) -> str:
        return f"fixed:{self.tokens}"


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every length from `low` to `high` equally often, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _require_range(self.low, self.high)

    def draw(self, requests: int, column: str, rng: np.random.Generator) -> Ints:
        """See `Lengths.draw`."""
        return rng.integers(self.low, self.high, size=requests, endpoint=True, dtype=np.int64)

    def __str__(self) -> str:
        return f"uniform:{self.low}:{self.high}"


@dataclass(frozen=True, slots=True)
class LogNormal:
    """exp(Normal(ln median, sigma)), rounded and clipped to [low, high].

    The p90 is median * exp(1.2816 sigma), the mean before clipping median * exp(sigma^2 / 2).
    """

    median: float
    sigma: float
    low: int = 1
    high: int = MAX_TOKENS

    def __post_init__(self) -> None:
        positive("lognormal median", self.median)
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise WorkloadError(f"lognormal sigma {self.sigma} must be a number of at least 0")
        _require_range(self.low, self.high)

    @classmethod
    def with_mean(
        cls, mean: float, sigma: float, low: int = 1, high: int = MAX_TOKENS
    ) -> LogNormal:
        """By its mean before clipping.

        >>> round(LogNormal.with_mean(1000.0, 0.5).median, 1)
        882.5
        """
        return cls(positive("lognormal mean", mean) / math.exp(sigma**2 / 2), sigma, low, high)

    def draw(self, requests: int, column: str, rng: np.random.Generator) -> Ints:
        """See `Lengths.draw`."""
        with np.errstate(over="ignore"):
            tokens = self.median * np.exp(self.sigma * rng.standard_normal(requests))
        return np.rint(np.clip(tokens, self.low, self.high)).astype(np.int64)

    def __str__(self) -> str:
        return f"lognormal:{shortest(self.median)}:{shortest(self.sigma)}:{self.low}:{self.high}"


@dataclass(frozen=True, slots=True, eq=False)
class Empirical:
    """Lengths drawn with replacement from a trace. Used for prompt and output, pairs stay pairs."""

    trace: Trace
    source: str

    def draw(self, requests: int, column: str, rng: np.random.Generator) -> Ints:
        """See `Lengths.draw`."""
        values: Ints = getattr(self.trace, column)
        return values[rng.integers(0, len(self.trace), size=requests)]

    def __str__(self) -> str:
        return f"empirical:{self.source}"


def parse_lengths(text: str | int) -> Lengths:
    """A distribution from its text; a bare number is a fixed length.

    >>> parse_lengths("uniform:100:2000")
    Uniform(low=100, high=2000)

    Raises:
        WorkloadError: an unknown kind, a wrong number of figures, or one out of range.
    """
    kind, _, rest = str(text).partition(":")
    if kind.isdigit() and not rest:
        return Fixed(int(kind))
    if kind not in LENGTHS:
        forms = ", ".join(LENGTHS.values())
        raise WorkloadError(f"unknown lengths {str(text)!r}{nearest(kind, LENGTHS)}: {forms}")
    if kind == "empirical":
        from .readers import read_trace

        return Empirical(read_trace(rest), Path(rest).name)
    try:
        return _parsed(kind, [float(part) for part in rest.split(":")])
    except (ValueError, TypeError) as error:
        if isinstance(error, WorkloadError):
            raise
        raise WorkloadError(f"lengths {text!r} must be written {LENGTHS[kind]}") from None


def _parsed(kind: str, figures: list[float]) -> Lengths:
    if kind == "fixed":
        (tokens,) = figures
        return Fixed(at_least("fixed length", tokens, 1))
    if kind == "uniform":
        low, high = figures
        return Uniform(at_least("uniform minimum", low, 1), at_least("uniform maximum", high, 1))
    centre, sigma, *limits = figures
    low_high = [at_least("lognormal limit", limit, 1) for limit in limits]
    make = LogNormal if kind == "lognormal" else LogNormal.with_mean
    return make(centre, sigma, *low_high)


def _require_range(low: int, high: int) -> None:
    if not 1 <= low <= high <= MAX_TOKENS:
        raise WorkloadError(f"lengths from {low} to {high} must be 1 <= min <= max <= {MAX_TOKENS}")
