"""Which terms a `steps` fit has: each must earn its place on steps left out of the fit in turn.

The steps left out are whole stretches of the log, since neighbouring steps are nearly the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .steps_fit import errors_by_group, fit_form, grouped
from .steps_physics import Physics
from .steps_terms import Form, StepTable

Ints = NDArray[np.int64]

FOLDS = 4
STRETCHES_PER_FOLD = 5
MOST_GROUPS = 900
"""More groups than this are thinned to choose a form; the chosen one is fitted to all."""
EARNED = 0.95
"""A form takes over if its error on steps left out is below this share of the one before."""
CHOICE_ROUNDS = 15
PASSES = 2

FEWEST_PER_BATCH = 10
"""Steps of every captured batch that tell a price for each; with fewer of any, prices follow from
the experts that a batch reads, if the model's are known.

Ten observations to a coefficient are the usual least.
"""

KNEES = (0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 400.0)
CAPTURED = (256, 512, 1024)
FULL_AT = (12, 16, 20, 24, 32, 48, 64)
"""Multiprocessors / KV heads of a GPU: 100 / 8 or more. Tried where they are not known."""
EVENLY_USED = (1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25)
"""Share of a model's experts among which its tokens are as if sent at random; tried."""
TOKENS_PER_PAIR = (0.0, 1 / 60_000, 1 / 30_000, 1 / 20_000, 1 / 10_000, 1 / 5_000)
"""Tried where the model's FLOPs are not known."""


