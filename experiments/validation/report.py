"""What a validation found: one row a number, and the samples its figures show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Row:
    """One error. run: which recording; quantity with its unit (`ttft_ms`, `step_ms (decode)`).

    statistic: `mean`, `p50`, `p90`, `p99`, `mape` ...; measured and predicted: its value in the
    quantity's unit, None where the statistic compares pairs. error: signed, relative to what was
    measured; for `mape` and other errors over pairs the error itself, as a fraction. n: the pairs
    or samples behind it. fitted_on: what measured time the prices saw. peer: the error a published
    simulator reports for the same number.
    """

    run: str
    quantity: str
    statistic: str
    measured: float | None
    predicted: float | None
    error: float
    n: int
    fitted_on: str
    peer: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if not math.isfinite(self.error):
            raise ConfigError(
                f"{self.run}: the error of {self.quantity} {self.statistic} is {self.error}, not "
                "a number: look at the run's files"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Pairs for the figures, both shape (n,), in the quantity's unit. load: requests per second."""

    run: str
    quantity: str
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]
    load: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DatasetReport:
    """All that was compared. source: where the measurements come from, in words."""

    dataset: str
    source: str
    rows: tuple[Row, ...]
    samples: tuple[Samples, ...] = ()
    notes: tuple[str, ...] = ()

    def described(self) -> dict[str, Any]:  # Any: JSON values
        """As report.json holds it; samples stay out."""
        rows = [asdict(row) for row in self.rows]
        head = {"dataset": self.dataset, "source": self.source}
        return {**head, "rows": rows, "notes": list(self.notes)}


def mean_absolute_error(measured: ArrayLike, predicted: ArrayLike) -> float:
    """Mean over pairs of |predicted - measured| / measured (MAPE as a fraction).

    >>> mean_absolute_error([10.0, 20.0], [11.0, 18.0])
    0.1
    """
    real, ours = np.asarray(measured, np.float64), np.asarray(predicted, np.float64)
    return float(np.mean(np.abs(ours - real) / real))


def compared(
    samples: Samples,
    statistics: Sequence[str] = ("mean", "p50", "p90", "p99", "mape"),
    *,
    fitted_on: str,
    note: str = "",
) -> list[Row]:
    """One row a statistic of paired samples; percentiles by linear interpolation.

    statistics: `mean`, `mape` or `pN`.

    >>> pairs = Samples("a", "ttft_ms", np.array([10.0, 30.0]), np.array([11.0, 31.0]))
    >>> [(row.statistic, row.error) for row in compared(pairs, ("mean",), fitted_on="nothing")]
    [('mean', 0.05)]
    """
    rows = []
    for statistic in statistics:
        real = _statistic(samples.measured, statistic)
        ours = _statistic(samples.predicted, statistic)
        if real is None or ours is None:
            error = mean_absolute_error(samples.measured, samples.predicted)
        else:
            error = (ours - real) / real
        rows.append(
            Row(
                *(samples.run, samples.quantity, statistic, real, ours, error),
                *(len(samples.measured), fitted_on),
                note=note,
            )
        )
    return rows


def _statistic(values: NDArray[np.float64], statistic: str) -> float | None:
    if statistic == "mape":
        return None
    if statistic == "mean":
        return float(values.mean())
    return float(np.percentile(values, float(statistic.removeprefix("p"))))
