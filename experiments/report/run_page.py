"""The page of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from experiments.caption import caption_parts
from experiments.percent import percent
from experiments.saved_run import load_run
from experiments.sweep.rows import extrapolated_share

from .accuracy import accuracy_section, accuracy_sentence
from .curves import spread
from .page import Page, Section, facts_of, said
from .run_charts import first_token_scatter, latency_charts, load_charts
from .run_tables import (
    client_section,
    latency_table,
    rate_table,
    request_facts,
    slowest_section,
)
from .steps import step_charts

Summary = Mapping[str, Any]
"""summary.json. Any: JSON values."""

MOST_POINTS = 800
"""Requests that are points of a chart; more are thinned out evenly."""


def run_page(folder: Path) -> Page:
    """The page of a folder that `runway simulate --out` wrote."""
    run = load_run(folder)
    summary = run.summary
    done = run.requests[run.requests["state"] == "finished"].reset_index(names="row")
    shown = spread(range(len(done)), MOST_POINTS)
    points = done.iloc[shown].reset_index(drop=True)
    name, requests, prices = caption_parts(summary)
    served = f"{name}, {requests}, at the prices of {prices}"
    return Page(
        title=f"run {folder.resolve().name}",
        question=f"How does {run.policy} serve {served}?",
        answer=[*_answer(summary), *_settings(summary)],
        tiles=list(_tiles(summary)),
        warnings=list(_warnings(summary)),
        sections=[
            Section("How long users wait", charts=list(latency_charts(run, done))),
            Section("All latencies", tables=[latency_table(summary)]),
            *first_token_scatter(points),
            *step_charts(run),
            Section("Over time", charts=list(load_charts(run))),
            Section("Rates and shares", tables=[rate_table(summary)]),
            *client_section(summary),
            slowest_section(done, points),
            accuracy_section(summary["cost_model"]),
            _provenance(summary),
        ],
        rows=[(f"request {row['id']}", request_facts(row)) for _, row in points.iterrows()],
    )


def _settings(summary: Summary) -> Iterator[str]:
    """The policy's parameters."""
    scheduler = summary["provenance"]["scheduler"]
    settings = ", ".join(f"{k} {said(v)}" for k, v in scheduler["parameters"].items())
    if settings:
        yield f"{scheduler['name']} with {settings}."


def _answer(summary: Summary) -> Iterator[str]:
    ttft, tpot = summary["ttft_ms"], summary["tpot_ms"]
    yield (
        f"{summary['finished']:,} of {summary['submitted']:,} requests finished in "
        f"{summary['duration_s'] or 0:,.1f} simulated seconds."
    )
    if ttft["n"]:
        streams = ""
        if tpot["n"]:
            streams = f" TPOT is {tpot['p50']:,.1f} ms (p50) and {tpot['p99']:,.1f} ms (p99)."
        yield (
            f"Half of the users see their first token within {ttft['p50']:,.0f} ms, 99 % within "
            f"{ttft['p99']:,.0f} ms.{streams}"
        )
    if summary["slo"]:
        limits = " and ".join(
            f"{name.removesuffix('_ms').upper()} ≤ {said(held['limit'])} ms"
            for name, held in summary["slo"].items()
        )
        share = summary["goodput_fraction"] or 0.0
        yield (
            f"{round(share * summary['submitted']):,} ({percent(share)}) meet {limits}: a "
            f"goodput of {summary['request_goodput'] or 0:.2f} requests/s."
        )


def _tiles(summary: Summary) -> Iterator[tuple[str, str]]:
    for field, name in (("ttft_ms", "TTFT p99"), ("tpot_ms", "TPOT p99"), ("itl_ms", "ITL p99")):
        if summary[field]["n"]:
            yield f"{summary[field]['p99']:,.0f} ms", name
    if summary["output_throughput"] is not None:
        yield f"{summary['output_throughput']:,.0f}", "output tokens/s"
    if summary["request_goodput"] is not None:
        yield f"{summary['request_goodput']:.2f}", "good requests/s"
    if summary["kv_util_peak"] is not None:
        yield percent(summary["kv_util_peak"], 0), "of the KV cache at most"


def _warnings(summary: Summary) -> Iterator[str]:
    if summary["cost_model"]["stamp"]:
        yield accuracy_sentence(summary["cost_model"])
    beyond = extrapolated_share(summary)
    if beyond:
        yield f"{percent(beyond)} of the time was priced beyond the measured range."
    if summary["saturated"]:
        yield (
            f"Saturated: {summary['saturation']['reason']}; the means describe this run, not a "
            "steady state."
        )
    for state in ("rejected", "unfinished", "not_arrived", "dropped"):
        if summary[state]:
            yield f"{summary[state]:,} requests {state.replace('_', ' ')}."
    yield from summary["provenance"]["notes"]


def _provenance(summary: Summary) -> Section:
    config = yaml.safe_dump(dict(summary["config"]), sort_keys=False, allow_unicode=True)
    return Section(
        "Provenance: run it again",
        ["Saved as config.yaml: runway simulate config.yaml --out DIR"],
        facts=facts_of(summary["provenance"]),
        code=config,
    )
