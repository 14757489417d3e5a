"""Figures, redrawn at any time from saved results; matplotlib is imported only here."""

from __future__ import annotations

from pathlib import Path


def plot_sweep(folder: Path, *, jobs: int = 1) -> list[Path]:
    """Draw a finished sweep into `folder/figures/`; returns the PNGs written.

    jobs: processes to draw in; -1 is one per core.

    Raises:
        ConfigError: the folder holds no finished sweep.
    """
    from .sweep_figures import draw_sweep

    return draw_sweep(folder, jobs)


def plot_run(folder: Path, span: tuple[int, int] | None = None) -> list[Path]:
    """Draw one run's saved results into `folder/figures/`; returns the PNGs written.

    span: the window of the step timeline and the waterfall, ns; None is the busiest moment.

    Raises:
        ConfigError: the folder holds no run, or a span is asked for and its steps were not saved.
    """
    from .run_figures import draw_run
    from .style import house_style

    with house_style():
        return draw_run(folder, folder / "figures", span)


def plot_search(folder: Path) -> list[Path]:
    """Draw a finished search into `folder/figures/`; returns the PNGs written.

    Raises:
        ConfigError: the folder holds no finished search.
    """
    from .search import draw_search
    from .style import house_style

    with house_style():
        drawn = draw_search(folder, folder / "figures" / "attainment.png")
    return [] if drawn is None else [drawn]


def plot_comparison(folder: Path) -> list[Path]:
    """Draw a saved comparison into `folder/figures/`; returns the PNGs written.

    Raises:
        ConfigError: the folder holds no comparison.
    """
    from .comparison import draw_comparison
    from .style import house_style

    with house_style():
        return draw_comparison(folder, folder / "figures")


__all__ = ["plot_comparison", "plot_run", "plot_search", "plot_sweep"]
