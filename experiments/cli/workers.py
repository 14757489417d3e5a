"""Where work is done: `--jobs` and `--backend`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from experiments.fork_server import ONE_THREAD, warm_up

jobs_option = click.option(
    "--jobs",
    default=-1,
    metavar="N",
    help="Processes; -1 is one per core. The results are the same. [default: -1]",
)
backend_option = click.option(
    "--backend",
    default="loky",
    metavar="loky|ray|dask",
    help="Processes here, or a cluster: RAY_ADDRESS or DASK_SCHEDULER_ADDRESS. [default: loky]",
)


def start_workers(args: Sequence[str]) -> None:
    """Begin what `--jobs` among these arguments will need, before their command is imported.

    To import a command takes as long as workers take to get ready.

    Raises:
        click.UsageError: `--jobs` is no number.
    """
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    if not {"--help", "-h"} & {*args}:
        _asked.main([*args], standalone_mode=False)


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@jobs_option
@backend_option
def _asked(jobs: int, backend: str) -> None:
    warm_up(jobs, backend)
