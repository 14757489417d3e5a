"""`runway validate live`: a real decoder on this machine, and the simulation of the same trace."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .terminal import number, print_table, progress_bar, say

if TYPE_CHECKING:
    from calibration.live.validate import LiveOutcome
    from experiments.validation.live import LiveRun

Report = dict[str, Any]
"""report.json. Any: JSON values."""

LIVE_FILES = ("report.json", "requests.parquet", "steps.parquet", "live.png")

LEAST_CPU = 0.95
"""Share of a CPU that a thread must have, or times are others' too."""
NAMES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "e2el_ms": "E2E", "step_ms": "step"}


@click.command("live")
@click.option("--model", required=True, metavar="FILE|NAME", help="config.json, or bundled name.")
@click.option("--cost-model", required=True, metavar="TABLE", help="Of runway calibrate.")
@click.option("--device", default="cpu", help="cpu, cuda or cuda:N. [default: cpu]")
@click.option("--dtype", default="float32", help="float32, bfloat16 or float16. [default: float32]")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder for results.")
@click.option(
    "--repeats",
    type=click.IntRange(1, 20),
    default=1,
    metavar="N",
    help="Served runs; with several, their spread is reported. [default: 1]",
)
@click.option(
    "--calibrate-between",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Before every served run, go on measuring the table for so long: on a machine that others "
    "use, both then see the same minutes.",
)
@click.option("--trace", metavar="FILE", help="Trace to serve. [default: generated requests]")
@click.option("--head", metavar="N", help="Of the trace, only the first requests.")
@click.option("--requests", metavar="N", help="Generate so many. [default: 48]")
@click.option(
    "--rate",
    metavar="REQ/S",
    help="Mean arrival rate. [default: the trace's own; generated, 0.6 of what the table says the "
    "device can serve]",
)
@click.option(
    "--input-tokens",
    metavar="SPEC",
    help="Prompt lengths to generate. [default: lognormal:128:0.8]",
)
@click.option(
    "--output-tokens",
    metavar="SPEC",
    help="Output lengths to generate. [default: lognormal:40:0.6]",
)
@click.option("--seed", metavar="N", help="Of requests, weights and prompts. [default: 0]")
@click.option("--scheduler", metavar="NAME|FILE.py:CLASS", help="Policy. [default: vllm]")
@click.option("--max-num-batched-tokens", metavar="N", help="Token budget. [default: 512]")
@click.option("--max-num-seqs", metavar="N", help="Most sequences in a step. [default: 16]")
@click.option("--chunk-size", metavar="N", help="Most tokens of one prompt in a step.")
@click.option("--kv-blocks", metavar="BLOCKS", help="KV cache. [default: the table's]")
@click.option("--block-size", metavar="TOKENS", help="Of a KV block. [default: the table's]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    model: str,
    cost_model: str,
    *,
    device: str,
    dtype: str,
    out: Path | None,
    repeats: int,
    calibrate_between: float | None,
    as_json: bool,
    **flags: str | None,
) -> None:
    """Serve a short trace for real, simulate it with the table's prices, and compare.

    The same scheduler and KV cache bookkeeping drive a decoder with random weights on this machine
    in real time. Threads and clock are those the table was measured with. DIR gets report.json,
    requests.parquet, steps.parquet and live.png.
    """
    from experiments.results import json_text
    from experiments.validation.live import LiveRun

    asked = LiveRun(
        model=model,
        cost_model=cost_model,
        device=device,
        dtype=dtype,
        repeats=repeats,
        calibrate_between_s=calibrate_between or 0.0,
        flags={name: value for name, value in flags.items() if value is not None},
    )
    report = _run(asked, out)
    if as_json:
        say(json_text(report))
        return
    _print(report)
    if out is not None:
        say(f"\nreport.json, requests.parquet, steps.parquet and live.png in {out}")


def _run(asked: LiveRun, out: Path | None) -> Report:
    """Serve and compare; the folder, if one is named, is there from the start or not at all."""
    from calibration.errors import CalibrationError
    from experiments.results import results_folder, write_json
    from experiments.validation.live import run_live

    try:
        with ExitStack() as stack:
            draft = None
            if out is not None:
                draft = stack.enter_context(results_folder(out, owned=LIVE_FILES))
            with progress_bar("serving runs") as tick:
                report, outcome = run_live(asked, tick)
            if draft is not None:
                write_json(draft / "report.json", report)
                _write(report, outcome, draft)
    except CalibrationError as error:
        raise click.ClickException(str(error)) from None
    return report


def _write(report: Report, outcome: LiveOutcome, folder: Path) -> None:
    from calibration.live.report import requests_of, steps_of, timeline_of
    from experiments.parquet import write_table
    from experiments.plots.live import LivePanels, draw_live

    write_table(folder / "requests.parquet", requests_of(outcome))
    write_table(folder / "steps.parquet", steps_of(outcome))
    first = outcome.runs[0].result
    panels = LivePanels(
        served=timeline_of(first),
        simulated=timeline_of(outcome.predicted.result),
        pairs=outcome.comparisons[0].pairs,
        kinds=outcome.comparisons[0].kinds,
    )
    draw_live(report, panels, folder / "live.png")


def _print(report: Report) -> None:
    spread = report["spread"] or {}
    cells = []
    for name, label in NAMES.items():
        values, errors = report["values"][name], report["errors"][name]
        for statistic in ("mean", "p50", "p99"):
            row = [label if statistic == "mean" else "", statistic]
            row += [number(values[side][statistic], 2) for side in ("measured", "predicted")]
            row.append(_percent(errors[statistic], signed=True))
            cells.append([*row, _percent(spread.get(name, {}).get(statistic))])
        cells.append(["", "MAPE", "", "", _percent(errors["mape"]), ""])
    head = ["", "ms", "served", "simulated", "error", "spread"]
    print_table("", head, cells, text_columns=2)
    served = ", ".join(f"{steps:,}" for steps in report["steps"]["served"])
    say(
        f"\n{report['finished']} of {report['requests']} requests, {report['repeats']} served "
        f"run(s) of {served} steps, simulated {report['steps']['simulated']:,}"
    )
    same = "the same requests" if report["schedule_identical_given_times"] else "OTHER requests"
    say(f"given the times of the steps, the simulator puts {same} in every one of them")
    if report["time_beyond_table"]:
        share = _percent(report["time_beyond_table"])
        say(f"! {share} of the served time is in steps beyond what the table measured")
    if report["clock"] == "cpu":
        say("! times are CPU time, as the table's: what other processes got is left out")

    elif report["torch_device"] == "cpu":
        _say_who_else(report)


def _say_who_else(report: Report) -> None:
    """Wall time on a CPU is only the model's if nobody else needs what its threads need."""
    others = max((cpus for cpus in report["others_cpus"] if cpus is not None), default=0.0)
    left = (os.cpu_count() or 1) - others
    if report["cpu_share"] < LEAST_CPU or left < (report["threads"] or 1) - 1 + LEAST_CPU:
        say(
            f"! other processes used {others:.1f} of {os.cpu_count()} CPUs meanwhile: let the "
            "machine rest, or calibrate with --threads 1 --clock cpu"
        )


def _percent(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.1f} %" if signed else f"{100 * value:.1f} %"
