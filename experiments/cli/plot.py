"""`runway plot`: figures again, from saved results."""

from __future__ import annotations

from pathlib import Path

import click

from experiments.results import COMPARE_FILES, RUN_FILES, SWEEP_FILES
from simulator.errors import ConfigError

from .terminal import say


@click.command("plot")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("table", metavar="[TABLE]", required=False)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="PNG", help="Of cost TABLE. [default: beside]"
)
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(folder: Path, table: str | None, out: Path | None, quiet: bool) -> None:
    """Draw the figures of DIR, a folder that `runway simulate` or `runway sweep` wrote, into
    DIR/figures.

    `runway plot cost TABLE` draws a cost table (a file, or a name of `runway list cost-models`):
    its prices, the steps it was measured with, how far it is off.
    """
    if table is not None:
        drawn = [draw_cost(str(folder), table, out)]
    elif out is not None:
        raise ConfigError("--out is for `runway plot cost TABLE`: other figures go to DIR/figures")
    else:
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
    if (folder / COMPARE_FILES[0]).is_file():
        return plots.plot_comparison(folder)
    missing = "no such folder" if not folder.exists() else "no results in it"
    raise ConfigError(
        f"{folder}: {missing}: expected {RUN_FILES[0]} of a run or {SWEEP_FILES[0]} of a sweep"
    )


def draw_cost(what: str, table: str, out: Path | None) -> Path:
    """The figure of a cost table, beside its file unless `out` says where.

    Raises:
        ConfigError: something else than `cost` is to be drawn, or there is no such table.
    """
    from costmodels import load_cost_model
    from experiments.plots.cost import plot_cost

    if what != "cost":
        raise ConfigError(f"plot {what} {table}: takes one folder, or cost and a table")
    model, file = load_cost_model(table), Path(table)
    beside = file.with_suffix(".png") if file.is_file() else Path(f"{table}.png")
    return plot_cost(model, out or beside)
