"""Words and tables for findings; every number comes from the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .study import ENOUGH, Outcome

Columns = Mapping[str, tuple[str, str]]
"""Heading -> (quantity, class)."""


def table(outcome: Outcome, columns: Columns, *, capacity: bool = True) -> list[str]:
    """A Markdown table of all candidates, the best first; means over seeds."""
    study = outcome.study
    headings = ["", *([f"load with {100 * ENOUGH:.0f} % good"] if capacity else []), *columns]
    rows = []
    for candidate in outcome.ranked() if capacity else study.candidates:
        cells = [reach(outcome, candidate)] if capacity else []
        for quantity, group in columns.values():
            cells.append(number(quantity, outcome.mean(candidate, quantity, group)))
        rows.append([candidate, *cells])
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return [f"| {' | '.join(row)} |" for row in (headings, rule, *rows)]


def reach(outcome: Outcome, candidate: str) -> str:
    """The load that a candidate serves, or that it lies outside the loads tried."""
    loads = outcome.study.loads
    value = outcome.capacity(candidate)
    if value == loads[-1]:
        return f"over {loads[-1]:g}"
    if value == loads[0] and outcome.good(candidate, loads[0]) < ENOUGH:
        return f"under {loads[0]:g}"
    return f"{value:.2g}" if value < 10 else f"{value:.1f}"


def number(quantity: str, value: float) -> str:
    """A share as a percentage, a time with as many digits as matter."""
    if quantity in ("good", "cached"):
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def spread(values: Sequence[float], quantity: str) -> str:
    """The range over seeds."""
    low, high = number(quantity, min(values)), number(quantity, max(values))
    return low if low == high else f"{low} to {high}"


def times(value: float, other: float) -> str:
    """How much larger or smaller: in per cent, or as a factor if it is far.

    >>> times(120, 100), times(300, 100), times(80, 100)
    ('20 % more than', '3.0 times as much as', '20 % less than')
    """
    ratio = value / other
    if ratio >= 2:
        return f"{ratio:.1f} times as much as"
    return f"{abs(ratio - 1):.0%} {'more' if ratio >= 1 else 'less'} than".replace("%", " %")
