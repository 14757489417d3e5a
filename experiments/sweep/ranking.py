"""Which of a sweep's points is better, as far as its table shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

PRINTED = {"request_goodput": 2, "ttft_ms_p99": 1, "tpot_ms_p99": 1}
"""What ranks points, in this order -> the decimals that count, as many as are printed."""


def best_first(points: pd.DataFrame, column: str = "request_goodput") -> pd.DataFrame:
    """The points by one of `PRINTED`, best first; of equals as printed the others decide.

    Goodput is better if more, latencies if less. What agrees in all stays in the points' order.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"index": [0, 1], "request_goodput": [2.0041, 2.0039],
    ...                      "ttft_ms_p99": [90.0, 80.0], "tpot_ms_p99": [9.0, 9.0]})
    >>> best_first(rows)["index"].tolist()
    [1, 0]
    """
    by = [column, *(name for name in PRINTED if name != column)]
    keys = points[["index"]].copy()
    for name in by:
        digits = PRINTED[name]
        # round() as a printed number is rounded; a column's own round() differs on ties
        values = [round(value, digits) for value in points[name].astype("float64")]
        keys[name] = values
    rising = [name != "request_goodput" for name in by]
    order = keys.sort_values([*by, "index"], ascending=[*rising, True]).index
    return points.loc[order]
