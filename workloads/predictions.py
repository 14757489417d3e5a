"""`predict_outputs`: what a length predictor would have said, with its error stated.

A scheduler never sees true output lengths. A prediction is a column of the trace: of a predictor of
your own (`predicted_output_tokens` in the file), or made here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.errors import WorkloadError, nearest
from simulator.trace import Trace

from .limits import MAX_TOKENS, at_least, positive, shortest

Floats = NDArray[np.float64]

PREDICTIONS: dict[str, str] = {
    "lognormal": "lognormal:SIGMA (the true length times exp(SIGMA x normal))",
    "mean": "mean (what the client's requests have on average: knows only who asks)",
    "oracle": "oracle (the true length: no predictor is so good)",
}
"""Kind of predictor -> how it is written."""

_STREAM = 5


def predict_outputs(trace: Trace, predictor: str, *, seed: int = 0) -> Trace:
    """The trace with `predicted_output_tokens`, int64, each at least 1; a note states the error.

    predictor: as in `PREDICTIONS`. seed: of the error; draws from a random stream of its own.

    >>> from workloads import bundled_trace
    >>> predict_outputs(bundled_trace(), "lognormal:0.5", seed=1).notes[-1]
    'output lengths predicted: lognormal:0.5, seed=1; off by a factor of 1.41 (median), 2.37 (p90)'

    Raises:
        WorkloadError: an unknown predictor, or a sigma that is not above 0.
    """
    kind, _, rest = predictor.partition(":")
    if kind not in PREDICTIONS or bool(rest) != (kind == "lognormal"):
        forms = ", ".join(PREDICTIONS.values())
        raise WorkloadError(f"predictor {predictor!r}{nearest(kind, PREDICTIONS)}: {forms}")
    true = trace.output_tokens
    if kind == "oracle":
        return trace.changed("output lengths predicted: oracle", predicted_output_tokens=true)
    guess = _means(trace) if kind == "mean" else true * _errors(rest, len(trace), seed)
    predicted = np.clip(np.rint(guess), 1, MAX_TOKENS).astype(np.int64)
    factors = np.exp(np.abs(np.log(predicted / true)))
    median, p90 = np.percentile(factors, (50, 90))
    shown = f"lognormal:{shortest(float(rest))}, seed={seed}" if rest else kind
    return trace.changed(
        f"output lengths predicted: {shown}; off by a factor of {median:.2f} (median), "
        f"{p90:.2f} (p90)",
        predicted_output_tokens=predicted,
    )


def _errors(sigma: str, requests: int, seed: int) -> Floats:
    try:
        spread = positive("sigma of the predictor", float(sigma))
    except ValueError as error:
        if isinstance(error, WorkloadError):
            raise
        raise WorkloadError(f"sigma of the predictor {sigma!r} must be a number") from None
    stream = np.random.SeedSequence(at_least("seed", seed, 0), spawn_key=(_STREAM,))
    normal = np.random.Generator(np.random.PCG64(stream)).standard_normal(requests)
    errors: Floats = np.exp(spread * normal)
    return errors


def _means(trace: Trace) -> Floats:
    names = [name or "" for name in trace.client or ("",) * len(trace)]
    _, clients = np.unique(np.array(names), return_inverse=True)
    means: Floats = np.bincount(clients, weights=trace.output_tokens) / np.bincount(clients)
    return means[clients]
