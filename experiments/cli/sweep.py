"""`runway sweep`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from experiments.percent import percent, percentage

from .options import SweptCommand, field_options, given, out_option
from .terminal import Tick, number, print_table, progress_bar, say
from .workers import backend_option, jobs_option

if TYPE_CHECKING:
    import pandas as pd

    from experiments.sweep import SweepOutcome, SweepSpec
    from experiments.sweep.runner import Progress

SOME_POINTS_FAILED = 1
BEST_SHOWN = 10
HEADINGS = {
    "chunk_size": "chunk size",
    "max_num_batched_tokens": "token budget",
    "max_num_seqs": "max seqs",
}
METRICS = {
    "effective_chunk_size": "effective",
    "ttft_ms_p50": "TTFT p50",
    "ttft_ms_p99": "TTFT p99",
    "tpot_ms_p99": "TPOT p99",
    "itl_ms_p99": "ITL p99",
    "output_throughput": "tokens/s",
    "request_goodput": "goodput/s",
    "goodput_fraction": "meet SLO",
}
"""Columns of the table of best points: field -> heading; times in ms, effective is the chunk size
that the token budget leaves."""


@click.command("sweep", cls=SweptCommand, params=field_options(lists=True))
@click.argument("spec", metavar="[SWEEP.YAML]", required=False, type=click.Path(path_type=Path))
@out_option
@jobs_option
@backend_option
@click.option(
    "--seeds",
    metavar="N|SEED,...",
    help="Run every point with so many seeds, the same ones; adds confidence intervals.",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME:KEY=VALUE,...",
    help="A configuration by name; repeatable.",
)
@click.option(
    "--samples",
    metavar="N|random:N",
    help="Draw N points, Latin hypercube unless random, from flags with a range LOW..HIGH or "
    "log:LOW..HIGH, or a choice 'A|B'.",
)
@click.option("--sample-seed", default=0, metavar="N", help="Seed of the samples. [default: 0]")
@click.option("--figures/--no-figures", default=True, help="Draw the figures. [default: yes]")
@click.option("--json", "as_json", is_flag=True, help="Print every point as one JSON object.")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(
    spec: Path | None,
    out: Path,
    figures: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,  # Any: a setting of a run, or one of the options above
) -> int:
    """Simulate a grid, named variants or samples of settings and compare the points.

    A flag with several values, commas between them, spans the grid; a flag with one value holds
    for all points. SWEEP.YAML says the same as `base:`, `grid:`, `variants:`, `samples:` and
    `seeds:`; flags win. If nothing varies, the sweep is chunk sizes x token budgets. The same
    command goes on with a sweep that was stopped. Exit code 1: some points could not be run; the
    table says why.
    """
    from experiments.sweep import run_sweep

    workers = {name: flags.pop(name) for name in ("jobs", "backend")}
    asked = _asked(spec, flags)
    runs = "points" if len(asked.runs) == 1 else f"runs of {len(asked)} points"
    with progress_bar(f"simulating {runs}") as tick:
        outcome = run_sweep(asked, out, **workers, progress=_with_speed(tick))
    drawn = _draw(out, **workers) if figures and outcome.ok else []
    if as_json and not quiet:
        _print_json(outcome)
    elif not quiet:
        _print(outcome, asked, out, drawn)
    return SOME_POINTS_FAILED if outcome.invalid or outcome.failed else 0


def _asked(spec: Path | None, flags: dict[str, Any]) -> SweepSpec:  # Any: as for `command`
    from experiments.sweep import asked_by_flags, load_spec, split_flags

    names = ("variants", "samples", "sample_seed", "seeds")
    special = {name: flags.pop(name) for name in names}
    fixed, extra = asked_by_flags(given(flags), **special)
    return load_spec(spec, *split_flags(fixed), extra)


def _with_speed(tick: Tick) -> Progress:
    """The bar with simulated seconds per second of waiting."""
    started = time.perf_counter()

    def update(done: int, total: int, simulated_s: float) -> None:
        speed = simulated_s / (time.perf_counter() - started)
        tick(done, total, f"{speed:,.0f} simulated s/s" if simulated_s else "")

    return update


def _draw(out: Path, jobs: int, backend: str) -> list[Path]:
    from experiments.plots import plot_sweep

    return plot_sweep(out, jobs=jobs if backend == "loky" else 1)


def _print(outcome: SweepOutcome, spec: SweepSpec, out: Path, drawn: list[Path]) -> None:
    from experiments.sweep.ranking import best_first

    rows, swept, several = outcome.rows, list(spec.varied), len(spec.runs) > 1
    ran = rows[rows["status"] == "ok"]
    best = best_first(ran).head(BEST_SHOWN)
    if len(best):
        setting, slo = _setting(out)
        say(f"{setting}; SLO {slo}")
        print_table(
            f"Best points by goodput, then TTFT p99: {len(best)} of {len(rows)}; times in ms"
            + (f"; means of {len(spec.runs)} seeds, +- 95 % confidence" if several else ""),
            ["point", *(HEADINGS.get(name, name) for name in swept), *METRICS.values()],
            list(_cells(best, swept)),
            text_columns=1 + len(swept),
        )
    for line in _warnings(outcome):
        say(f"! {line}")
    kept = f", {outcome.resumed} kept from before" if outcome.resumed else ""
    times = f", {len(spec.runs)} seeds each" if several else ""
    say(f"{outcome.ok} of {len(rows)} points ran{times}{kept}; results in {out}")
    for path in drawn:
        say(f"drew {path}")


def _setting(out: Path) -> tuple[str, str]:
    """What is common to all points: workload, requests, cost model and its stamp; the SLO."""
    import yaml

    from .report import limits_text

    saved = yaml.safe_load((out / "sweep.yaml").read_text(encoding="utf-8"))
    return str(saved["setting"]), limits_text(saved["slo"])


def _warnings(outcome: SweepOutcome) -> Iterator[str]:
    """Points that did not run, by reason, and what to know of those that ran."""
    rows = outcome.rows
    for (status, reason), group in rows[rows["status"] != "ok"].groupby(["status", "reason"]):
        yield f"{_points(group)} {status}: {reason}"
    saturated = rows[rows["saturated"].fillna(False)]
    if len(saturated):
        yield f"{_points(saturated)} saturated: the means describe these runs, not a steady state"
    beyond = rows[rows["extrapolated_share"].fillna(0) > 0]
    if len(beyond):
        most = percent(float(beyond["extrapolated_share"].max()))
        yield (
            f"{_points(beyond)} extrapolated: at most {most} of the time was priced beyond the "
            "measured range"
        )
    rejected = rows[rows["rejected"].fillna(0) > 0]
    if len(rejected):
        yield f"{_points(rejected)} rejected requests, at most {rejected['rejected'].max():,}"
    for note, indices in outcome.notes.items():
        yield f"{_points(rows[rows['index'].isin(indices)])}: {note}"


def _points(group: pd.DataFrame) -> str:
    """`2 points (0, 4)`; a long list is cut."""
    named = ", ".join(map(str, group["index"].head(BEST_SHOWN)))
    more = ", ..." if len(group) > BEST_SHOWN else ""
    return f"{len(group)} point{'s' if len(group) > 1 else ''} ({named}{more})"


def _cells(best: pd.DataFrame, swept: list[str]) -> Iterator[list[str]]:
    for row in best.to_dict("records"):
        yield [
            str(row["index"]),
            *(_text(row[name]) for name in swept),
            _text(row["effective_chunk_size"]),
            *(_number(row, name, 1) for name in list(METRICS)[1:-2]),
            _number(row, "request_goodput", 2),
            _number(row, "goodput_fraction", 1, is_share=True),
        ]


def _print_json(outcome: SweepOutcome) -> None:
    from experiments.results import json_text
    from experiments.sweep.notes import described

    points = [
        {str(name): _json_value(value) for name, value in row.items()}
        for row in outcome.rows.to_dict("records")
    ]
    counts = {name: getattr(outcome, name) for name in ("ok", "invalid", "failed", "resumed")}
    say(json_text({**counts, "notes": described(outcome.notes), "points": points}))


def _json_value(value: Any) -> Any:  # Any: a cell of any column, and a JSON value
    import pandas as pd

    if value is None or pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def _number(
    row: Mapping[Any, Any], name: str, digits: int, *, is_share: bool = False
) -> str:  # Any: a row of the table: a number, or pandas' missing value
    value, high = _json_value(row[name]), _json_value(row.get(f"{name}_ci_high"))
    if value is None:
        return "-"
    scale, unit = (100, " %") if is_share else (1, "")
    within = "" if high is None else f" +- {number(scale * (high - value), digits)}"
    shown = percentage(value, digits) if is_share else value
    return f"{number(shown, digits)}{within}{unit}"


def _text(value: Any) -> str:  # Any: a swept value or pandas' missing value
    held = _json_value(value)
    if held is None or isinstance(held, bool):
        return str(held).lower()
    return f"{held:g}" if isinstance(held, float) else str(held)
