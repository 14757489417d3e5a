"""What a notebook shows of a finished sweep: its best points, as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from .ranking import best_first
from .rows import metric_names

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 10
_METRICS = (
    *("request_goodput", "goodput_fraction", "ttft_ms_p50", "ttft_ms_p99"),
    *("tpot_ms_p99", "itl_ms_p99", "output_throughput"),
)


def outcome_html(rows: pd.DataFrame) -> str:
    """The best points by goodput, then TTFT p99, with the settings that were varied.

    rows: `sweep.parquet`.
    """
    ran = rows[rows["status"] == "ok"]
    best = best_first(ran).head(MOST_ROWS)
    metrics = {*metric_names(), "index", "status", "reason", "replicates"}
    metrics |= {str(name) for name in rows if str(name).endswith(("_ci_low", "_ci_high"))}
    swept = [str(name) for name in rows if name not in metrics]
    shown = best[["index", *swept, *_METRICS]].rename(columns={"index": "point"})
    caption = f"{len(ran):,} of {len(rows):,} points ran; the best {len(best)} by goodput"
    table = shown.to_html(index=False, border=0, na_rep="-", float_format="{:,.2f}".format)
    return f"<div><b>{escape(caption)}</b>{table}</div>"
