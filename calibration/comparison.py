"""Statistics of what was measured and what was predicted, and how far apart they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.plan import StepShape
from simulator.result import Result
from simulator.timings import e2el_ns, tpot_ms, ttft_ns
from simulator.units import NS_PER_MS

Floats = NDArray[np.float64]

REQUEST_QUANTITIES = ("ttft_ms", "tpot_ms", "e2el_ms")
STATISTICS: dict[str, Callable[[Floats], float]] = {
    "mean": lambda values: float(values.mean()),
    "p50": lambda values: float(np.percentile(values, 50)),
    "p99": lambda values: float(np.percentile(values, 99)),
}

Summary = dict[str, dict[str, float | None]]
"""Quantity -> statistic -> value; None where there is no sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """One served run beside its prediction.

    requests: quantity -> (measured, predicted), milliseconds, shape (finished requests,) each,
    without requests of one token for TPOT. steps: the same of every step that was served, priced
    as it was. kinds: of these steps, `decode`, `prompt` or `mixed`.
    """

    requests: dict[str, tuple[Floats, Floats]]
    steps: tuple[Floats, Floats]
    kinds: tuple[str, ...]

    @property
    def pairs(self) -> dict[str, tuple[Floats, Floats]]:
        """Quantity -> (measured, predicted), steps too."""
        return {**self.requests, "step_ms": self.steps}


def times_ms(result: Result, rows: NDArray[np.int64]) -> dict[str, Floats]:
    """TTFT, TPOT and E2E of these finished requests, milliseconds."""
    several = rows[result.requests.emitted_tokens[rows] > 1]
    return {
        "ttft_ms": ttft_ns(result, rows) / NS_PER_MS,
        "tpot_ms": tpot_ms(result, several),
        "e2el_ms": e2el_ns(result, rows) / NS_PER_MS,
    }


def kind_of(shape: StepShape) -> str:
    """`decode`, `prompt` or `mixed`."""
    if not shape.chunks:
        return "decode"
    return "mixed" if shape.decode_seqs else "prompt"


def errors_of(comparisons: Sequence[Comparison]) -> Summary:
    """Signed relative error of every statistic, and the mean absolute relative error, `mape`.

    Against several runs, the statistic that was measured is their mean; so is the value of a
    request. Steps differ between runs, so those of all runs are pooled.

    >>> one = Comparison({"ttft_ms": (np.array([10.0, 20.0]), np.array([11.0, 16.0]))},
    ...     (np.array([4.0]), np.array([5.0])), ("decode",))
    >>> {name: round(error, 3) for name, error in errors_of([one])["ttft_ms"].items()}
    {'mean': -0.1, 'p50': -0.1, 'p99': -0.198, 'mape': 0.15}
    """
    errors: Summary = {}
    for name in comparisons[0].pairs:
        measured, predicted = statistics_of(comparisons, name)
        errors[name] = {
            statistic: _relative(predicted[statistic], measured[statistic])
            for statistic in STATISTICS
        }
        errors[name]["mape"] = _mape(comparisons, name)
    return errors


def statistics_of(
    comparisons: Sequence[Comparison], name: str
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """(measured, predicted) statistics of a quantity, each the mean over the runs."""
    pairs = [comparison.pairs[name] for comparison in comparisons]
    if not len(pairs[0][0]):
        return dict.fromkeys(STATISTICS), dict.fromkeys(STATISTICS)
    measured, predicted = (
        {
            statistic: float(np.mean([of(pair[side]) for pair in pairs]))
            for statistic, of in STATISTICS.items()
        }
        for side in (0, 1)
    )
    return dict(measured), dict(predicted)


def spread_of(comparisons: Sequence[Comparison]) -> Summary | None:
    """(largest - smallest) / mean of every measured statistic over the runs; None for one run."""
    if len(comparisons) < 2:
        return None
    spread: Summary = {}
    for name in comparisons[0].pairs:
        runs = [comparison.pairs[name][0] for comparison in comparisons]
        spread[name] = {
            statistic: float(np.ptp([of(run) for run in runs]) / np.mean([of(run) for run in runs]))
            if len(runs[0])
            else None
            for statistic, of in STATISTICS.items()
        }
    return spread


def errors_by_kind(comparisons: Sequence[Comparison]) -> dict[str, dict[str, float | int]]:
    """Kind of step -> how many were served, error of their mean duration, and `mape`."""
    kinds = np.array([kind for each in comparisons for kind in each.kinds])
    measured, predicted = (np.concatenate([c.steps[side] for c in comparisons]) for side in (0, 1))
    found: dict[str, dict[str, float | int]] = {}
    for kind in sorted({*kinds.tolist()}):
        here = kinds == kind
        found[kind] = {
            "n": int(here.sum()),
            "measured_mean_ms": float(measured[here].mean()),
            "mean": float(predicted[here].mean() / measured[here].mean() - 1),
            "mape": float(np.abs(predicted[here] / measured[here] - 1).mean()),
        }
    return found


def _mape(comparisons: Sequence[Comparison], name: str) -> float | None:
    pairs = [comparison.pairs[name] for comparison in comparisons]
    if not len(pairs[0][0]):
        return None
    if name == "step_ms":
        measured, predicted = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    else:
        measured, predicted = np.mean([pair[0] for pair in pairs], axis=0), pairs[0][1]
    return float(np.abs(predicted / measured - 1).mean())


def _relative(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or measured is None else predicted / measured - 1


def numbers_of(comparisons: Sequence[Comparison]) -> Mapping[str, Mapping[str, object]]:
    """Quantity -> measured and predicted statistics and the number of samples."""
    told: dict[str, dict[str, object]] = {}
    for name in comparisons[0].pairs:
        measured, predicted = statistics_of(comparisons, name)
        samples = [len(comparison.pairs[name][0]) for comparison in comparisons]
        told[name] = {"measured": measured, "predicted": predicted, "n": samples}
    return told
