"""`measure(fn) -> Trial`: how long a call takes, with every raw sample kept. Knows no models.

Three words, as in BenchmarkTools.jl: an *evaluation* is one call; a *sample* is the mean time of a
few evaluations in a row (one, unless a call is too short for the clock); a *trial* is all samples.
A trial ends when its relative inter-quartile range is under the target, or its time or its number
of samples is used up. The time budget holds for the host's clock, the samples for the device's.

Source: Chen and Revels, "Robust benchmarking in noisy environments" (2016).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import NamedTuple, Protocol, TypeVar

from .trial import Trial

Work = Callable[[int], object]
"""What is timed; it is given the number of the evaluation, to take another buffer every time."""

Lap = Callable[[str], None]
"""Ends a lap: what was done since the last call of it has this name."""
LappedWork = Callable[[Lap], object]

MAX_EVALUATIONS = 1024

Sample = TypeVar("Sample")


class Clock(Protocol):
    """A device's clock."""

    def now_ns(self) -> int:
        """The host's clock, for time budgets, nanoseconds."""

    def time_ns(self, work: Work, first: int, evaluations: int) -> float:
        """Mean time of an evaluation over `evaluations` in a row, nanoseconds.

        first: the number of the first evaluation.
        """

    def laps_ns(self, work: LappedWork) -> dict[str, float]:
        """Run work once; nanoseconds by name of lap, where a name comes again as `by_name`."""


class HostClock:
    """Wall time of calls that return when their work is done, as torch on a CPU.

    flush: called before every sample and not timed, to empty the caches.
    """

    def __init__(
        self,
        now_ns: Callable[[], int] = time.perf_counter_ns,
        *,
        flush: Callable[[], object] | None = None,
    ) -> None:
        self.now_ns, self._flush = now_ns, flush

    def time_ns(self, work: Work, first: int, evaluations: int) -> float:
        """As `Clock.time_ns`."""
        now_ns = self.now_ns
        if self._flush is not None:
            self._flush()
        start = now_ns()
        for evaluation in range(first, first + evaluations):
            work(evaluation)
        return (now_ns() - start) / evaluations

    def laps_ns(self, work: LappedWork) -> dict[str, float]:
        """As `Clock.laps_ns`."""
        laps: list[tuple[str, float]] = []
        if self._flush is not None:
            self._flush()
        last = self.now_ns()

        def lap(name: str) -> None:
            nonlocal last
            now = self.now_ns()
            laps.append((name, now - last))
            last = now

        work(lap)
        return by_name(laps)


def by_name(laps: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Nanoseconds by name; of a lap that comes n times (once a layer), n times its median.

    Layers are alike, so one that something else held up does not speak for the others.

    >>> by_name([("o", 3.0), ("down", 5.0), ("o", 90.0), ("o", 4.0)])
    {'o': 12.0, 'down': 5.0}
    """
    lasted: dict[str, list[float]] = {}
    for name, ns in laps:
        lasted.setdefault(name, []).append(ns)
    return {name: len(each) * float(median(each)) for name, each in lasted.items()}


class Effort(NamedTuple):
    """When a trial is good enough.

    target_spread: relative inter-quartile range at which it may stop.
    budget_s: seconds of host time after which it must stop (once it has `min_samples`).
    min_sample_ns: shorter calls are repeated within a sample until it is this long.
    """

    target_spread: float = 0.05
    budget_s: float = 0.5
    min_samples: int = 5
    max_samples: int = 200
    warmup: int = 2
    min_sample_ns: float = 20_000.0


CAREFUL = Effort()


def measure(work: Work, clock: Clock, effort: Effort = CAREFUL) -> Trial:
    """Time a call until its spread is small or its budget is used up.

    The first evaluation, which may compile or allocate, is never part of a sample. Raises whatever
    `work` raises.
    """
    start = clock.now_ns()
    lasted = clock.time_ns(work, 0, 1)
    done = 1
    for _ in range(effort.warmup - 1):
        if _over(clock, start, effort.budget_s / 2):
            break
        lasted = min(lasted, clock.time_ns(work, done, 1))
        done += 1
    evaluations = _evaluations(lasted, effort.min_sample_ns)

    def sample() -> float:
        nonlocal done
        done += evaluations
        return clock.time_ns(work, done - evaluations, evaluations)

    return Trial(tuple(_sampled(sample, lambda each: each, clock, start, effort)))


def measure_laps(work: LappedWork, clock: Clock, effort: Effort = CAREFUL) -> dict[str, Trial]:
    """As `measure`, part by part: one trial per name of lap, all with the same samples.

    The parts run as they do in the whole: caches hold what the part before left there. The trial
    ends when the spread of the sum is small.
    """
    start = clock.now_ns()
    for _ in range(effort.warmup):
        clock.laps_ns(work)
        if _over(clock, start, effort.budget_s / 2):
            break
    samples = _sampled(
        lambda: clock.laps_ns(work), lambda laps: sum(laps.values()), clock, start, effort
    )
    return {name: Trial(tuple(laps[name] for laps in samples)) for name in samples[0]}


def _sampled(
    sample: Callable[[], Sample],
    total_ns: Callable[[Sample], float],
    clock: Clock,
    start_ns: int,
    effort: Effort,
) -> list[Sample]:
    """Samples until their totals agree, or time or number is used up."""
    samples: list[Sample] = []
    while len(samples) < effort.max_samples:
        samples.append(sample())
        if len(samples) < effort.min_samples:
            continue
        if Trial(tuple(map(total_ns, samples))).spread <= effort.target_spread:
            break
        if _over(clock, start_ns, effort.budget_s):
            break
    return samples


def _over(clock: Clock, start_ns: int, budget_s: float) -> bool:
    return clock.now_ns() - start_ns >= budget_s * 1e9


def _evaluations(lasted_ns: float, min_sample_ns: float) -> int:
    """How many calls make a sample of the wanted length.

    >>> _evaluations(3.0, 10.0), _evaluations(50.0, 10.0)
    (4, 1)
    """
    return int(min(MAX_EVALUATIONS, max(1, -(-min_sample_ns // max(lasted_ns, 1.0)))))
