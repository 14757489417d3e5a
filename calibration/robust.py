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


def fit_relative(
    terms: Floats, measured: Floats, *, known: Floats | None = None, rounds: int = MAX_ROUNDS
) -> Floats:
    """The coefficients >= 0 of least mean |known + terms @ coefficients - measured| / measured.

    terms: shape (samples, terms); measured: shape (samples,), above 0; known: what is not fitted.
    """
    from scipy.optimize import nnls

    relative = terms / measured[:, None]
    scale = np.maximum(relative.max(axis=0), np.finfo(np.float64).tiny)
    relative = relative / scale
    target = np.ones(len(relative)) if known is None else 1 - known / measured
    weight = np.ones(len(relative))
    coefficients = np.zeros(relative.shape[1])
    for _ in range(rounds):
        before = coefficients
        coefficients, _ = nnls(relative * weight[:, None], target * weight)
        if np.allclose(coefficients, before, rtol=1e-10, atol=0):
            break
        error = np.abs(relative @ coefficients - target)
        weight = 1 / np.sqrt(np.maximum(error, SMALLEST_ERROR))
    result: Floats = coefficients / scale
    return result
