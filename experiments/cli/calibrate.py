"""`runway calibrate`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from calibration.options import (
    FLAGS,
    FROM_REQUESTS_HELP,
    FROM_STEPS_HELP,
    OUTPUT_HELP,
    run_calibration,
    run_from_requests,
    run_from_steps,
)

from .terminal import progress_bar, say

SHARES = 100


def _options() -> list[click.Parameter]:
    options: list[click.Parameter] = [
        click.Option(
            [f"--{flag.name}"],
            **({"is_flag": True} if flag.kind is bool else {"type": flag.kind}),
            metavar=flag.metavar,
            help=flag.help,
        )
        for flag in FLAGS
    ]
    return [
        *options,
        click.Option(["--from-steps"], metavar="LOG.CSV", help=FROM_STEPS_HELP),
        click.Option(["--from-requests"], metavar="LOG", multiple=True, help=FROM_REQUESTS_HELP),
        click.Option(
            ["-o", "--output"],
            type=click.Path(path_type=Path),
            required=True,
            metavar="TABLE",
            help=OUTPUT_HELP,
        ),
        click.Option(
            ["--figure"],
            type=click.Path(path_type=Path),
            metavar="PNG",
            help="Draw the table too: measured against predicted, residuals, roofline.",
        ),
        click.Argument(["more"], nargs=-1, type=click.UNPROCESSED, metavar=""),
    ]


@click.command("calibrate", params=_options(), context_settings={"ignore_unknown_options": True})
def command(
    *,
    from_steps: str | None,
    from_requests: tuple[str, ...],
    output: Path,
    figure: Path | None,
    more: tuple[str, ...],
    quiet: bool,
    **given: object,
) -> None:
    """Measure a model's kernels on this machine, once; write the cost table that prices its steps.

    The real torch work of every layer is timed where it stands in the step, and random whole
    steps that the table never saw say how far it is off. All raw samples lie in TABLE.partial.
    """
    _check(output, figure)
    if from_steps is not None:
        code = run_from_steps(from_steps, given, output, more)
        if figure is not None and not code:
            _draw(output, figure)
        sys.exit(code)
    if from_requests:
        code = run_from_requests(from_requests, given, output, more)
        if figure is not None and not code:
            _draw(output, figure)
        sys.exit(code)
    if more:
        raise click.UsageError(f"no option {more[0]}{_nearest(more[0])}")
    from calibration.errors import CalibrationError

    try:
        with progress_bar("calibrating") as tick:
            outcome = run_calibration(
                given, output, lambda share, done, total: tick(round(SHARES * share), SHARES)
            )
    except CalibrationError as error:
        raise click.ClickException(str(error)) from None
    if not quiet:
        say(outcome.summary)
    if figure is not None:
        _draw(output, figure)
        if not quiet:
            say(f"drew {figure}")


def _check(output: Path, figure: Path | None) -> None:
    """Before anything is measured: can the results be written?"""
    from simulator.output import check_output

    check_output(output)
    if figure is not None:
        check_output(figure, endings=(".png",))


def _draw(table: Path, figure: Path) -> None:
    from costmodels import load_cost_model
    from experiments.plots.cost import plot_cost

    plot_cost(load_cost_model(table), figure)


def _nearest(name: str) -> str:
    from simulator.errors import nearest

    return nearest(name, [f"--{flag.name}" for flag in FLAGS])
