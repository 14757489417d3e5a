"""Several seeds of one point as one record: means, and how far they may be off.

Statistics of a run (a p99, a rate) are averaged over the seeds; percentiles are never taken of
pooled requests, which would hide how much runs differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

from .rows import AVERAGED, Row
from .store import Record

CONFIDENCE = 0.95


def combined(records: Sequence[Record], seeds: Sequence[int | None]) -> Record:
    """One record for a point; with one run, that run's own.

    A run that could not be run or failed decides the point's status and reason.
    """
    if len(records) == 1:
        return records[0]
    for status in ("invalid", "failed"):
        for record, seed in zip(records, seeds, strict=True):
            if record["status"] == status:
                return {**record, "reason": f"seed {seed}: {record['reason']}"}
    different = {record["requests_digest"]: record for record in records}
    rows = [record["metrics"] for record in different.values()]
    return {
        **records[0],
        "metrics": {**_mean_row(rows), "replicates": len(rows)},
        "simulated_s": sum(record["simulated_s"] for record in records),
    }


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean of independent runs, and the ends of its 95 % confidence interval.

    Student's t: mean +- t(0.975, n - 1) s / sqrt(n), s the sample deviation. Source: Law,
    Simulation Modeling and Analysis (5th ed.), section 4.5.

    >>> [round(end, 3) for end in mean_interval([9.0, 10.0, 11.0])]
    [10.0, 7.516, 12.484]
    """
    from scipy.special import stdtrit

    sample = np.asarray(values, dtype=np.float64)
    runs, mean = len(sample), float(sample.mean())
    half = float(stdtrit(runs - 1, (1 + CONFIDENCE) / 2) * sample.std(ddof=1) / sqrt(runs))
    return mean, mean - half, mean + half


def _mean_row(rows: Sequence[Mapping[str, Any]]) -> Row:  # Any: JSON numbers
    row: Row = {"effective_chunk_size": rows[0]["effective_chunk_size"]}
    row["saturated"] = any(each["saturated"] for each in rows)
    for name in AVERAGED:
        values = [each[name] for each in rows if each.get(name) is not None]
        row[name] = row[f"{name}_ci_low"] = row[f"{name}_ci_high"] = None
        if len(values) < len(rows):
            continue
        if len(values) == 1:
            row[name] = values[0]
        else:
            row[name], row[f"{name}_ci_low"], row[f"{name}_ci_high"] = mean_interval(values)
    return row
