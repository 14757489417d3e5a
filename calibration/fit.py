"""A robust fit of the linear step model to a log of real engine steps.

Smallest sum of |predicted - measured| / measured with all coefficients >= 0, by iteratively
reweighted non-negative least squares. Deterministic: the only randomness is the seeded choice of
the steps that the fit never sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodels.table import Value
from simulator.errors import ConfigError

from .reconstruct import longest_context_of, prefill_of
from .robust import fit_relative
from .step_log import Bools, Floats, StepLog

TERMS = (
    "step_ms",
    "prefill_ms_per_token",
    "attention_ms_per_token_pair",
    "prefill_step_ms",
    "decode_ms_per_sequence",
    "decode_ms_per_context_token",
    "longest_context_ms_per_token",
)
FULL_AT_CHOICES = (4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 48, 64)
"""Tried for longest_context_full_at_sequences; the smallest training error wins."""
SIGNIFICANT_DIGITS = 6


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How to fit. Shares are fractions, times milliseconds.

    segment: the part of the log to fit and hold out from, "" for all of it; test_segment: a part
        to extrapolate to.
    attention_tokens_per_pair: FLOPs of a token pair's attention / FLOPs of a token's matrices;
        ties the two prefill terms, which a log with little history cannot tell apart.
    drop_over_ms: steps longer than this are one-off (first use, compilation): dropped.
    drop_factor: steps this many times longer or shorter than a first fit says: dropped.
    """

    segment: str
    test_segment: str | None = None
    held_out_share: float = 0.15
    seed: int = 0
    attention_tokens_per_pair: float | None = None
    drop_over_ms: float | None = None
    drop_factor: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.held_out_share < 1:
            raise ConfigError(f"held_out_share is {self.held_out_share}: must be between 0 and 1")
        if not self.drop_factor > 1:
            raise ConfigError(f"drop_factor is {self.drop_factor}: must be above 1")


class Errors(NamedTuple):
    """|predicted - measured| / measured over n steps."""

    n: int
    mean: float
    median: float
    p90: float


@dataclass(frozen=True, slots=True, eq=False)
class StepFit:
    """A fit, and how far it is off.

    parameters: of the cost model, milliseconds; terms fitted to 0 are left out.
    samples: steps fitted; dropped: steps left out as outliers. held_out: on steps of the same
    segment that the fit never saw. fitted: of every step of the log, true if it was fitted;
    predicted_ms: of every step of the log.
    """

    parameters: Mapping[str, Value]
    samples: int
    dropped: int
    held_out: Errors
    fitted: Bools
    predicted_ms: Floats


class Quantities(NamedTuple):
    """What the linear model's terms multiply; shape (steps,) each."""

    prefill_tokens: Floats
    token_pairs: Floats
    decode_seqs: Floats
    decode_context_tokens: Floats
    longest_context: Floats


def quantities_of(log: StepLog) -> Quantities:
    """The quantities of a log's steps; what it lacks of the last two and of pairs is worked out."""
    prefill = prefill_of(log)
    pairs, longest = log.token_pairs, log.longest_context
    return Quantities(
        log.prefill_tokens,
        prefill.pairs if pairs is None else pairs,
        log.decode_seqs,
        log.decode_context,
        longest_context_of(log, prefill) if longest is None else longest,
    )


