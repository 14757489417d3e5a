"""What is written at the frontier of the trade-off: settings, or numbers that a list explains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from textwrap import wrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from .frontier import pareto_frontier
from .labels import place_labels, spaced_out
from .style import level_label, short_label
from .sweep_table import Row
from .tradeoff_marks import ANY, Marks

X, Y = "ttft_ms_p99", "tpot_ms_p99"
MOST_NUMBERED = 8
"""Points of a panel that get a number at most."""
_SPACING_PT = 9.0
"""Frontier points nearer to a labelled one than this are left to its label."""
_MOST_CHARACTERS = 26
_LINE_CHARACTERS = 110
_LINE_IN = 0.2


def frontier_ranks(points: pd.DataFrame) -> NDArray[np.intp]:
    """The rows on the frontier, by rising TTFT."""
    return pareto_frontier(points[X].to_numpy(np.float64), points[Y].to_numpy(np.float64))


class Numbered:
    """Numbers for the frontier's points of all panels, and the list of what they are."""

    def __init__(self, panels: Sequence[tuple[str, pd.DataFrame]], marks: Marks) -> None:
        every = [frontier_ranks(points) for _, points in panels]
        self.left_out = sum(max(0, len(ranks) - MOST_NUMBERED) for ranks in every)
        self._rows: list[list[Row]] = [
            [*points.iloc[ranks[_evenly(len(ranks))]].to_dict("records")]
            for (_, points), ranks in zip(panels, every, strict=True)
        ]
        told = [marks.values(row) for rows in self._rows for row in rows]
        found = {field: {values[field] for values in told} for field in marks.label_fields}
        self._fields = [field for field, values in found.items() if len(values) > 1]
        self._common = [
            level_label(field, value)
            for field, values in found.items()
            for value in values - {ANY}
            if field not in self._fields
        ]
        self._has_any = any(ANY in found[field] for field in self._fields)
        self._titles = [title for title, _ in panels]
        self._marks = marks

    def in_words(self) -> str:
        """What the numbers are, and how many points have none."""
        named = " / ".join(short_label(field) for field in self._fields)
        words = f"Numbers on the frontier, listed below: {named or 'its points'}."
        if self._has_any:
            words = f"{words[:-1]} ({ANY}: makes no difference)."
        if self.left_out:
            words += f" {self.left_out} more points of it are not numbered."
        return words

    def lines(self) -> list[str]:
        """The list below the panels: a line a point, under its panel's title."""
        told = wrap(f"all: {', '.join(self._common)}", _LINE_CHARACTERS) if self._common else []
        for number, (title, rows) in enumerate(zip(self._titles, self._rows, strict=True)):
            told += [title] if title else []
            for place, row in enumerate(rows, self._first(number)):
                values = self._marks.values(row)
                words = " / ".join(values[field] for field in self._fields) or "the only setting"
                told += wrap(f"{place}  {words}", _LINE_CHARACTERS, subsequent_indent="    ")
        return told

    def height_in(self) -> float:
        """The room that the list takes."""
        return _LINE_IN * len(self.lines()) + 0.1

    def _first(self, panel: int) -> int:
        """The number of a panel's first point."""
        return 1 + sum(map(len, self._rows[:panel]))

    def label(self, panel: int, axes: Axes, points: pd.DataFrame) -> None:
        """The numbers beside a panel's points."""
        rows = self._rows[panel]
        texts = [str(number) for number, _ in enumerate(rows, self._first(panel))]
        _place(axes, points, [(row[X], row[Y]) for row in rows], texts)


def are_long(panels: Sequence[tuple[str, pd.DataFrame]], marks: Marks) -> bool:
    """Whether the settings of the frontier's points are too long to stand beside them."""
    return any(
        len(marks.label(row)) > _MOST_CHARACTERS
        for _, points in panels
        for row in points.iloc[frontier_ranks(points)].to_dict("records")
    )


def label_frontier(axes: Axes, points: pd.DataFrame, marks: Marks) -> None:
    """The settings of the frontier's points beside them."""
    frontier = points.iloc[frontier_ranks(points)]
    chosen = list(zip(frontier[X], frontier[Y], strict=True))
    texts = [marks.label(row) for row in frontier.to_dict("records")]
    apart = spaced_out(axes, chosen, _SPACING_PT)
    _place(axes, points, [chosen[rank] for rank in apart], [texts[rank] for rank in apart])


def _place(
    axes: Axes, points: pd.DataFrame, at: Sequence[tuple[float, float]], texts: Sequence[str]
) -> None:
    frontier = points.iloc[frontier_ranks(points)]
    every = list(zip(points[X], points[Y], strict=True))
    along = list(zip(frontier[X], frontier[Y], strict=True))
    corners = [(right[0], left[1]) for left, right in pairwise(along)]
    path = [point for pair in zip(along, [*corners, along[-1]], strict=True) for point in pair]
    place_labels(axes, at, texts, avoid=every, line=path)


def _evenly(count: int) -> NDArray[np.intp]:
    """So many places at most, evenly spread, with both ends.

    >>> _evenly(3).tolist(), _evenly(15).tolist()
    ([0, 1, 2], [0, 2, 4, 6, 8, 10, 12, 14])
    """
    shown = min(count, MOST_NUMBERED)
    return np.linspace(0, count - 1, shown).round().astype(np.intp)
