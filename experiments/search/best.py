"""The configuration with the highest rate, and that rate, with as few runs as that takes.

All configurations see the same requests (common random numbers), so they are compared at a rate by
running each once. Of many, one is bracketed first; then all are tried just above its answer, and
only those that pass go on, together, until the rate at which the last of them fails is found.
If passing is monotone in the rate this is exact, and most configurations cost one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .bracket import Bracket, rounded
from .candidates import Candidate
from .evaluator import Evaluator


@dataclass(frozen=True, slots=True)
class Rates:
    """Where to look. start: tried first; lowest, highest: the ends; precision: as a share."""

    start: float
    lowest: float
    highest: float
    precision: float

    def bracket(self, start: float | None = None, *, growth: float = 2.0) -> Bracket:
        """A bracket from `start`, or from the usual start."""
        first = self.start if start is None else start
        return Bracket(first, self.precision, self.lowest, self.highest, growth)


Search = tuple[Candidate, Bracket, int]
"""A bracket of a candidate on a replicate."""


def advance(evaluator: Evaluator, searches: Sequence[Search]) -> None:
    """Drive brackets to their ends side by side: every round runs the next rate of each."""
    while True:
        asked = [(s, rate) for s in searches if (rate := s[1].next_rate()) is not None]
        if not asked:
            return
        found = evaluator([(candidate, rate, rep) for (candidate, _, rep), rate in asked])
        for ((_, bracket, _), rate), evaluation in zip(asked, found, strict=True):
            bracket.tell(rate, passed=evaluation.passes(evaluator.objective))


@dataclass(slots=True)
class Incumbent:
    """The best so far. bracket: of its rate."""

    candidate: Candidate
    bracket: Bracket

    @property
    def rate(self) -> float:
        """The highest rate that passed; 0 if none did."""
        return self.bracket.passed or 0.0


def challenge(
    evaluator: Evaluator, incumbent: Incumbent, challengers: Sequence[Candidate], rates: Rates
) -> dict[str, float]:
    """Replace the incumbent by the best of the challengers if that is better.

    Returns each challenger's score, by key: the highest rate it passed, or, for one that failed at
    once, that rate over how far it missed a limit: only to rank them.
    """
    first = _just_above(incumbent, rates)
    others = [each for each in challengers if each.key != incumbent.candidate.key]
    scores = {incumbent.candidate.key: incumbent.rate}
    if first is None or not others:
        return scores
    objective = evaluator.objective
    group = rates.bracket(first, growth=1 + 8 * rates.precision if incumbent.rate else 2.0)
    if incumbent.rate:
        group.tell(incumbent.rate, passed=True)
    alive, rate = others, first
    while True:
        found = evaluator([(each, rate, 0) for each in alive])
        passed = [e.passes(objective) for e in found]
        for each, evaluation, ok in zip(alive, found, passed, strict=True):
            missed = rate / max(evaluation.margin(objective), 1 + rates.precision)
            scores[each.key] = rate if ok else max(scores.get(each.key, 0.0), missed)
        group.tell(rate, passed=any(passed))
        if any(passed):
            alive = [each for each, ok in zip(alive, passed, strict=True) if ok]
        elif rate == first:
            return scores
        following = group.next_rate()
        if following is None:
            break
        rate = following
    best = min(alive, key=lambda each: _margin(evaluator, each, group.passed or first))
    incumbent.candidate, incumbent.bracket = best, rates.bracket(group.passed, growth=1.1)
    for evaluation in evaluator.of(best):
        incumbent.bracket.tell(evaluation.rate, passed=evaluation.passes(objective))
    advance(evaluator, [(best, incumbent.bracket, 0)])
    return scores


def _just_above(incumbent: Incumbent, rates: Rates) -> float | None:
    """Where a challenger must pass; None if there is no such rate."""
    if not incumbent.rate:
        return rates.lowest
    if incumbent.rate >= rates.highest:
        return None
    return rounded(min(incumbent.rate * (1 + rates.precision), rates.highest))


def _margin(evaluator: Evaluator, candidate: Candidate, rate: float) -> float:
    return evaluator.one(candidate, rate).margin(evaluator.objective)
