"""`runway plot`: figures again, from saved results."""

from __future__ import annotations

from pathlib import Path

import click

from experiments.results import RUN_FILES, SWEEP_FILES
from simulator.errors import ConfigError

from .terminal import say


@click.command("plot")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(folder: Path, quiet: bool) -> None:
    """Draw the figures of DIR, a folder that `runway simulate` or `runway sweep` wrote, into
    DIR/figures.
    """
    drawn = draw(folder)
    if not quiet:
        for path in drawn:
            say(f"drew {path}")


def draw(folder: Path) -> list[Path]:
    """Figures of a run or a sweep, whichever the folder holds.

    Raises:
        ConfigError: it holds neither.
    """
    from experiments import plots

    if (folder / SWEEP_FILES[0]).is_file():
        return plots.plot_sweep(folder)
    if (folder / RUN_FILES[0]).is_file():
        return plots.plot_run(folder)
    missing = "no such folder" if not folder.exists() else "no results in it"
    raise ConfigError(
        f"{folder}: {missing}: expected {RUN_FILES[0]} of a run or {SWEEP_FILES[0]} of a sweep"
    )
