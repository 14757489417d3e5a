"""`runway trace`."""

from __future__ import annotations

from pathlib import Path

import click

from .terminal import say


@click.command("trace")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write; a name that ends in .gz is compressed. [default: RUN/trace.json]",
)
@click.option("--from-s", type=float, metavar="S", help="Leave out what ended before. [seconds]")
@click.option("--to-s", type=float, metavar="S", help="Leave out what started later. [seconds]")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(
    run: Path, output: Path | None, from_s: float | None, to_s: float | None, quiet: bool
) -> None:
    """Write a run's steps, requests and counters as a trace for ui.perfetto.dev.

    RUN is a folder that `runway simulate --steps --out RUN` wrote. Open the file in
    https://ui.perfetto.dev or chrome://tracing.
    """
    import gzip
    import json

    from experiments.perfetto import chrome_trace
    from experiments.results import write_whole
    from experiments.saved_run import load_run
    from simulator.output import check_output

    from .options import time_span

    if output is not None:
        check_output(output)
    saved = load_run(run)
    trace = chrome_trace(saved, time_span(from_s, to_s))
    text = json.dumps(trace, separators=(",", ":"), allow_nan=False, default=_plain).encode()
    path = output or run / "trace.json"
    write_whole(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    if not quiet:
        counted = len(trace["traceEvents"])
        say(f"wrote {counted:,} events to {path}: open it in https://ui.perfetto.dev")


def _plain(value: object) -> object:
    """NumPy's numbers as Python's."""
    assert hasattr(value, "item")
    return value.item()
