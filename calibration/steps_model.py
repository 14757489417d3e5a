"""From a step log to a fitted `steps` model: which steps, which terms, what they cannot tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodels.table import Value
from simulator.errors import ConfigError

from .fit import FitOptions, StepFit, errors_of, quantities_of
from .step_log import Bools, Floats, StepLog
from .steps_choice import CHOICE_ROUNDS, Error, choose_form
from .steps_fit import FittedForm, Groups, fit_form, grouped
from .steps_physics import Physics
from .steps_terms import StepTable
from .unidentified import Unidentified, unidentified

FEWEST = 40
"""Steps a fit needs."""


@dataclass(frozen=True, slots=True, eq=False)
class StepsModel:
    """A fit, and what is known of its errors.

    left_out: errors on stretches of its own steps, each left out in turn, by which its terms were
    chosen. seen: of every step of the table, true if the fit saw it; dropped: steps left out as
    one-off. unidentified: what the log cannot tell.
    """

    fitted: FittedForm
    left_out: Error
    seen: Bools
    dropped: int
    unidentified: tuple[Unidentified, ...]

    @property
    def parameters(self) -> dict[str, Value]:
        """Of `StepsCostModel`."""
        return self.fitted.parameters

    def predict_ms(self, steps: StepTable) -> Floats:
        """The price of each step."""
        return self.fitted.predict_ms(steps)


def step_table(log: StepLog, *, launch_on_step_before: bool = False) -> StepTable:
    """The quantities of a log's steps.

    launch_on_step_before: engine and worker share a process, so that launching a step with prompts
    is booked on the step before it: they only mean something together, unless that one left
    nothing running.
    """
    quantities = quantities_of(log)
    continued = log.prefill_past > 0
    begins = np.ones(len(log), dtype=np.bool_)
    if launch_on_step_before:
        starts_afresh = (log.decode_seqs == 0) & ~continued
        begins = (log.prefill_tokens == 0) | ~log.follows | starts_afresh
    return StepTable(*quantities, continued, log.measured_ms, np.cumsum(begins) - 1)


def fit_steps_model(
    steps: StepTable,
    chosen: Bools,
    physics: Physics,
    *,
    drop_over_ms: float | None = None,
    drop_factor: float = 3.0,
) -> StepsModel:
    """Fit the steps chosen, less those that are one-off (`usable`).

    Raises ConfigError for too few steps.
    """
    kept = usable(steps, chosen, physics, drop_over_ms=drop_over_ms, drop_factor=drop_factor)
    return fit_kept(steps, kept, physics, dropped=int(chosen.sum() - kept.sum()))


def usable(
    steps: StepTable,
    chosen: Bools,
    physics: Physics,
    *,
    drop_over_ms: float | None = None,
    drop_factor: float = 3.0,
) -> Bools:
    """Of the steps chosen, those that are not one-off. Groups are dropped as a whole.

    drop_over_ms: longer steps are one-off (first use, compilation); drop_factor: so are those so
    many times off a first fit.
    """
    groups = grouped(steps)
    kept = chosen if drop_over_ms is None else chosen & (steps.measured_ms <= drop_over_ms)
    kept = _whole(kept, groups)
    _check(kept)
    sub = steps.rows(kept)
    first = fit_form(physics.form, sub, rounds=CHOICE_ROUNDS)
    parts = grouped(sub)
    ratio = parts.sums(first.predict_ms(sub)) / parts.sums(sub.measured_ms)
    off = np.abs(np.log(np.maximum(ratio, 1e-9))) > np.log(drop_factor)
    kept[np.flatnonzero(kept)[off[parts.of]]] = False
    return kept


def fit_kept(steps: StepTable, kept: Bools, physics: Physics, *, dropped: int = 0) -> StepsModel:
    """Choose the terms on these steps alone, and fit them.

    Raises ConfigError for too few steps.
    """
    _check(kept)
    sub = steps.rows(kept)
    choice = choose_form(sub, physics)
    told = unidentified(choice.form, sub, physics)
    return StepsModel(fit_form(told.form, sub), choice.error, kept, dropped, told.terms)


def fit_log(
    log: StepLog, options: FitOptions, physics: Physics, *, launch_on_step_before: bool = False
) -> tuple[StepFit, StepsModel]:
    """Fit one segment of a log, of which a random share is never seen.

    options: as for the linear model; `attention_tokens_per_pair` is the physics'.

    Raises ConfigError if the segment is not in the log or has too few steps.
    """
    steps = step_table(log, launch_on_step_before=launch_on_step_before)
    inside = log.within(options.segment)
    if not inside.any():
        found = ", ".join(sorted({str(name) for name in log.segment}))
        raise ConfigError(
            f"segment {options.segment!r} has 0 steps (segments of this log: {found})"
        )
    kept = usable(
        *(steps, inside, physics),
        drop_over_ms=options.drop_over_ms,
        drop_factor=options.drop_factor,
    )
    ids = np.unique(steps.group[kept])
    order = np.random.default_rng(options.seed).permutation(ids)
    held = np.isin(steps.group, order[: round(options.held_out_share * len(ids))]) & kept
    model = fit_kept(steps, kept & ~held, physics, dropped=int(inside.sum() - kept.sum()))
    predicted = model.predict_ms(steps)
    parts = grouped(steps.rows(held))
    held_ms = parts.sums(predicted[held]), parts.sums(log.measured_ms[held])
    fit = StepFit(
        parameters=model.parameters,
        samples=int(model.seen.sum()),
        dropped=model.dropped,
        held_out=errors_of(*held_ms),
        fitted=model.seen,
        predicted_ms=predicted,
    )
    return fit, model


def _whole(chosen: Bools, groups: Groups) -> Bools:
    """Without groups that are chosen only in part."""
    whole = ~groups.any(~chosen)
    result: Bools = chosen & whole[groups.of]
    return result


def _check(kept: Bools) -> None:
    if kept.sum() < FEWEST:
        raise ConfigError(f"{int(kept.sum())} steps to fit, a fit needs at least {FEWEST}")