class Error(NamedTuple):
    """Mean relative error on steps left out: of those without prompts, and of those with."""

    decode: float
    prompt: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The form that won, and what it won with."""

    form: Form
    error: Error


class Question(NamedTuple):
    """What a form may become, and whose error decides: index into `Error`."""

    forms: Callable[[Form, Physics], Iterable[Form]]
    decided_by: int


def choose_form(steps: StepTable, physics: Physics) -> Choice:
    """Terms are added one by one, and their numbers chosen, while that helps on steps left out.

    What is known of the device and the model is in from the start.
    """
    most = max(int(steps.decode_seqs.max()), 1)
    met = bisect_left(physics.batch_sizes, most) + 1
    padded = physics.batch_sizes
    physics = physics._replace(batch_sizes=physics.batch_sizes[:met])
    if physics.experts is not None:
        is_told = _all_seen(physics.batch_sizes, steps)
        unknown = {"experts": None} if is_told else {"batch_sizes": ()}
        physics = physics._replace(**unknown)
    thinned = _thinned(steps)
    folds = _folds(thinned)
    start = replace(physics.form, padded_sizes=padded)
    best = Choice(start, _left_out_error(start, thinned, folds))
    for _ in range(PASSES):
        before = best
        for question in QUESTIONS:
            best = _best(best, question, physics, thinned, folds)
        if best == before:
            break
    return best


def _longest(form: Form, physics: Physics) -> Iterable[Form]:
    none = replace(form, full_at=None, wave=None, is_max=False, block_ms_per_token=None)
    if physics.block_ms_per_token is None:
        yield none
    if physics.wave is None:
        yield from (replace(none, full_at=full_at) for full_at in FULL_AT)
        return
    for is_max in (False, True):
        if form.experts is None:
            yield replace(none, wave=physics.wave, is_max=is_max)
        if physics.block_ms_per_token is not None:
            block_ms = physics.block_ms_per_token
            yield replace(none, wave=physics.wave, is_max=is_max, block_ms_per_token=block_ms)


def _experts(form: Form, physics: Physics) -> Iterable[Form]:
    if physics.experts is not None:
        for share in EVENLY_USED:
            used = max(round(share * physics.experts.evenly_used), physics.experts.per_token)
            yield replace(form, experts=physics.experts._replace(evenly_used=used))


def _batches(form: Form, physics: Physics) -> Iterable[Form]:
    yield replace(form, batch_sizes=())
    if physics.has_experts is not False and physics.batch_sizes:
        yield replace(form, batch_sizes=physics.batch_sizes)


def _captured(form: Form, physics: Physics) -> Iterable[Form]:
    for tokens in (physics.captured_tokens,) if physics.captured_tokens else CAPTURED:
        yield replace(form, captured_tokens=tokens, has_floor=False)
        yield replace(form, captured_tokens=tokens, has_floor=True)


def _knee(form: Form, _: Physics) -> Iterable[Form]:
    return (replace(form, knee_tokens=knee) for knee in KNEES)


def _attention(form: Form, physics: Physics) -> Iterable[Form]:
    if physics.attention_tokens_per_pair is None:
        yield from (replace(form, attention_tokens_per_pair=pair) for pair in TOKENS_PER_PAIR)


QUESTIONS = (
    Question(_knee, 1),
    Question(_captured, 1),
    Question(_attention, 1),
    Question(_experts, 0),
    Question(_longest, 0),
    Question(_batches, 0),
)
"""In the order in which they are asked."""


def _best(
    best: Choice, question: Question, physics: Physics, steps: StepTable, folds: Ints
) -> Choice:
    """The best of these forms if it earns its place, else the one so far."""
    asked = question.decided_by
    choices = [
        Choice(form, _left_out_error(form, steps, folds))
        for form in question.forms(best.form, physics)
        if form != best.form
    ]
    winner = min(choices, key=lambda choice: choice.error[asked], default=best)
    return winner if winner.error[asked] < EARNED * best.error[asked] else best


def _left_out_error(form: Form, steps: StepTable, folds: Ints) -> Error:
    """Errors on folds left out; a kind of step (`_kinds`) weighs as the root of its number.

    A plain mean would not see the sizes seldom met, for whose sake a term is there.
    """
    groups = grouped(steps)
    errors = np.zeros(groups.count)
    for fold in range(FOLDS):
        left_out = folds[groups.of] == fold
        fitted = fit_form(form, steps.rows(~left_out), rounds=CHOICE_ROUNDS)
        rest = steps.rows(left_out)
        errors[folds == fold] = errors_by_group(fitted.predict_ms(rest), rest)[0]
    found, of, number = np.unique(_kinds(steps), return_inverse=True, return_counts=True)
    means = np.bincount(of, errors) / number
    weights = np.sqrt(number)
    return Error(
        *(
            float(np.average(means[part], weights=weights[part])) if part.any() else 0.0
            for part in (found >= 0, found < 0)
        )
    )


def _kinds(steps: StepTable) -> Ints:
    """Groups of like size: prompt tokens to the next power of 4, else decodes to the next of 2.

    A mean over all steps would not see the few with prompts, nor the sizes seldom met.
    """
    groups = grouped(steps)
    tokens = groups.sums(steps.prefill_tokens)
    seqs = groups.sums(steps.decode_seqs)
    prompts = -1 - np.ceil(np.log2(np.maximum(tokens, 1)) / 2)
    decodes = np.ceil(np.log2(np.maximum(seqs, 1)))
    kinds: Ints = np.where(tokens > 0, prompts, decodes).astype(np.int64)
    return kinds


def _folds(steps: StepTable) -> Ints:
    """The fold of every group: stretches of the log in turn; shape (groups,)."""
    groups = grouped(steps).count
    stretch = np.arange(groups) * FOLDS * STRETCHES_PER_FOLD // max(groups, 1)
    folds: Ints = stretch % FOLDS
    return folds


def _all_seen(sizes: Sequence[int], steps: StepTable) -> bool:
    """Whether every captured batch was met often enough to tell its price."""
    decodes = steps.decode_seqs[~steps.has_prompt & (steps.decode_seqs > 0)]
    met = np.bincount(np.searchsorted(sizes, decodes), minlength=len(sizes))
    return bool((met[: len(sizes)] >= FEWEST_PER_BATCH).all())


def _thinned(steps: StepTable) -> StepTable:
    """All groups with prompts, and of the others evenly as many as the limit allows."""
    groups = grouped(steps)
    prompts = groups.any(steps.has_prompt)
    plain = np.flatnonzero(~prompts)
    if len(plain) <= MOST_GROUPS:
        return steps
    kept = prompts.copy()
    kept[plain[np.linspace(0, len(plain) - 1, MOST_GROUPS).astype(np.int64)]] = True
    return steps.rows(kept[groups.of])
