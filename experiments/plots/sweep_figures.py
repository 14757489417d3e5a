"""The figures of a sweep, in this process or shared out among several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.sweep.backends import workers

if TYPE_CHECKING:
    from .sweep_table import SweepTable

SHARES = 8
"""Into so many parts the figures are dealt out; processes take one after another."""

Drawn = list[tuple[int, Path]]
"""Figures with their place in the list of all."""


def draw_sweep(folder: Path, jobs: int) -> list[Path]:
    """All figures into `folder/figures/`; the same whatever the number of processes.

    Raises:
        ConfigError: the folder holds no finished sweep.
    """
    if jobs == 1:
        drawn = _draw_share(folder, 1, 0)
    else:
        with workers({}, folder, jobs=jobs, backend="loky") as pool:
            shares = pool.run(partial(_draw_share, folder, SHARES), range(SHARES))
            drawn = sorted(figure for share in shares for figure in share)
    return [path for _, path in drawn]


def _draw_share(folder: Path, shares: int, share: int) -> Drawn:
    """Every `shares`-th figure from place `share` on; those with nothing to show are left out."""
    from .style import house_style
    from .sweep_table import load_sweep

    every = _figures(load_sweep(folder), folder)
    with house_style():
        drawn = ((place, every[place]()) for place in range(share, len(every), shares))
        return [(place, path) for place, path in drawn if path is not None]


def _figures(table: SweepTable, folder: Path) -> list[Callable[[], Path | None]]:
    from .curves import curve_file, draw_curves
    from .heatmap import HEATMAPS, draw_heatmap
    from .latency_throughput import draw_latency_throughput
    from .moment import draw_moment
    from .samples import draw_samples
    from .tradeoff import draw_tradeoff

    figures = folder / "figures"
    if table.sampled:
        return [partial(draw_samples, table, figures / "samples.png")]
    return [
        partial(draw_tradeoff, table, figures / "ttft-vs-tpot.png"),
        *(
            partial(draw_curves, table, field, figures / curve_file(field))
            for field in table.swept
            if field != "seed"  # a name of the arrivals, not a quantity
        ),
        partial(draw_latency_throughput, table, figures / "latency-throughput.png"),
        *(partial(draw_heatmap, table, figures / name) for name in HEATMAPS),
        partial(draw_moment, table, folder / "timelines.parquet", figures / "timeline.png"),
    ]
