"""`runway validate`: the simulation against measurements of real engines."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .terminal import print_table, say

if TYPE_CHECKING:
    from experiments.validation.report import DatasetReport

ANOTHER = {
    "live": "a real decoder on this machine",
    "steps": "a log of an engine's steps",
    "requests": "a log of an engine's requests",
}
"""First word -> what is measured instead of a dataset: `validate_<word>.py` has the command."""


class _Validate(click.Command):
    """Datasets by folder; `live`, `steps` and `requests` are commands of their own."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # Any: whatever else click passes on
    ) -> click.Context:
        if not args or args[0] not in ANOTHER:
            return super().make_context(info_name, args, parent, **extra)
        module = importlib.import_module(f"experiments.cli.validate_{args[0]}")
        other: click.Command = module.command
        return other.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)


VALIDATION_FILES = ("report.json", "rows.csv", "figures")


@click.command("validate", cls=_Validate)
@click.argument(
    "folders",
    metavar="DATASET_DIR...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder for report.json and figures.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(folders: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Compare the simulation with measurements of real engines.

    DATASET_DIR holds one published dataset in its own format (`runway list datasets`). Other
    measurements: `runway validate live --help`, `steps --help` and `requests --help`.
    """
    from experiments.validation import validate

    report_on(lambda: [validate(folder) for folder in folders], out, as_json=as_json)


def report_on(
    compared: Callable[[], list[DatasetReport]], out: Path | None, *, as_json: bool
) -> None:
    """Compare, write the folder if one is named, and print."""
    import json

    if out is None:
        reports = compared()
    else:
        from experiments.results import results_folder

        with results_folder(out, owned=VALIDATION_FILES) as draft:
            reports = compared()
            _write(reports, draft)
    if as_json:
        say(json.dumps(_described(reports), indent=2, allow_nan=False))
        return
    for report in reports:
        _print(report)
    if out is not None:
        say(f"\nreport.json, rows.csv and figures in {out}")


def _described(reports: list[DatasetReport]) -> dict[str, Any]:  # Any: JSON values
    return {"datasets": [report.described() for report in reports]}


def _write(reports: list[DatasetReport], draft: Path) -> None:
    import csv
    from dataclasses import asdict

    from experiments.plots.validation import draw_validation
    from experiments.results import write_json

    write_json(draft / "report.json", _described(reports))
    rows = [{"dataset": held.dataset, **asdict(row)} for held in reports for row in held.rows]
    with (draft / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for report in reports:
        draw_validation(report, draft / "figures")


def _print(report: DatasetReport) -> None:
    say(f"{report.dataset}: {report.source}")
    cells = [
        [
            *(row.run, row.quantity, row.statistic, _percent(row.error, row.statistic)),
            *("" if row.peer is None else _percent(row.peer, row.statistic), f"{row.n:,}"),
            row.fitted_on,
        ]
        for row in report.rows
    ]
    print_table("", ["run", "quantity", "statistic", "error", "peer", "n", "fitted on"], cells)
    for note in report.notes:
        say(f"! {note}")


UNSIGNED = ("mape", "median_abs_error", "rank_correlation")


def _percent(error: float, statistic: str) -> str:
    if statistic == "rank_correlation":
        return f"{error:.3f}"
    if statistic == "differences":
        return f"{error:,.0f}"
    return f"{100 * error:.2f} %" if statistic in UNSIGNED else f"{100 * error:+.2f} %"
