"""A robust fit of the `steps` cost model: coefficients of one form, all >= 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodels.table import Value

from .robust import MAX_ROUNDS, NOISE, fit_relative
from .step_log import Bools, Floats
from .steps_terms import Form, StepTable

TURNS = 20
TOLERANCE = 1e-7
NEAR = 2.0
"""A floor is first guessed from steps of up to this many times the captured tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedForm:
    """Coefficients of a form's terms, milliseconds, and its floor (0: none)."""

    form: Form
    coefficients: Floats
    floor_ms: float

    def predict_ms(self, steps: StepTable) -> Floats:
        """The price of each step."""
        prices: Floats = self.bound_columns(steps) @ self.coefficients
        lifted = np.maximum(prices, self.floor_ms)
        return np.where(self.form.uncaptured(steps), lifted, prices)

    def bound_columns(self, steps: StepTable) -> Floats:
        """What each term multiplies; 0 for the smaller of two of which the larger counts."""
        return hidden(self.form, self.form.columns(steps), self.coefficients)

    @property
    def parameters(self) -> dict[str, Value]:
        """Of `StepsCostModel`."""
        named = dict(zip(self.form.terms, self.coefficients.tolist(), strict=True))
        return self.form.parameters(named, self.floor_ms)


def fit_form(form: Form, steps: StepTable, *, rounds: int = MAX_ROUNDS) -> FittedForm:
    """The coefficients >= 0 of least mean relative error over the groups of steps (`robust`).

    A floor, and the larger of two terms, make the price the larger of several: which one binds a
    step and what they are is found in turns.
    """
    columns, groups, uncaptured = form.columns(steps), grouped(steps), form.uncaptured(steps)
    fit = _Turns(form, groups, groups.sums(steps.measured_ms), rounds)
    bound = np.zeros(len(uncaptured), dtype=np.bool_)
    floor_ms = 0.0
    found = _first(form)
    for turn in range(TURNS):
        last = found
        found, free = fit.solved(columns, bound, found)
        prices = hidden(form, columns, found) @ found
        if bound.any():
            floor_ms = free
        elif turn == 0 and form.has_floor and uncaptured.any():
            floor_ms = _first_floor(form, steps, prices, groups)
        before, bound = bound, uncaptured & (prices < floor_ms)
        is_same = (before == bound).all() and np.allclose(found, last, rtol=10 * TOLERANCE, atol=0)
        if is_same or not (form.is_max or bound.any() or before.any()):
            break
    return FittedForm(form, found, floor_ms if bound.any() else 0.0)


class _Turns:
    """One turn of a fit: coefficients, with what binds each step given."""

    def __init__(self, form: Form, groups: Groups, total_ms: Floats, rounds: int) -> None:
        self._form, self._groups, self._total, self._rounds = form, groups, total_ms, rounds
        self._last: Floats | None = None

    def solved(self, columns: Floats, bound: Bools, before: Floats) -> tuple[Floats, float]:
        """(coefficients, floor). before: the last ones, which say which of two terms is larger."""
        form, groups = self._form, self._groups
        columns = np.where(bound[:, None], 0.0, hidden(form, columns, before))
        fixed = np.array([form.fixed.get(term, np.nan) for term in form.terms])
        given = ~np.isnan(fixed)
        known = groups.sums(columns[:, given] @ fixed[given])
        columns[:, given] = 0.0
        terms = groups.sums(np.column_stack([columns, bound.astype(np.float64)]))
        found = fit_relative(
            *(terms, self._total),
            known=known,
            rounds=self._rounds,
            squared_below=NOISE,
            start=self._last,
            tolerance=TOLERANCE,
        )
        self._last = found.copy()
        found[:-1][given] = fixed[given]
        return found[:-1], float(found[-1])


def hidden(form: Form, columns: Floats, coefficients: Floats) -> Floats:
    """The columns, without the smaller of KV read and longest context where the larger counts."""
    if not form.is_max:
        return columns
    columns = columns.copy()
    hide_smaller(columns, coefficients[-2], coefficients[-1])
    return columns


def hide_smaller(columns: Floats, read_ms: float, last_ms: float) -> None:
    """Set the smaller of the last two columns' terms to 0, in place."""
    is_last = columns[:, -1] * last_ms > columns[:, -2] * read_ms
    columns[is_last, -2] = 0.0
    columns[~is_last, -1] = 0.0


def _first(form: Form) -> Floats:
    """Before the first turn: one block reads twice its fair share of the memory's bandwidth."""
    first = np.zeros(len(form.terms))
    if form.has_longest:
        wave = form.wave or float(form.full_at or 1)
        first[-2:] = (2 / wave, 1.0)
    return first


def _first_floor(form: Form, steps: StepTable, prices: Floats, groups: Groups) -> float:
    """The median time of small uncaptured steps, less what else their groups hold."""
    assert form.captured_tokens is not None
    tokens = steps.prefill_tokens + steps.decode_seqs
    uncaptured = form.uncaptured(steps)
    small = uncaptured & (tokens <= NEAR * form.captured_tokens)
    if not small.any():
        return 0.0
    mixed = groups.sums(uncaptured.astype(np.float64))
    others = groups.sums(np.where(uncaptured, 0.0, prices))
    each = (groups.sums(steps.measured_ms) - others) / np.maximum(mixed, 1)
    return max(float(np.median(each[groups.of[small]])), 0.0)


class Groups:
    """Steps whose times only mean something together; of: the group of each step, 0, 1, ..."""

    __slots__ = ("count", "of")

    def __init__(self, of: NDArray[np.int64]) -> None:
        self.of, self.count = of, int(of[-1]) + 1 if len(of) else 0

    def sums(self, values: Floats) -> Floats:
        """Sums over each group; shape (groups,) or (groups, columns)."""
        if self.count == len(self.of):
            return values
        if values.ndim == 1:
            return np.bincount(self.of, values, self.count).astype(np.float64)
        return np.stack([np.bincount(self.of, column, self.count) for column in values.T], axis=1)

    def any(self, values: Bools) -> Bools:
        """Whether any step of each group is so."""
        result: Bools = np.bincount(self.of, values, self.count) > 0
        return result


def grouped(steps: StepTable) -> Groups:
    """The groups of a table's steps, numbered from 0."""
    return Groups(np.unique(steps.group, return_inverse=True)[1])


def errors_by_group(prices: Floats, steps: StepTable) -> tuple[Floats, Bools]:
    """(|predicted - measured| / measured, whether prompts are in it) of every group."""
    groups = grouped(steps)
    errors: Floats = np.abs(groups.sums(prices) / groups.sums(steps.measured_ms) - 1)
    return errors, groups.any(steps.has_prompt)
