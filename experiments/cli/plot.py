"""`runway plot`: figures again, from saved results."""

from __future__ import annotations

from pathlib import Path

import click

from experiments.results import COMPARE_FILES, RUN_FILES, SEARCH_FILES, SWEEP_FILES
from simulator.errors import ConfigError
from simulator.output import check_output

from .options import time_span
from .terminal import say


@click.command("plot")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("table", metavar="[TABLE]", required=False)
@click.option("--from-s", type=float, metavar="S", help="Of a run: its timeline from here on.")
@click.option(
    "--to-s", type=float, metavar="S", help="Of a run: its timeline up to here. [seconds]"
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="PNG", help="Of cost TABLE. [default: beside]"
)
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(
    folder: Path,
    table: str | None,
    *,
    from_s: float | None,
    to_s: float | None,
    out: Path | None,
    quiet: bool,
) -> None:
    """Draw the figures of DIR, a folder that `runway simulate`, `sweep`, `search` or
    `compare` wrote, into DIR/figures: all that its files allow.

    The step timeline and the waterfall of a run (saved with --steps) show its busiest moment, or
    the window from --from-s to --to-s.

    `runway plot cost TABLE` draws a cost table (a file, or a name of `runway list cost-models`):
    its prices, the steps it was measured with, how far it is off.
    """
    if table is not None:
        drawn = [draw_cost(str(folder), table, out)]
    elif out is not None:
        raise ConfigError("--out is for `runway plot cost TABLE`: other figures go to DIR/figures")
    else:
        drawn = draw(folder, time_span(from_s, to_s))
    if quiet:
        return
    for path in drawn:
        say(f"drew {path}")
    if (folder / RUN_FILES[0]).is_file() and not (folder / "tokens.parquet").is_file():
        say("! saved without --steps: no step timeline, no waterfall")


def draw(folder: Path, span: tuple[int, int] | None = None) -> list[Path]:
    """Figures of whichever results the folder holds. span: a window of a run, ns.

    Raises:
        ConfigError: it holds none, or a window is asked of something else than a run.
    """
    from experiments import plots

    if (folder / RUN_FILES[0]).is_file():
        return plots.plot_run(folder, span)
    kinds = {
        SWEEP_FILES[0]: plots.plot_sweep,
        SEARCH_FILES[0]: plots.plot_search,
        COMPARE_FILES[0]: plots.plot_comparison,
    }
    for marker, plot in kinds.items():
        if (folder / marker).is_file():
            if span:
                raise ConfigError(f"{folder}: only a run has a window of time, this is no run")
            return plot(folder)
    missing = "no such folder" if not folder.exists() else "no results in it"
    raise ConfigError(
        f"{folder}: {missing}: expected {RUN_FILES[0]} of a run, {SWEEP_FILES[0]} of a sweep, "
        f"{SEARCH_FILES[0]} of a search or {COMPARE_FILES[0]} of a comparison"
    )


def draw_cost(what: str, table: str, out: Path | None) -> Path:
    """The figure of a cost table, beside its file unless `out` says where.

    Raises:
        ConfigError: something else than `cost` is to be drawn, or there is no such table, or
            `out` is no PNG that can be written.
    """
    from costmodels import load_cost_model
    from experiments.plots.cost import plot_cost

    if what != "cost":
        raise ConfigError(f"plot {what} {table}: takes one folder, or cost and a table")
    if out is not None:
        check_output(out, endings=(".png",))
    model, file = load_cost_model(table), Path(table)
    beside = file.with_suffix(".png") if file.is_file() else Path(f"{table}.png")
    return plot_cost(model, out or beside)
