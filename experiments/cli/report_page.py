"""`runway report`."""

from __future__ import annotations

from pathlib import Path

import click

from .terminal import say


@click.command("report")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write. [default: DIR/report.html]",
)
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(folder: Path, output: Path | None, quiet: bool) -> None:
    """Write one HTML page about DIR, the folder of a run, a sweep, a search or a comparison.

    The question, the answer, tables that sort, figures to point at, where the numbers come from
    and how accurate the prices are.

    The page is one file that needs nothing else and asks nothing of the network.
    """
    from experiments.report import write_report

    path = write_report(folder, output)
    if not quiet:
        say(f"wrote {path}")
