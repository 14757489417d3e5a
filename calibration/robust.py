"""Non-negative coefficients of least mean relative error.

Source: Holland and Welsch, "Robust regression using iteratively reweighted least-squares" (1977);
Lawson and Hanson, "Solving Least Squares Problems" (1974), for the inner step.
"""

from __future__ import annotations

import numpy as np

from .step_log import Floats

SMALLEST_ERROR = 1e-4
"""Relative errors below this weigh alike: the reweighting must not divide by 0."""
MAX_ROUNDS = 300
NOISE = 0.02
"""What a step that is repeated varies by. Errors below it may weigh by their squares, so that sums
come out right where errors are skewed; larger ones still count by their size only (Huber, "Robust
Estimation of a Location Parameter", 1964)."""


def fit_relative(
    terms: Floats,
    measured: Floats,
    *,
    known: Floats | None = None,
    rounds: int = MAX_ROUNDS,
    squared_below: float = SMALLEST_ERROR,
    start: Floats | None = None,
    tolerance: float = 1e-10,
) -> Floats:
    """The coefficients >= 0 of least mean |known + terms @ coefficients - measured| / measured.

    terms: shape (samples, terms); measured: shape (samples,), above 0; known: what is not fitted.
    squared_below: relative errors below it count by their squares. start: coefficients near the
    result. tolerance: relative change at which they are the result.
    """
    from scipy.optimize import nnls

    relative = terms / measured[:, None]
    scale = np.maximum(relative.max(axis=0), np.finfo(np.float64).tiny)
    relative = relative / scale
    target = np.ones(len(relative)) if known is None else 1 - known / measured
    coefficients = np.zeros(relative.shape[1]) if start is None else start * scale
    weight = np.ones(len(relative))
    for done in range(rounds):
        if done or start is not None:
            error = np.abs(relative @ coefficients - target)
            weight = 1 / np.sqrt(np.maximum(error, squared_below))
        before = coefficients
        coefficients, _ = nnls(relative * weight[:, None], target * weight)
        if (np.abs(coefficients - before) <= tolerance * np.abs(before)).all():
            break
    result: Floats = coefficients / scale
    return result
