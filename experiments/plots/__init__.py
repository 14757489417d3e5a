"""Figures, redrawn at any time from saved results; matplotlib is imported only here."""

from __future__ import annotations

from pathlib import Path

from .style import house_style


def plot_sweep(folder: Path) -> list[Path]:
    """Draw a finished sweep into `folder/figures/`; returns the PNGs written.

    Raises:
        ConfigError: the folder holds no finished sweep.
    """
    from .curves import curve_file, draw_curves
    from .heatmap import HEATMAPS, draw_heatmap
    from .latency_throughput import draw_latency_throughput
    from .moment import draw_moment
    from .samples import draw_samples
    from .sweep_table import load_sweep
    from .tradeoff import draw_tradeoff

    table = load_sweep(folder)
    figures = folder / "figures"
    with house_style():
        if table.sampled:
            return [draw_samples(table, figures / "samples.png")]
        drawn = [
            draw_tradeoff(table, figures / "ttft-vs-tpot.png"),
            *(
                draw_curves(table, field, figures / curve_file(field))
                for field in table.swept
                if field != "seed"  # a name of the arrivals, not a quantity
            ),
            draw_latency_throughput(table, figures / "latency-throughput.png"),
            *(draw_heatmap(table, figures / name) for name in HEATMAPS),
            draw_moment(table, folder / "timelines.parquet", figures / "timeline.png"),
        ]
    return [path for path in drawn if path is not None]


def plot_run(folder: Path, span: tuple[int, int] | None = None) -> list[Path]:
    """Draw one run's saved results into `folder/figures/`; returns the PNGs written.

    span: the window of the step timeline and the waterfall, ns; None is the busiest moment.

    Raises:
        ConfigError: the folder holds no run, or a span is asked for and its steps were not saved.
    """
    from .run_figures import draw_run

    with house_style():
        return draw_run(folder, folder / "figures", span)


def plot_search(folder: Path) -> list[Path]:
    """Draw a finished search into `folder/figures/`; returns the PNGs written.

    Raises:
        ConfigError: the folder holds no finished search.
    """
    from .search import draw_search

    with house_style():
        drawn = draw_search(folder, folder / "figures" / "attainment.png")
    return [] if drawn is None else [drawn]


def plot_comparison(folder: Path) -> list[Path]:
    """Draw a saved comparison into `folder/figures/`; returns the PNGs written.

    Raises:
        ConfigError: the folder holds no comparison.
    """
    from .comparison import draw_comparison

    with house_style():
        return draw_comparison(folder, folder / "figures")


__all__ = ["plot_comparison", "plot_run", "plot_search", "plot_sweep"]
