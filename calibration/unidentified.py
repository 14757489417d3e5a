"""What a log cannot tell: terms that it never met, or that rise and fall with another one."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .step_log import Floats
from .steps_choice import CHOICE_ROUNDS
from .steps_fit import fit_form, grouped
from .steps_physics import Physics
from .steps_terms import Form, StepTable

INDISTINCT = 0.03
"""A term whose column is, to this share of its length, made of the others is not told from them."""
SPECIFIC = (
    *("longest_context_ms_per_token", "decode_ms_per_context_token", "decode_ms_per_sequence"),
    *("continued_prompt_ms", "uncaptured_step_ms", "prefill_step_ms", "compute_ms_per_token"),
)
"""Of two terms that cannot be told apart, the one named first here is given up."""


class Unidentified(NamedTuple):
    """A term and why the log does not tell it."""

    term: str
    reason: str

    def __str__(self) -> str:
        return f"{self.term}: {self.reason}"


class Told(NamedTuple):
    """The form without what the log cannot tell, and what that is."""

    form: Form
    terms: tuple[Unidentified, ...]


def unidentified(form: Form, steps: StepTable, physics: Physics) -> Told:
    """Give up, or take from physics, what these steps cannot tell.

    A price per context token is taken from the KV bytes and the bandwidth, if they are known.
    """
    found: list[Unidentified] = []
    while True:
        missing = _worst(form, steps, {each.term for each in found})
        if missing is None:
            return Told(form, tuple(found))
        term, reason = missing
        if term == "decode_ms_per_context_token" and physics.read_ms_per_token is not None:
            form = replace(form, read_ms_per_token=physics.read_ms_per_token)
            reason += ", taken from the KV cache's bytes and the bandwidth"
        else:
            form = form.without(term)
            reason += ", left at 0"
        found.append(Unidentified(term, reason))


def _worst(form: Form, steps: StepTable, known: set[str]) -> tuple[str, str] | None:
    """The term that these steps tell least, and why; None if they tell all."""
    groups = grouped(steps)
    relative = groups.sums(form.columns(steps)) / groups.sums(steps.measured_ms)[:, None]
    open_terms = [
        (term, column)
        for term, column in zip(form.terms, relative.T, strict=True)
        if term not in form.fixed and term not in known
    ]
    for term, column in open_terms:
        if term in SPECIFIC and not column.any():
            return term, "no step of the log has any"
    hidden = _never_larger(form, steps)
    if hidden is not None and hidden in dict(open_terms):
        return hidden, "no step of the log is long enough for it"
    columns = [column for _, column in open_terms]
    shares = {
        term: _own_share(column, [other for other in columns if other is not column])
        for term, column in open_terms
    }
    blurred = [term for term in SPECIFIC if shares.get(term, 1.0) < INDISTINCT]
    if not blurred:
        return None
    term = blurred[0]
    like = max(
        (other for other, _ in open_terms if other != term),
        key=lambda other: _likeness(dict(open_terms)[term], dict(open_terms)[other]),
    )
    return term, f"rises and falls with {like} in every step of the log"


def _never_larger(form: Form, steps: StepTable) -> str | None:
    """Of two terms of which the larger counts, the one that never does."""
    if not form.is_max:
        return None
    bound = fit_form(form, steps, rounds=CHOICE_ROUNDS).bound_columns(steps)
    unseen = [term for term, column in zip(form.terms, bound.T, strict=True) if not column.any()]
    pair = ("decode_ms_per_context_token", "longest_context_ms_per_token")
    return next((term for term in pair if term in unseen), None)


def _own_share(column: Floats, others: list[Floats]) -> float:
    """The length of what the others do not make up, as a share of the column's."""
    if not others:
        return 1.0
    matrix = np.stack(others, axis=1)
    scale = np.linalg.norm(matrix, axis=0)
    matrix = matrix[:, scale > 0] / scale[scale > 0]
    solved = np.linalg.lstsq(matrix, column, rcond=None)[0]
    return float(np.linalg.norm(column - matrix @ solved) / np.linalg.norm(column))


def _likeness(column: Floats, other: Floats) -> float:
    length = float(np.linalg.norm(column) * np.linalg.norm(other))
    return float(column @ other) / length if length else 0.0
