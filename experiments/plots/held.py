"""What a figure shows of the swept fields that it has no room for, and how it says so.

Of what is asked of the engine (rate, users, lengths ...) the middle value; of the engine's own
settings the best, in the order of the table that `runway sweep` prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from experiments.sweep.point import WORKLOAD_SETTINGS
from experiments.sweep.ranking import PRINTED, best_first

from .style import level_label, sentences
from .sweep_table import Level, SweepTable, panel_title

_POLICIES = ("variant", "scheduler")


class Lines(NamedTuple):
    """What a figure over a load shows.

    field: has a line per value; None is a single line. points: of all lines, one a value of the
    load. words: which value of every other field they have; empty if there is no other.
    """

    field: str | None
    points: pd.DataFrame
    words: str


def lines_over(table: SweepTable, load: str, leave: Sequence[str] = ()) -> Lines:
    """A line per scheduler (or variant), or else per value of the most prominent setting.

    Each has its own best other settings, as it would be run: the same ones at every load.
    leave: fields whose values were drawn at random, too many to hold.
    """
    others = beside(table, load)
    name = others[0] if others else None
    held = [field for field in others[1:] if field not in leave]
    middle = _middle(table, held)
    points = table.where(middle, table.measured)
    settings = [field for field in held if field not in middle]
    if name is None or name in leave or not settings:
        return Lines(name, points, held_in_words(middle))
    loads = len(table.measured_levels(load))
    parts = []
    told = []
    for level in table.measured_levels(name):
        rows = table.where({name: level}, points)
        if len(rows):
            parts.append(_best(rows, settings, loads))
            told.append(_line_in_words(table, parts[-1], name, settings))
    each = f"Each line has its best settings (most goodput on average): {'; '.join(told)}."
    words = sentences(each, held_in_words(middle))
    return Lines(name, pd.concat(parts) if parts else points, words)


def beside(table: SweepTable, field: str) -> list[str]:
    """The other swept fields: the first has a line per value in a figure over this one.

    Over a load schedulers come first and other loads last. Over a setting the second has a panel
    per value, and schedulers are among the two: none of them is left out.
    """
    others = [name for name in table.swept if name != field]
    if field in WORKLOAD_SETTINGS:
        return sorted(others, key=lambda name: (name not in _POLICIES, name in WORKLOAD_SETTINGS))
    return others[:1] + sorted(others[1:], key=lambda name: name not in _POLICIES)


def held_values(table: SweepTable, fields: Sequence[str]) -> dict[str, Level]:
    """One value of each of these fields; of one no point ran with, none."""
    fields = [field for field in fields if table.measured_levels(field)]
    middle = _middle(table, fields)
    rows = table.where(middle, table.measured)
    best = best_first(rows if len(rows) else table.measured).iloc[0].to_dict() if fields else {}
    return {field: middle.get(field, best.get(field)) for field in fields}


def held_in_words(held: Mapping[str, Level]) -> str:
    """Which value a figure shows of fields it has no room for; empty if nothing is held.

    >>> held_in_words({"rate": 4.0, "max_num_seqs": 64})
    'Held fixed: rate 4 requests/s (in the middle); max seqs 64 (of the best point).'
    """
    middle = {field: level for field, level in held.items() if field in WORKLOAD_SETTINGS}
    best = {field: level for field, level in held.items() if field not in middle}
    told = [
        f"{panel_title(part)} ({why})"
        for part, why in ((middle, "in the middle"), (best, "of the best point"))
        if part
    ]
    return f"Held fixed: {'; '.join(told)}." if told else ""


def _middle(table: SweepTable, fields: Sequence[str]) -> dict[str, Level]:
    """Of those fields that belong to the workload."""
    levels = {field: table.measured_levels(field) for field in fields if field in WORKLOAD_SETTINGS}
    return {field: values[len(values) // 2] for field, values in levels.items() if values}


def _best(rows: pd.DataFrame, settings: Sequence[str], loads: int) -> pd.DataFrame:
    """The rows with those settings that rank first by their means over so many loads.

    A load at which they did not run adds no goodput.
    """
    groups = [group for _, group in rows.groupby([*settings], dropna=False, sort=False)]
    latencies = [name for name in PRINTED if name != "request_goodput"]
    means = pd.DataFrame(
        {
            "index": group["index"].iloc[0],
            "request_goodput": group["request_goodput"].sum() / loads,
            **group[latencies].mean(),
        }
        for group in groups
    )
    return groups[int(best_first(means).index[0])]


def _line_in_words(
    table: SweepTable, points: pd.DataFrame, field: str, settings: Sequence[str]
) -> str:
    """Its name and those of its settings that make a difference to it, each on one line."""
    rows = points.to_dict("records")
    name, *told = (
        level_label(each, rows[0][each]).replace(" ", "\xa0")
        for each in (field, *settings)
        if each == field or any(table.matters(row, each) for row in rows)
    )
    return f"{name} with {', '.join(told)}" if told else name
