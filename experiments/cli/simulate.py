"""`runway simulate`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from experiments.config import RunConfig, load_config

from .options import SectionedCommand, field_options, given
from .terminal import progress_bar, say


@click.command("simulate", cls=SectionedCommand, params=field_options())
@click.argument("config", metavar="[RUN.YAML]", required=False, type=click.Path(path_type=Path))
def command(config: Path | None, **flags: object) -> None:
    """Replay a workload through a scheduler on a simulated clock.

    Every flag is also a key of RUN.YAML (max-num-seqs: 64 or max_num_seqs: 64); flags win. Paths
    are relative to the current folder. The results folder holds summary.json, requests.parquet
    and config.yaml, which repeats the run: runway simulate DIR/config.yaml --out OTHER. If it
    holds an earlier run, the new one replaces it, and the figures, report.html and trace.json
    that Runway made of it are removed.
    """
    settings = load_config(config, given(flags))
    text = run(settings)
    if text and not settings.quiet:
        say(text)


def run(config: RunConfig) -> str:
    """Simulate, write the results if a folder is named, and return what to print."""
    from experiments.results import json_text, results_folder
    from experiments.run import run_config, write_files

    with ExitStack() as stack:
        draft = stack.enter_context(results_folder(Path(config.out))) if config.out else None
        with progress_bar("simulating requests") as tick:
            outcome = run_config(config, progress=tick)
        if draft is not None:
            write_files(outcome, draft)
    if config.quiet:
        return ""
    if config.json_summary:
        return json_text(outcome.summary)
    from .report import report

    return report(outcome.summary, config.out)
