"""Candidate prices judged by what they do to requests: a log served again, compared in cells.

A cell is a part of the run and a third of its prompt lengths; in it mean TTFT, TPOT and E2E are
compared, so that which step a single request catches counts for little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodels.steps import StepsCostModel
from simulator import ClientDelay
from simulator.units import ms_to_ns

from .request_times import RequestTimes
from .served import Served, Serving, serve

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

STEP, COMPUTE, DELAY = "step_ms", "compute_ms_per_token", "client_delay_ms"
SEQUENCE, CONTEXT = "decode_ms_per_sequence", "decode_ms_per_context_token"
TIME_CELLS = 8
LENGTH_CELLS = 3
FEWEST_IN_CELL = 3
TTFT_WEIGHT = 0.25
"""In which step a request is caught moves its TTFT by a step, and its E2E by next to nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class FitLog:
    """A log, and which of its requests the fit may see; shape (n,)."""

    times: RequestTimes
    seen: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    logs: Sequence[FitLog]
    serving: Serving
    attention: float
    known: dict[str, float]

    def parameters(self, values: Mapping[str, float]) -> dict[str, Any]:  # Any: as above
        """Of `StepsCostModel`, with the terms that are tied to others."""
        return {
            **{name: value for name, value in values.items() if name != DELAY},
            "knee_tokens": values[STEP] / values[COMPUTE],
            "attention_tokens_per_pair": self.attention,
        }

    def residuals(self, values: Mapping[str, float]) -> Floats:
        """Mean log ratios of simulated to measured, TTFT, TPOT and E2E, of every cell."""
        model = StepsCostModel(**self.parameters({**self.known, **values}))
        delay_ms = {**self.known, **values}.get(DELAY, 0.0)
        delay = ClientDelay(request_ns=ms_to_ns(delay_ms))
        return np.concatenate(
            [
                _cell_ratios(log, serve(log.times.trace, model, self.serving, delay))
                for log in self.logs
            ]
        )


def _cell_ratios(log: FitLog, served: Served) -> Floats:
    times, several = log.times, log.times.output_tokens > 1
    cells = cells_of(times)
    ratios = []
    for measured, simulated, weight, of in (
        (times.ttft_ms, served.ttft_ms, TTFT_WEIGHT, log.seen),
        (times.tpot_ms, served.tpot_ms, 1.0, log.seen & several & (times.tpot_ms > 0)),
        (times.e2e_ms, served.e2e_ms, 1.0, log.seen),
    ):
        count = np.bincount(cells[of], minlength=TIME_CELLS * LENGTH_CELLS)
        summed = np.bincount(cells[of], np.log(simulated[of] / measured[of]), minlength=len(count))
        full = count >= FEWEST_IN_CELL
        ratios.append(weight * summed[full] / count[full])
    return np.concatenate(ratios)


def cells_of(times: RequestTimes) -> NDArray[np.int64]:
    """The cell of every request: which part of the run, and which third of the prompt lengths."""
    block = np.arange(len(times)) * TIME_CELLS // len(times)
    edges = np.quantile(times.prompt_tokens, [1 / 3, 2 / 3])
    length = np.searchsorted(edges, times.prompt_tokens, side="right")
    cells: NDArray[np.int64] = block * LENGTH_CELLS + length
    return cells
