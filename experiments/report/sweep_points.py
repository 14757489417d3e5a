"""The points of a sweep's page: what each says of itself, and the table of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from experiments.percent import percentage
from experiments.plots.style import field_label, value_label
from experiments.plots.sweep_table import SweepTable

from .page import Facts, Section, Table, facts_of, said

METRICS = {
    "request_goodput": ("good requests/s", 2),
    "goodput_fraction": ("within the SLO %", 1),
    "ttft_ms_p50": ("TTFT p50 ms", 1),
    "ttft_ms_p99": ("TTFT p99 ms", 1),
    "tpot_ms_p50": ("TPOT p50 ms", 1),
    "tpot_ms_p99": ("TPOT p99 ms", 1),
    "itl_ms_p99": ("ITL p99 ms", 1),
    "e2el_ms_p99": ("E2E p99 ms", 1),
    "output_throughput": ("output tokens/s", 1),
    "kv_util_peak": ("KV cache, peak %", 1),
    "preemptions_total": ("preemptions", 0),
    "extrapolated_share": ("time priced beyond the measured range %", 1),
}
"""Column -> what it is called, and decimals where a point is described."""

_IN_TABLE = (
    *("request_goodput", "goodput_fraction", "ttft_ms_p50", "ttft_ms_p99"),
    *("tpot_ms_p99", "itl_ms_p99", "output_throughput"),
)
SHARES = ("goodput_fraction", "kv_util_peak", "extrapolated_share")
_BEYOND = "extrapolated_share"


def point_facts(table: SweepTable, row: Mapping[Any, Any], saved: Mapping[str, Any]) -> Facts:
    """A point's full configuration, then its numbers. Any: cells, and YAML values.

    Of several seeds a number is the mean, with its confidence interval.
    """
    facts = [(field, said(row[field])) for field in table.grid]
    if not is_missing(row.get("effective_chunk_size")):
        facts.append(("effective chunk size", f"{int(row['effective_chunk_size']):,}"))
    facts += facts_of({k: v for k, v in saved["base"].items() if k not in table.grid})
    if row["status"] != "ok":
        return [*facts, (str(row["status"]), str(row["reason"]))]
    for column, (name, digits) in METRICS.items():
        value, low = row.get(column), row.get(f"{column}_ci_low")
        if is_missing(value):
            continue
        text = f"{_cell(column, value):,.{digits}f}"
        if not is_missing(low):
            ends = [_cell(column, end) for end in (low, row[f"{column}_ci_high"])]
            text += f" ({ends[0]:,.{digits}f} to {ends[1]:,.{digits}f})"
        facts.append((name, text))
    return [*facts, ("saturated", "yes" if row["saturated"] else "no")]


def points_section(table: SweepTable) -> Section:
    """Every point as a row that is linked to its marks."""
    rows = []
    shown = (*_IN_TABLE, *([_BEYOND] if len(extrapolated(table.measured)) else []))
    for row in table.frame.to_dict("records"):
        settings = [_setting(row[field]) for field in table.swept]
        found = [cell for c in shown for cell in _cells(row, c, several=table.seeds > 1)]
        note = str(row["status"]) if row["status"] != "ok" else "saturated" * bool(row["saturated"])
        rows.append([int(row["index"]), *settings, *found, note])
    heading = [
        "point",
        *map(plain_name, table.swept),
        *(
            name
            for column in shown
            for name in (METRICS[column][0], *(["±"] if table.seeds > 1 else []))
        ),
        "note",
    ]
    numbers = [int(index) for index in table.frame["index"]]
    return Section(
        "All points",
        ["Click a heading to sort. Pointing at a row marks its points above."],
        tables=[Table(heading, rows, numbers=numbers)],
    )


def with_interval(row: Mapping[Any, Any], column: str, digits: int) -> str:
    """A number, with half of its confidence interval where it has one. Any: cells.

    >>> with_interval({"x": 10.0, "x_ci_low": 8.0, "x_ci_high": 12.0}, "x", 0)
    '10 ± 2'
    """
    text, half = f"{row[column]:,.{digits}f}", _half(row, column)
    return text if half is None else f"{text} ± {half:,.{digits}f}"


def _half(row: Mapping[Any, Any], column: str) -> float | None:  # Any: cells
    low = row.get(f"{column}_ci_low")
    return None if is_missing(low) else float(row[f"{column}_ci_high"] - low) / 2


def _cells(row: Mapping[Any, Any], column: str, *, several: bool) -> list[float | None]:
    """A metric, and half of its interval if the points were run with several seeds. Any: cells."""
    value, half = row[column], _half(row, column)
    cells = [None if is_missing(value) else _cell(column, value)]
    if several:
        cells.append(None if half is None else 100 * half if column in SHARES else half)
    return cells


def _cell(column: str, value: Any) -> float:  # Any: a cell that holds a number
    """Shares in percent, and all only of all."""
    return percentage(float(value), 1) if column in SHARES else float(value)


def extrapolated(points: pd.DataFrame) -> pd.DataFrame:
    """The points with time priced beyond the measured range; none in a sweep that did not say."""
    if "extrapolated_share" not in points:
        return points.iloc[:0]
    return points[points["extrapolated_share"].fillna(0) > 0]


def _setting(value: Any) -> str | int | float:  # Any: a swept value
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value_label(value)
    number: int | float = value.item() if hasattr(value, "item") else value
    return number


def plain_name(field: str) -> str:
    """A field's name without its unit."""
    return field_label(field).partition(" (")[0]


def is_missing(value: Any) -> bool:  # Any: a cell
    """True for None and pandas' missing values."""
    return value is None or bool(pd.isna(value))
