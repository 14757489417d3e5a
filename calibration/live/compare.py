"""A served run beside its prediction, request by request and step by step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibration.comparison import REQUEST_QUANTITIES, Comparison, Floats, kind_of, times_ms
from simulator.plan import StepShape
from simulator.result import Result, State
from simulator.units import NS_PER_MS

from .serve import Served


def compare(served: Served, predicted: Result, price_ns: Callable[[StepShape], int]) -> Comparison:
    """Pair a run with the simulation of its trace, and each of its steps with its price."""
    finished = np.flatnonzero(
        (served.result.requests.state == State.FINISHED)
        & (predicted.requests.state == State.FINISHED)
    )
    measured, simulated = times_ms(served.result, finished), times_ms(predicted, finished)
    shapes = served.shapes
    prices = np.array([price_ns(shape) for shape in shapes], dtype=np.float64) / NS_PER_MS
    durations: Floats = served.result.steps.duration_ns / NS_PER_MS
    return Comparison(
        {name: (measured[name], simulated[name]) for name in REQUEST_QUANTITIES},
        (durations, prices),
        tuple(map(kind_of, shapes)),
    )
