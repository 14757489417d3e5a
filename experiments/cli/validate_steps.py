"""`runway validate steps`: every step of a real engine, and its price."""

from __future__ import annotations

from pathlib import Path

import click

from .validate import report_on


@click.command("steps")
@click.argument("files", metavar="LOG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--cost-model", required=True, metavar="NAME|FILE", help="Prices to judge.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for report.json and figures.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(files: tuple[Path, ...], cost_model: str, out: Path | None, as_json: bool) -> None:
    """Price every step of LOG and compare with the time it took.

    LOG is a step log (CSV, as for `runway calibrate --from-steps`) or the JSON of an engine's run.
    A log that the prices were fitted to flatters them.
    """
    from costmodels import load_cost_model
    from experiments.validation.recording import validate_steps

    prices = load_cost_model(cost_model)
    report_on(lambda: [validate_steps(files, prices)], out, as_json=as_json)
