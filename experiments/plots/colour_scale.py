"""From numbers to the colours of a map's cells, and the bar that says which is which.

Dark is good: much of a rate, or little of a latency.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from .style import INK, plain_ticks

_RAMP = ListedColormap(mpl.colormaps["GnBu"](np.linspace(0.04, 0.94, 256)))
"""Its lightest still stands out from the white between cells."""
_LEAST_SPAN = 1.25
"""A latency's colours span at least this factor, so that cells that hardly differ look alike."""
_TINY = 1e-6
"""Stands for 0 on a log scale."""
_SOME = 0.005
"""Below it all cells say 0.00, and the bar goes to 1."""
_DECADE = 10.0
_BAR_IN = 0.13


class ColourScale:
    """The colours of all cells of a map.

    values: that the cells have, at least one. is_cost: less is better, on a log scale.
    """

    def __init__(self, values: NDArray[np.float64], *, is_cost: bool) -> None:
        least, most = (max(float(end), _TINY) for end in (values.min(), values.max()))
        self._norm: Normalize
        if is_cost:
            self._norm = LogNorm(least, max(most, _LEAST_SPAN * least))
        else:
            self._norm = Normalize(0.0, most if most >= _SOME else 1.0)
        self._ramp = _RAMP.reversed() if is_cost else _RAMP
        self._is_log = is_cost

    def shade(self, value: float) -> tuple[float, float, float, float]:
        """Red, green, blue, alpha of a cell."""
        above = max(value, _TINY)
        return self._ramp(float(self._norm(above)))

    def ink(self, value: float) -> str:
        """The colour of text that can be read on it."""
        red, green, blue, _ = self.shade(value)
        return "white" if 0.30 * red + 0.59 * green + 0.11 * blue < 0.55 else INK

    def draw_bar(self, figure: Figure, unit: str, height_in: float) -> None:
        """Beside everything the figure holds, which is so high."""
        colours = ScalarMappable(self._norm, self._ramp)
        bar = figure.colorbar(colours, ax=figure.axes, aspect=height_in / _BAR_IN, pad=0.015)
        bar.set_label(f"{unit}, log scale" if self._is_log else unit)
        bar.minorticks_off()
        bar.outline.set_visible(False)
        plain_ticks(bar.ax, "y")
        low, high = bar.ax.get_ylim()
        if self._is_log and high < _DECADE * low:
            bar.ax.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
