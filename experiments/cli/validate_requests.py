"""`runway validate requests`: the requests of a real engine's run, simulated."""

from __future__ import annotations

from pathlib import Path

import click

from .validate import report_on


@click.command("requests")
@click.argument(
    "files", metavar="RUN.JSON...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--cost-model", required=True, metavar="NAME|FILE", help="Prices to simulate with.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for report.json and figures.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(files: tuple[Path, ...], cost_model: str, out: Path | None, as_json: bool) -> None:
    """Simulate the requests of RUN.JSON and compare TTFT, TPOT and E2E with the engine's.

    The scheduler is `vllm` with the limits that the file names. It is also asked for every step
    with the times that the steps took: the differences are counted. Several files are runs of one
    trace; then the spread between them is told.
    """
    from costmodels import load_cost_model
    from experiments.validation.recording import validate_requests

    prices = load_cost_model(cost_model)
    report_on(lambda: [validate_requests(files, prices)], out, as_json=as_json)
