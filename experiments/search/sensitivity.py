"""What each knob is worth: the best configuration with one knob turned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments.sweep.values import Setting

from .best import Incumbent, Rates, Search, advance
from .candidates import Candidate, Candidates
from .evaluator import Evaluator
from .knobs import Knobs

NEAR = 1.15
"""First step of a bracket, away from the best rate."""


@dataclass(frozen=True, slots=True)
class Level:
    """The best configuration with `knob` at `value`.

    rate: the highest that passes; None if none does. invalid: why it cannot be run. is_best: the
    value that the answer has, or one that comes to the same.
    """

    knob: str
    value: Setting
    rate: float | None
    is_best: bool
    invalid: str | None = None

    def described(self, best: float) -> dict[str, Any]:  # Any: JSON values
        """For search.json. change: of the rate, as a share of the best."""
        change = None if self.rate is None else self.rate / best - 1
        return {
            "value": self.value,
            "rate": self.rate,
            "change": change,
            "is_best": self.is_best,
            "invalid": self.invalid,
        }


def sensitivity(
    evaluator: Evaluator, best: Incumbent, knobs: Knobs, candidates: Candidates, rates: Rates
) -> list[Level]:
    """Every value of every knob, the others as they are in the best configuration.

    All values are bracketed side by side, to the same precision as the answer.
    """
    turned: list[tuple[str, Setting, Candidate | None]] = []
    for knob in knobs.domains:
        for value in knobs.levels(knob):
            made = candidates.make({**best.candidate.settings, knob: value})
            turned.append((knob, value, made))
    searches: dict[str, Search] = {}
    for _, _, candidate in turned:
        if candidate is not None and candidate.key != best.candidate.key:
            bracket = rates.bracket(best.rate or None, growth=NEAR)
            searches.setdefault(candidate.key, (candidate, bracket, 0))
    for candidate, bracket, _ in searches.values():
        for known in evaluator.of(candidate):
            bracket.tell(known.rate, passed=known.passes(evaluator.objective))
    advance(evaluator, list(searches.values()))
    levels = []
    for knob, value, candidate in turned:
        if candidate is None:
            settings = {**best.candidate.settings, knob: value}
            levels.append(Level(knob, value, None, False, candidates.reason(settings)))
        elif candidate.key == best.candidate.key:
            levels.append(Level(knob, value, best.rate or None, True))
        else:
            levels.append(Level(knob, value, searches[candidate.key][1].passed, False))
    return levels
