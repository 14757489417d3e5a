"""Confidence intervals of means over seeds, as they are drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

SHARES = ("goodput_fraction",)


def interval_ends(points: pd.DataFrame, column: str) -> tuple[Numbers, Numbers] | None:
    """Both ends of every point's interval of a metric; None for one that has none.

    Within what the metric can be: no time below zero, no share above one.
    """
    if f"{column}_ci_low" not in points:
        return None
    most = 1.0 if column in SHARES else np.inf
    ends = points[[f"{column}_ci_low", f"{column}_ci_high"]].to_numpy(np.float64).clip(0.0, most)
    return ends[:, 0], ends[:, 1]
