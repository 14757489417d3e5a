"""The folder of a comparison: what was found, and the numbers that its figures need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.parquet import write_table
from experiments.results import COMPARE_FILES, write_json
from experiments.saved_files import COMPARE, saved_json, saved_table
from simulator.errors import ConfigError

from .comparison import Comparison
from .log import LATENCIES, Floats, Log

if TYPE_CHECKING:
    import pandas as pd

IN_COMPARISON = (
    *("verdict", "reference.name", "other.name", "differences", "matched"),
    *("request_errors", "distributions_apart", "notes"),
)
"""What compare.json holds."""

IN_DISTRIBUTIONS = ("metric", "share", "reference", "other")
POINTS = 2001
"""Quantiles kept of each distribution: every 0.05 %."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedComparison:
    """A comparison as its folder holds it.

    found: compare.json. distributions: columns metric, share, reference, other: quantiles.
    requests: columns reference_<metric> and other_<metric> of matched requests, or None.
    """

    found: dict[str, Any]  # Any: JSON values
    distributions: pd.DataFrame
    requests: pd.DataFrame | None

    @property
    def names(self) -> tuple[str, str]:
        """Of the reference and of the other."""
        return str(self.found["reference"]["name"]), str(self.found["other"]["name"])


def write_comparison(found: Comparison, folder: Path) -> None:
    """compare.json, the distributions of both, and their matched requests if there are any."""
    write_json(folder / "compare.json", found.described())
    parts = [
        (metric, share, one, two)
        for metric in LATENCIES
        for share, one, two in zip(*_quantiles(found, metric), strict=True)
    ]
    write_table(
        folder / "distributions.parquet",
        {
            "metric": np.array([part[0] for part in parts], object),
            "share": np.array([part[1] for part in parts], np.float64),
            "reference": np.array([part[2] for part in parts], np.float64),
            "other": np.array([part[3] for part in parts], np.float64),
        },
    )
    if found.matching is not None:
        columns: dict[str, Any] = {"reference_row": found.matching.first.astype(np.int64)}
        columns["other_row"] = found.matching.second.astype(np.int64)
        for side, log, rows in (
            ("reference", found.reference, found.matching.first),
            ("other", found.other, found.matching.second),
        ):
            for name, values in log.requests.items():
                held = values[rows]
                columns[f"{side}_{name}"] = np.ma.masked_array(
                    np.nan_to_num(held), mask=np.isnan(held)
                )
        write_table(folder / "compared-requests.parquet", columns)


def load_comparison(folder: Path) -> SavedComparison:
    """Read a comparison's folder.

    Raises:
        ConfigError: the folder holds none, or a file of it is damaged.
    """
    if not all((folder / name).is_file() for name in (COMPARE_FILES[0], COMPARE_FILES[2])):
        raise ConfigError(
            f"{folder}: no compare.json with distributions.parquet here, so this is not a "
            "comparison: run `runway compare ... --out` with this folder first"
        )
    pairs = folder / COMPARE_FILES[1]
    return SavedComparison(
        saved_json(folder / COMPARE_FILES[0], needed=IN_COMPARISON, remedy=COMPARE),
        saved_table(folder / COMPARE_FILES[2], needed=IN_DISTRIBUTIONS, remedy=COMPARE),
        saved_table(pairs, remedy=COMPARE) if pairs.is_file() else None,
    )


def _quantiles(found: Comparison, metric: str) -> tuple[Floats, Floats, Floats]:
    """Shares and the values of both there; nothing unless both have samples."""
    one, two = (_samples(log, metric) for log in (found.reference, found.other))
    if one is None or two is None:
        return (np.zeros(0),) * 3
    most = max(len(one[0]), len(two[0]))
    share = np.linspace(0.0, 1.0, min(POINTS, most + 1))
    return share, _at(one, share), _at(two, share)


def _samples(log: Log, metric: str) -> tuple[Floats, Floats] | None:
    """Distinct or sorted values with how many there are of each."""
    if metric == "itl_ms":
        return None if log.gaps is None else (log.gaps.gap_ms, log.gaps.count)
    values = log.samples(metric)
    return (values, np.ones(len(values))) if len(values) else None


def _at(samples: tuple[Floats, Floats], share: Floats) -> Floats:
    """The smallest value that this share of all does not exceed."""
    values, count = samples
    upto = np.cumsum(count)
    place = np.searchsorted(upto, share * upto[-1] - 1e-9, side="left")
    return np.asarray(values[np.minimum(place, len(values) - 1)], np.float64)
