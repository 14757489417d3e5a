"""Which steps of a run lie beyond the range that the prices were fitted to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from costmodels.table import Value
from simulator.result import Steps
from simulator.units import ns_to_ms

COLUMNS = {
    "prefill_tokens": "prefill_tokens",
    "decode_seqs": "decode_seqs",
    "decode_context_tokens": "context_tokens",
}
"""Quantity of a table's `fitted_range` -> column of `Result.steps`. The others, token pairs and
longest context, are not kept step by step."""


def beyond_fit(fitted_range: Mapping[str, Value], steps: Steps) -> dict[str, object]:
    """As `OperatorsCostModel.extrapolation_report`: how many steps, which share of time, how far.

    A step counts if any quantity of `COLUMNS` is beyond its range; a fit is extrapolated linearly.
    """
    outside = np.zeros(len(steps), dtype=np.bool_)
    farthest: dict[str, object] = {}
    for quantity, column in COLUMNS.items():
        bounds = fitted_range.get(quantity)
        if not isinstance(bounds, list) or len(bounds) != 2 or not len(steps):
            continue
        values = getattr(steps, column)
        highest = float(str(bounds[1]))
        beyond = values > highest
        outside |= beyond
        if beyond.any():
            farthest[quantity] = {"asked": int(values.max()), "measured": bounds}
    time_ms, outside_ms = (
        ns_to_ms(int(steps.duration_ns[chosen].sum())) for chosen in (slice(None), outside)
    )
    return {
        "extrapolation": "linear",
        "outside_steps": int(outside.sum()),
        "outside_ms": outside_ms,
        "share_of_steps": float(outside.mean()) if len(steps) else None,
        "share_of_time": outside_ms / time_ms if time_ms else None,
        "farthest": farthest,
    }
