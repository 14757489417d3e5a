"""The x axis of a swept field: its actual values as ticks, `none` last."""

from __future__ import annotations

from collections.abc import ItemsView, Sequence

import numpy as np
from matplotlib.axes import Axes

from .style import WIDTH_IN, value_label
from .sweep_table import Level

_DASH = (0, (4, 2))
_NONE_SHADE = "#f4f4f4"
_NAME_ROOM = 0.5
"""Between a name and the edge; from one name to the next is 1."""
_BAR_REACH = 0.2
"""To both sides of a name; less than its room, or the edge would cut the bar off."""


class ValueAxis:
    """Where each value stands: log2 when the values grow fourfold or more, else to scale.

    `none` stands one step beyond the largest value, on a grey strip. Names, and true and false,
    stand side by side.

    >>> dict(ValueAxis([128, 256, 512, None]).items())
    {128: 7.0, 256: 8.0, 512: 9.0, None: 10.0}
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        self._at: dict[Level, float]
        self._is_named = any(isinstance(level, str | bool) for level in levels)
        if self._is_named:
            self._at = {level: float(rank) for rank, level in enumerate(levels)}
            return
        numbers = [float(level) for level in levels if level is not None]
        log = bool(numbers) and numbers[0] > 0 and numbers[-1] / numbers[0] >= 4
        at = [float(np.log2(number)) if log else number for number in numbers]
        step = (at[-1] - at[0]) / (len(at) - 1) if len(at) > 1 else 1.0
        self._at = dict(zip(levels, at, strict=False))
        if None in levels:
            self._at[None] = at[-1] + step if at else 0.0

    def items(self) -> ItemsView[Level, float]:
        return self._at.items()

    def connect(
        self,
        axes: Axes,
        xs: Sequence[float],
        ys: Sequence[float],
        *,
        colour: str,
        width: float,
        is_dashed: bool = False,
    ) -> None:
        """A line through the points; nothing connects names, a dashed bar stands at each."""
        dash = _DASH if is_dashed else "-"
        if not self._is_named:
            axes.plot(xs, ys, color=colour, linestyle=dash, linewidth=width, zorder=3)
            return
        reach = _BAR_REACH if is_dashed else 0.0
        for x, y in zip(xs, ys, strict=True):
            axes.plot([x - reach, x + reach], [y, y], color=colour, linestyle=dash, linewidth=width)

    def mark(self, axes: Axes) -> None:
        """Set limits, ticks and the grey strip."""
        places = list(self._at.values())
        room = _NAME_ROOM if self._is_named else 0.06 * (places[-1] - places[0])
        axes.set_xlim(places[0] - room, places[-1] + room)
        names = [value_label(level) for level in self._at]
        crowded = self._is_crowded(axes, names)
        axes.set_xticks(
            places,
            names,
            fontsize=9.5,
            rotation=45 if crowded else 0,
            ha="right" if crowded else "center",
            rotation_mode="anchor",
        )
        if None in self._at and not self._is_named:
            edge = (places[-2] + places[-1]) / 2
            axes.axvspan(edge, places[-1] + room, color=_NONE_SHADE, linewidth=0, zorder=0)

    def _is_crowded(self, axes: Axes, names: Sequence[str]) -> bool:
        """True if neighbouring names (a digit is 0.085 in wide) would touch."""
        places = list(self._at.values())
        columns = axes.get_subplotspec()
        share = columns.get_gridspec().ncols if columns is not None else 1
        across = places[-1] - places[0] + (2 * _NAME_ROOM if self._is_named else 0.0)
        inch = (WIDTH_IN / share - 0.9) / across
        return any(
            (right - left) * inch < 0.085 * (len(a) + len(b)) / 2 + 0.06
            for left, right, a, b in zip(places, places[1:], names, names[1:], strict=False)
        )
