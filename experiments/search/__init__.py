"""Searches: the highest rate that meets an SLO, and the configuration that gets there."""

from .answer import EVERY_RATE, FAILED, FOUND, INVALID, NO_RATE, Answer, ranked
from .knobs import read_knobs
from .limits import read_objective
from .question import Question
from .runner import SearchOutcome, run_search

__all__ = [
    "EVERY_RATE",
    "FAILED",
    "FOUND",
    "INVALID",
    "NO_RATE",
    "Answer",
    "Question",
    "SearchOutcome",
    "ranked",
    "read_knobs",
    "read_objective",
    "run_search",
]
