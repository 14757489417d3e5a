"""`runway compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .terminal import number, print_table, say

if TYPE_CHECKING:
    from experiments.compare import Comparison


@click.command("compare")
@click.argument("first", metavar="RUN_A", type=click.Path(path_type=Path))
@click.argument("second", metavar="RUN_B|LOG", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for compare.json and the figures."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(first: Path, second: Path, *, out: Path | None, as_json: bool, quiet: bool) -> None:
    """Compare two runs, or a run with the log of a real engine.

    RUN_A and RUN_B are folders that `runway simulate --out` wrote. A LOG is JSON of `vllm bench
    serve --save-result --save-detailed`, an export of AIPerf, GenAI-Perf or GuideLLM, or a table
    (CSV, JSON lines, Parquet) with a row a request and columns such as ttft_ms, e2el_ms,
    prompt_tokens and output_tokens. Errors are relative to what was measured, else to RUN_A.
    """
    from experiments.compare import compare, read_log
    from experiments.results import json_text

    found = compare(read_log(first), read_log(second))
    drawn = _write(found, out) if out else []
    if quiet:
        return
    if as_json:
        say(json_text(found.described()))
        return
    _print(found)
    for path in drawn:
        say(f"drew {path}")


def _write(found: Comparison, out: Path) -> list[Path]:
    from experiments.compare.files import write_comparison
    from experiments.plots import plot_comparison
    from experiments.results import COMPARE_FILES, results_folder

    with results_folder(out, owned=COMPARE_FILES) as draft:
        write_comparison(found, draft)
        drawn = plot_comparison(draft)
        names = [path.relative_to(draft) for path in drawn]
    return [out / name for name in names]


def _print(found: Comparison) -> None:
    from experiments.compare.comparison import NAMES, UNITS
    from experiments.compare.verdict import signed

    say(found.verdict)
    for note in found.notes:
        say(f"! {note}")
    say()
    rows = [
        (
            f"{NAMES[each.metric]} {each.statistic}".rstrip(),
            UNITS[each.metric],
            number(each.reference, 2),
            number(each.other, 2),
            signed(each.relative),
        )
        for each in found.differences
    ]
    heading = ("", "", found.reference.name, found.other.name, "difference")
    print_table("", heading, rows, text_columns=2)
    if found.matching is None:
        say("\nno single requests compared: nothing tells which is which")
        return
    say(f"\n{len(found.matching.first):,} requests matched {found.matching.how}; relative errors:")
    print_table(
        "",
        ("", "requests", "median", "median absolute", "p90 absolute", "longer"),
        [
            (
                NAMES[each.metric],
                f"{each.pairs:,}",
                signed(each.median),
                f"{100 * each.median_absolute:.1f} %",
                f"{100 * each.p90_absolute:.1f} %",
                f"{100 * each.longer:.0f} %",
            )
            for each in found.errors
        ],
    )
