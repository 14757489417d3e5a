"""The GEMMs of a cost table on a roofline."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from costmodels import LoadedCostModel

from .cost_points import Floats, datasheet_of, roofs_of
from .style import MARKERS, MUTED, palette, plain_ticks


def draw_roofline(axes: Axes, model: LoadedCostModel) -> None:
    """What the GEMMs reach, under the best of them and, of a known GPU, its datasheet.

    Source: Williams, Waterman and Patterson, "Roofline" (CACM 2009).
    """
    grids = model.table.operators
    roofs = roofs_of(grids) if grids else []
    if not roofs:
        axes.remove()
        return
    intensity = np.concatenate([roof.intensity for roof in roofs])
    flops = np.concatenate([roof.flops for roof in roofs])
    ends = np.geomspace(intensity.min(), intensity.max(), 60)
    reached = (float(flops.max()), float((flops / intensity).max()))
    _draw_roof(axes, ends, reached, "best reached here", "-")
    if (datasheet := datasheet_of(model.table)) is not None:
        _draw_roof(axes, ends, datasheet, "datasheet", "--")
    for roof, colour, marker in zip(roofs, palette(len(roofs)), MARKERS, strict=False):
        axes.plot(
            roof.intensity,
            roof.flops / 1e9,
            marker=marker,
            markersize=4,
            linewidth=0.8,
            color=colour,
            label=roof.name,
        )
    axes.set(xscale="log", yscale="log", title="GEMMs on the roofline")
    axes.set(xlabel="arithmetic intensity (FLOP/byte)", ylabel="GFLOP/s")
    for which in ("x", "y"):
        plain_ticks(axes, which)
    axes.legend(loc="lower right", fontsize=8.5, handlelength=1.4, ncols=2)


def _draw_roof(
    axes: Axes, ends: Floats, peaks: tuple[float, float], label: str, style: str
) -> None:
    flops, bandwidth = peaks
    axes.plot(
        ends, np.minimum(flops, ends * bandwidth) / 1e9, style, color=MUTED, lw=1.3, label=label
    )
