"""The page of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from experiments.config import RunConfig
from experiments.memory import build_cost_model, describe_cost_model
from experiments.percent import percent
from experiments.plots.latency_throughput import LOADS
from experiments.plots.style import level_label
from experiments.plots.sweep_table import SweepTable, load_sweep
from experiments.sweep.ranking import best_first
from experiments.yaml_file import read_yaml
from simulator.errors import RunwayError

from .accuracy import accuracy_section
from .knobs import frontier_chart, heatmap_chart, knob_charts, load_chart, shown_over
from .page import Page, Section, facts_of, said
from .sweep_points import (
    extrapolated,
    is_missing,
    plain_name,
    point_facts,
    points_section,
    with_interval,
)


def sweep_page(folder: Path) -> Page:
    """The page of a folder that `runway sweep --out` wrote."""
    table = load_sweep(folder)
    saved = read_yaml(folder / "sweep.yaml").values
    return Page(
        title=f"sweep {folder.resolve().name}",
        question=_question(table),
        answer=[*_answer(table), *_means(table)],
        tiles=list(_tiles(table)),
        warnings=list(_warnings(table)),
        sections=[
            *_frontier(table),
            *_map(table),
            *_load(table),
            *(_knob(table, field) for field in table.swept if field != "seed"),
            points_section(table),
            *_accuracy(saved),
            _provenance(saved),
        ],
        rows=[
            (f"point {row['index']}: {_named(table, row)}", point_facts(table, row, saved))
            for row in table.frame.to_dict("records")
        ],
    )


def _question(table: SweepTable) -> str:
    fields = [plain_name(field) for field in table.swept]
    named = " and ".join([", ".join(fields[:-1]), fields[-1]] if len(fields) > 1 else fields)
    serve = "serve" if len(fields) > 1 else "serves"
    limits = _limits(table)
    within = f" within {limits}" if limits else ""
    return f"Which {named or 'setting'} {serve} {table.setting} best{within}?"


def _limits(table: SweepTable) -> str:
    return " and ".join(
        f"{name.removesuffix('_ms').upper()} ≤ {said(float(ms))} ms"
        for name, ms in table.slo.items()
    )


def _best(table: SweepTable, column: str) -> Mapping[Any, Any] | None:
    """The point with the best number; of equals as printed the one with the best others."""
    ran = table.measured.dropna(subset=[column])
    if ran.empty:
        return None
    best: Mapping[Any, Any] = best_first(ran, column).iloc[0].to_dict()
    return best


def _answer(table: SweepTable) -> Iterator[str]:
    best = _best(table, "request_goodput")
    if best is None:
        yield "No point ran: the table says why."
        return
    yield (
        f"Most requests within the limits: {_named(table, best)}, with "
        f"{with_interval(best, 'request_goodput', 2)} good requests/s "
        f"({percent(best['goodput_fraction'])}), {_latencies(best)}."
    )
    for column, words in (
        ("ttft_ms_p99", "Soonest first tokens"),
        ("tpot_ms_p99", "Smoothest streams"),
    ):
        other = _best(table, column)
        if other is not None and other["index"] != best["index"]:
            yield (
                f"{words}: {_named(table, other)}, {_latencies(other)}; "
                f"{with_interval(other, 'request_goodput', 2)} good requests/s."
            )


def _means(table: SweepTable) -> Iterator[str]:
    """What the numbers are of points that were run with several seeds."""
    if table.seeds > 1:
        yield (
            f"{table.means_in_words()} Behind ± stands half of its 95 % confidence interval "
            "(Student's t); pointing at a point shows both ends."
        )


def _latencies(row: Mapping[Any, Any]) -> str:
    parts = [
        f"{name} p99 {with_interval(row, column, 0)} ms"
        for column, name in (("ttft_ms_p99", "TTFT"), ("tpot_ms_p99", "TPOT"))
        if not is_missing(row[column])
    ]
    return " and ".join(parts) or "without latencies"


def _named(table: SweepTable, row: Mapping[Any, Any]) -> str:
    """Its swept settings in words."""
    return ", ".join(level_label(field, row[field]) for field in table.swept) or "the only point"


def _tiles(table: SweepTable) -> Iterator[tuple[str, str]]:
    ran = table.measured
    yield f"{len(ran):,} of {len(table.frame):,}", "points ran"
    best = _best(table, "request_goodput")
    if best is not None:
        yield f"{best['request_goodput']:.2f}", "good requests/s at best"
    for column, name in (("ttft_ms_p99", "TTFT p99"), ("tpot_ms_p99", "TPOT p99")):
        if ran[column].notna().any():
            yield (
                f"{ran[column].min():,.0f} to {ran[column].max():,.0f} ms",
                f"{name} over all points",
            )
    yield f"{int(ran['saturated'].sum()):,}", "points saturated"


def _warnings(table: SweepTable) -> Iterator[str]:
    frame = table.frame
    failed = frame[frame["status"] != "ok"]
    for (status, reason), group in failed.groupby(["status", "reason"], dropna=False):
        points = f"{len(group)} point{'s' if len(group) > 1 else ''}"
        yield f"{points} {status}: {reason}"
    saturated = int(table.measured["saturated"].sum())
    if saturated:
        yield (
            f"{saturated:,} points are saturated: their means describe these runs, not a steady "
            "state."
        )
    beyond = extrapolated(table.measured)
    if len(beyond):
        most = percent(float(beyond["extrapolated_share"].max()))
        who = "1 point was" if len(beyond) == 1 else f"{len(beyond):,} points were"
        its = "its" if len(beyond) == 1 else "their"
        yield f"{who} priced beyond the measured range, for at most {most} of {its} time."


def _frontier(table: SweepTable) -> Iterator[Section]:
    chart = frontier_chart(table)
    if chart is not None:
        yield Section(
            "What a quick first token costs the running streams",
            ["Lower left is better. Point at a setting for its whole configuration."],
            charts=[chart],
        )


def _map(table: SweepTable) -> Iterator[Section]:
    chart = heatmap_chart(table)
    if chart is not None:
        yield Section("Goodput over two settings", charts=[chart])


def _load(table: SweepTable) -> Iterator[Section]:
    charts = load_chart(table)
    if charts:
        load = next(field for field in LOADS if field in table.swept)
        yield Section("What more load costs", list(_held_words(table, load)), charts=charts)


def _knob(table: SweepTable, field: str) -> Section:
    charts = knob_charts(table, field)
    words = list(_held_words(table, field))
    return Section(f"What the {plain_name(field)} changes", words, charts=charts)


def _held_words(table: SweepTable, field: str) -> Iterator[str]:
    """Which value is shown of the settings that charts over this one have no room for."""
    words = shown_over(table, field).words
    if words:
        yield words


def _accuracy(saved: Mapping[str, Any]) -> Iterator[Section]:  # Any: YAML values
    """The stamp of each cost table of the sweep."""
    base, grid = saved["base"], saved.get("grid") or {}
    names: Sequence[Any] = grid.get("cost_model") or [base.get("cost_model")]
    known = RunConfig.model_fields
    for name in names:
        fields = {k: v for k, v in base.items() if k in known and k != "cost_model"}
        try:
            config = RunConfig(**fields, cost_model=name)
            described = describe_cost_model(config, build_cost_model(config).table)
        except (RunwayError, ValueError) as error:
            text = f"The cost table {name} cannot be read here any more: {error}"
            yield Section("How accurate are the prices", [text])
            continue
        yield accuracy_section(described)


def _provenance(saved: Mapping[str, Any]) -> Section:  # Any: YAML values
    asked = {name: saved[name] for name in saved if name not in ("points", "setting", "provenance")}
    return Section(
        "Provenance: run it again",
        ["Saved as sweep.yaml: runway sweep sweep.yaml --out DIR"],
        facts=facts_of(saved["provenance"]),
        code=yaml.safe_dump(asked, sort_keys=False, allow_unicode=True),
    )
