"""The page of a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.compare.comparison import NAMES, UNITS
from experiments.compare.files import SavedComparison, load_comparison
from experiments.compare.verdict import signed

from .accuracy import accuracy_section
from .chart import Chart, across, upward
from .curves import cdf_chart, spread
from .page import Facts, Page, Section, Table
from .scale import Axis, fitted

MOST_POINTS = 600
_SCATTERED = ("ttft_ms", "tpot_ms", "e2el_ms")
_TOLD = ("prompt_tokens", "output_tokens", "arrival_s", "ttft_ms", "tpot_ms", "e2el_ms")


def compare_page(folder: Path) -> Page:
    """The page of a folder that `runway compare --out` wrote."""
    saved = load_comparison(folder)
    found = saved.found
    one, two = saved.names
    pairs = _pairs(saved)
    return Page(
        title=f"comparison {folder.resolve().name}",
        question=f"How does {two} differ from {one}?",
        answer=[found["verdict"]],
        tiles=list(_tiles(found)),
        warnings=found["notes"],
        sections=[
            Section("How the two are distributed", charts=list(_cdfs(saved))),
            Section("Quantile against quantile", charts=list(_qqs(saved))),
            *_scatters(saved, pairs),
            Section("Number by number", tables=[_differences(found, one, two)]),
            *_errors(found),
            *_accuracy(found),
            Section("What was compared", facts=_sides(found)),
        ],
        rows=[(f"request {index}", _facts(row)) for index, row in pairs.iterrows()],
    )


def _tiles(found: dict[str, Any]) -> Iterator[tuple[str, str]]:  # Any: JSON values
    known = {(each["metric"], each["statistic"]): each["relative"] for each in found["differences"]}
    for metric, statistic in (
        ("ttft_ms", "p99"),
        ("tpot_ms", "p99"),
        ("e2el_ms", "mean"),
        ("output_throughput", ""),
    ):
        if known.get((metric, statistic)) is not None:
            yield signed(known[metric, statistic]), f"{NAMES[metric]} {statistic}".rstrip()
    if found["matched"]:
        yield f"{found['matched']['pairs']:,}", f"requests matched {found['matched']['how']}"


def _cdfs(saved: SavedComparison) -> Iterator[Chart]:
    one, two = saved.names
    for metric, part in saved.distributions.groupby("metric", sort=False):
        share = part["share"].to_numpy(np.float64)
        curves = {
            name: (part[side].to_numpy(np.float64), share)
            for side, name in (("reference", one), ("other", two))
        }
        yield cdf_chart(NAMES[str(metric)], curves, of="gaps" if metric == "itl_ms" else "requests")


def _qqs(saved: SavedComparison) -> Iterator[Chart]:
    one, two = saved.names
    for metric, part in saved.distributions.groupby("metric", sort=False):
        sides = [part[side].to_numpy(np.float64) for side in ("reference", "other")]
        chart = _square(NAMES[str(metric)], one, two, np.concatenate(sides))
        known = [_inside(chart, x, y) for x, y in zip(*sides, strict=True)]
        chart.line(known, "c0")
        for share in (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99):
            at = int(np.argmin(np.abs(part["share"].to_numpy(np.float64) - share)))
            tip = f"p{100 * share:g}\n{one}: {sides[0][at]:,.1f} ms\n{two}: {sides[1][at]:,.1f} ms"
            chart.dot(known[at], "c1", tip=tip, radius=4.5)
        yield chart


def _square(title: str, one: str, two: str, values: np.ndarray[Any, Any]) -> Chart:
    """Both axes alike, with the line of equals. Any: of a float column."""
    positive = values[values > 0]
    shown = positive if len(positive) else values
    x = fitted(f"{_short(one)} (ms)", shown.tolist(), *across())
    y = Axis(f"{_short(two)} (ms)", x.low, x.high, *upward(), is_log=x.is_log)
    chart = Chart(title, x, y)
    chart.line([(x.low, y.low), (x.high, y.high)], "muted", dashed=True)
    return chart


def _pairs(saved: SavedComparison) -> pd.DataFrame:
    """Matched requests to draw, thinned out evenly; numbered from 0."""
    if saved.requests is None:
        return pd.DataFrame()
    keep = spread(range(len(saved.requests)), MOST_POINTS)
    return saved.requests.iloc[keep].reset_index(drop=True)


def _scatters(saved: SavedComparison, pairs: pd.DataFrame) -> Iterator[Section]:
    one, two = saved.names
    charts = []
    for metric in _SCATTERED:
        columns = [f"{side}_{metric}" for side in ("reference", "other")]
        if not all(column in pairs for column in columns):
            continue
        known = pairs.dropna(subset=columns)
        if known.empty:
            continue
        chart = _square(NAMES[metric], one, two, known[columns].to_numpy(np.float64).ravel())
        for row, x, y in zip(known.index, known[columns[0]], known[columns[1]], strict=True):
            chart.dot(_inside(chart, x, y), "c0", row=int(row), radius=3.5)
        charts.append(chart)
    if charts:
        words = [
            "A point is a request in both. On the line it took as long in one as in the other."
        ]
        yield Section("Request by request", words, charts=charts)


def _inside(chart: Chart, x: float, y: float) -> tuple[float, float]:
    """A point of 0 ms at the edge of an axis without a 0."""
    return max(float(x), chart.x.low), max(float(y), chart.y.low)


def _differences(found: dict[str, Any], one: str, two: str) -> Table:  # Any: JSON values
    rows = [
        [
            f"{NAMES[each['metric']]} {each['statistic']}".rstrip(),
            UNITS[each["metric"]],
            each["reference"],
            each["other"],
            None if each["relative"] is None else 100 * each["relative"],
        ]
        for each in found["differences"]
    ]
    return Table(("number", "unit", one, two, "difference %"), rows)


def _errors(found: dict[str, Any]) -> Iterator[Section]:  # Any: JSON values
    if not found["request_errors"]:
        return
    rows = [
        [
            NAMES[each["metric"]],
            each["pairs"],
            *(100 * each[name] for name in ("median", "median_absolute", "p90_absolute", "longer")),
        ]
        for each in found["request_errors"]
    ]
    heading = ("metric", "requests", "median %", "median absolute %", "p90 absolute %", "longer %")
    words = [f"{found['matched']['pairs']:,} requests matched {found['matched']['how']}."]
    yield Section("Relative errors of single requests", words, tables=[Table(heading, rows)])


def _accuracy(found: dict[str, Any]) -> Iterator[Section]:  # Any: JSON values
    """The stamp of each cost table, once."""
    seen = []
    for side in ("reference", "other"):
        prices = found[side]["cost_model"]
        if prices and prices not in seen:
            seen.append(prices)
            yield accuracy_section(prices)


def _sides(found: dict[str, Any]) -> Facts:  # Any: JSON values
    facts = []
    for side in ("reference", "other"):
        held = found[side]
        counted = f", {held['requests']:,} requests" if held["requests"] else ""
        measured = "measured" if held["measured"] else "simulated"
        facts.append((side, f"{held['name']}: {held['kind']}, {measured}{counted}"))
    return facts


def _facts(row: pd.Series[Any]) -> Facts:  # Any: a row of numbers
    facts = []
    for name in _TOLD:
        values = [row.get(f"{side}_{name}") for side in ("reference", "other")]
        known = ["-" if value is None or pd.isna(value) else f"{value:,.1f}" for value in values]
        if known != ["-", "-"]:
            facts.append((name, " | ".join(known)))
    return facts


def _short(name: str) -> str:
    return name if len(name) < 34 else f"{name[:32]}…"
