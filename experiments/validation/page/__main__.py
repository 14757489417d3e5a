"""`python -m experiments.validation.page REPORT PAGE...`: fill the tables of the pages."""

from __future__ import annotations

from pathlib import Path

import click

from experiments.validation.page import fill
from simulator.errors import ConfigError


@click.command()
@click.argument("report", type=click.Path(path_type=Path))
@click.argument(
    "pages", metavar="PAGE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
def main(report: Path, pages: tuple[Path, ...]) -> None:
    """Fill the tables of each PAGE from REPORT, the report.json of `runway validate --out`."""
    try:
        fill(report, pages)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"wrote the tables of {', '.join(map(str, pages))}")


if __name__ == "__main__":
    main(prog_name="python -m experiments.validation.page")
