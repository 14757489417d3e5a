"""How sure an answer is: the same question on other workloads of the kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.sweep.replicates import CONFIDENCE, mean_interval
from simulator.errors import RunwayError

from .best import Incumbent, Rates, Search, advance
from .candidates import Candidate
from .evaluate import GENERATED
from .evaluator import Evaluator

NEAR = 1.04
"""First step of a replicate's bracket, away from the answer that is known."""


@dataclass(frozen=True, slots=True)
class Certainty:
    """The rate as several workloads say it, and a confidence interval of it, requests/s.

    rates: of each workload; 0 where no rate passed. method: `seeds` or `blocks`.
    """

    rate: float
    low: float
    high: float
    rates: tuple[float, ...]
    method: str

    def described(self) -> dict[str, Any]:  # Any: JSON values
        """For search.json."""
        return {
            "rate": self.rate,
            "ci_low": self.low,
            "ci_high": self.high,
            "confidence": CONFIDENCE,
            "replicate_rates": list(self.rates),
            "method": self.method,
        }


def certainties(
    evaluator: Evaluator, incumbents: Sequence[Incumbent], rates: Rates, replicates: int
) -> list[Certainty | None]:
    """For each incumbent, all side by side; None if it has no rate, or nothing to repeat.

    Each replicate's answer is bracketed on its own, to the same precision.

    Raises:
        RunwayError: a replicate cannot be run at any rate.
    """
    generated = evaluator.replicate_kind == GENERATED
    numbers = range(1, replicates + (0 if generated else 1))
    searches: dict[int, list[Search]] = {}
    for place, incumbent in enumerate(incumbents):
        if incumbent.rate and len(numbers):
            searches[place] = [
                (incumbent.candidate, rates.bracket(incumbent.rate, growth=NEAR), number)
                for number in numbers
            ]
    advance(evaluator, [search for each in searches.values() for search in each])
    found: list[Certainty | None] = []
    for place, incumbent in enumerate(incumbents):
        if place not in searches:
            found.append(None)
            continue
        for candidate, _, number in searches[place]:
            _require_runs(evaluator, candidate, number)
        each = [bracket.passed or 0.0 for _, bracket, _ in searches[place]]
        found.append(
            of_seeds(incumbent.rate, each) if generated else of_blocks(incumbent.rate, each)
        )
    return found


def _require_runs(evaluator: Evaluator, candidate: Candidate, number: int) -> None:
    """A replicate none of whose runs came to an end says nothing about the rate."""
    errors = [evaluation.error for evaluation in evaluator.of(candidate, number)]
    if errors and all(errors):
        raise RunwayError(
            f"how sure the answer is cannot be told, workload {number} of the kind fails: "
            f"{errors[0]}. Give --replicates 0 to go without"
        )


def lead(best: Certainty, other: Certainty) -> tuple[float, float, float]:
    """How much higher the rate of `best` is, and the ends of the interval of that, requests/s.

    Both answered on the same workloads: what these have in common cancels.

    >>> apart = lead(of_seeds(10.0, [12.0, 14.0]), of_seeds(9.0, [11.0, 13.0]))
    >>> apart
    (1.0, 1.0, 1.0)
    """
    pairs = [a - b for a, b in zip(best.rates, other.rates, strict=True)]
    if best.method == "seeds":
        return mean_interval(pairs)
    half = _half(pairs)
    apart = best.rate - other.rate
    return apart, apart - half, apart + half


def of_seeds(first: float, others: Sequence[float]) -> Certainty:
    """Independent workloads: the mean of their answers, and Student's interval of it.

    >>> of_seeds(9.0, [10.0, 11.0]).rate
    10.0
    """
    every = (first, *others)
    mean, low, high = mean_interval(every)
    return Certainty(mean, max(low, 0.0), high, every, "seeds")


def of_blocks(recorded: float, resampled: Sequence[float]) -> Certainty:
    """Resamplings of one recording: its own answer, give or take how much theirs differ.

    The deviation of a statistic over bootstrap samples estimates its standard error; the interval
    is that many of them as Student's t says. Source: Efron and Tibshirani, An Introduction to the
    Bootstrap (1993), chapters 6 and 12.

    >>> told = of_blocks(10.0, [9.0, 10.0, 11.0])
    >>> round(told.low, 3), told.rate, round(told.high, 3)
    (5.697, 10.0, 14.303)
    """
    half = _half(resampled)
    return Certainty(
        recorded, max(recorded - half, 0.0), recorded + half, tuple(resampled), "blocks"
    )


def _half(resampled: Sequence[float]) -> float:
    from scipy.special import stdtrit

    spread = float(np.std(resampled, ddof=1))
    return float(stdtrit(len(resampled) - 1, (1 + CONFIDENCE) / 2)) * spread