def fit_steps(log: StepLog, options: FitOptions) -> StepFit:
    """Fit the linear step model to one segment of a log.

    Raises ConfigError if the segment is not in the log or has too few steps.
    """
    quantities = quantities_of(log)
    inside = np.flatnonzero(log.within(options.segment))
    if len(inside) < 5 * len(TERMS):
        found = ", ".join(sorted({str(name) for name in log.segment}))
        raise ConfigError(
            f"segment {options.segment!r} has {len(inside)} steps, a fit needs at least "
            f"{5 * len(TERMS)} (segments of this log: {found})"
        )
    tie = options.attention_tokens_per_pair
    kept = inside
    if options.drop_over_ms is not None:
        kept = inside[log.measured_ms[inside] <= options.drop_over_ms]
    first = _best_fit(quantities, log.measured_ms, kept, tie)
    off = np.abs(np.log(predict_ms(first, quantities)[kept] / log.measured_ms[kept]))
    kept = kept[off <= np.log(options.drop_factor)]
    order = np.random.default_rng(options.seed).permutation(kept)
    held = round(options.held_out_share * len(kept))
    parameters = _best_fit(quantities, log.measured_ms, np.sort(order[held:]), tie)
    predicted = predict_ms(parameters, quantities)
    fitted = np.zeros(len(log), dtype=np.bool_)
    fitted[order[held:]] = True
    return StepFit(
        parameters={name: value for name, value in parameters.items() if value},
        samples=len(kept) - held,
        dropped=len(inside) - len(kept),
        held_out=errors_of(predicted, log.measured_ms, order[:held]),
        fitted=fitted,
        predicted_ms=predicted,
    )


def errors_of(
    predicted_ms: Floats, measured_ms: Floats, rows: NDArray[np.int64] | Bools | None = None
) -> Errors:
    """Relative errors over the chosen rows (all by default)."""
    chosen = slice(None) if rows is None else rows
    error = np.abs(predicted_ms[chosen] / measured_ms[chosen] - 1)
    median, p90 = np.percentile(error, (50, 90))
    return Errors(len(error), float(error.mean()), float(median), float(p90))


def predict_ms(parameters: dict[str, float], quantities: Quantities) -> Floats:
    """Prices of steps under parameters of the linear model, milliseconds; shape (steps,)."""
    full_at = parameters.get("longest_context_full_at_sequences", 1.0)
    coefficients = np.array([parameters.get(term, 0.0) for term in TERMS])
    predicted: Floats = _terms(quantities, full_at) @ coefficients
    return predicted


def _terms(quantities: Quantities, full_at: float) -> Floats:
    tokens, pairs, seqs, context, longest = quantities
    share = np.minimum(1.0, seqs / full_at)
    ones = np.ones(len(tokens))
    columns = (ones, tokens, pairs, (tokens > 0) * ones, seqs, context, longest * share)
    return np.stack(columns, axis=1)


def _best_fit(
    quantities: Quantities, measured_ms: Floats, rows: NDArray[np.int64], tie: float | None
) -> dict[str, float]:
    """The fit over `FULL_AT_CHOICES` with the smallest mean relative error on its own rows."""
    chosen = Quantities(*(column[rows] for column in quantities))
    fits = []
    for full_at in FULL_AT_CHOICES:
        terms = _terms(chosen, full_at)
        coefficients = _fit_relative(terms, measured_ms[rows], tie)
        error = float(np.abs(terms @ coefficients / measured_ms[rows] - 1).mean())
        fits.append((error, full_at, coefficients))
    _, full_at, coefficients = min(fits, key=lambda fit: fit[:2])
    parameters = {
        term: float(f"{value:.{SIGNIFICANT_DIGITS}g}")
        for term, value in zip(TERMS, coefficients, strict=True)
    }
    if parameters["longest_context_ms_per_token"]:
        parameters["longest_context_full_at_sequences"] = full_at
    return parameters


def _fit_relative(terms: Floats, measured_ms: Floats, tie: float | None) -> Floats:
    """Coefficients of least relative error; with a tie, token pairs cost `tie` tokens each."""
    if tie is None:
        return fit_relative(terms, measured_ms)
    tied = fit_relative(_tied(terms, tie), measured_ms)
    return np.insert(tied, 2, tie * tied[1])


def _tied(terms: Floats, tie: float) -> Floats:
    """One column for tokens and token pairs together, in the place of tokens."""
    merged = np.delete(terms, 2, axis=1)
    merged[:, 1] += tie * terms[:, 2]
    return merged
