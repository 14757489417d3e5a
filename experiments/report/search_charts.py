"""The charts of a search's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from experiments.plots.style import value_label

from .chart import Chart, across, colour, upward
from .page import Section, said
from .scale import fitted, over_names
from .sweep_points import plain_name

Answer = Mapping[str, Any]
"""One of search.json's answers. Any: JSON values."""


def limit_charts(
    report: Mapping[str, Any], answers: Sequence[Answer], base: pd.DataFrame
) -> Iterator[Chart]:
    """The limited number over the rate, a line per scheduler at its best configuration."""
    slo = report["question"]["slo"]
    limits = [(name, float(limit), "ms") for name, limit in slo["limits"].items() if name in base]
    if slo.get("attainment"):
        limits.append(("goodput_fraction", float(slo["attainment"]), "share of requests"))
    for name, limit, unit in limits:
        known = base.dropna(subset=[name])
        best = {
            a["scheduler"]: known[known["configuration"] == a["configuration"]] for a in answers
        }
        best = {
            scheduler: rows.sort_values("rate") for scheduler, rows in best.items() if len(rows)
        }
        if not best:
            continue
        drawn = pd.concat(list(best.values()))
        x = fitted("arrival rate (requests/s)", [0.0, *drawn["rate"]], *across())
        y = fitted(unit, [*drawn[name].astype(float), limit], *upward())
        chart = Chart(
            name.replace("_", " ").upper() if unit == "ms" else "Requests within the SLO", x, y
        )
        chart.limit(limit, "y", f"limit {said(limit)}{' ms' * (unit == 'ms')}")
        for rank, (scheduler, rows) in enumerate(best.items()):
            chart.line(zip(rows["rate"], rows[name].astype(float), strict=True), colour(rank))
            for row in rows.to_dict("records"):
                css = f"{colour(rank)}{' ring' * (not row['passed'])}"
                chart.dot((row["rate"], float(row[name])), css, row=_place(base, row))
            chart.legend.append((colour(rank), scheduler, "dot"))
        chart.legend.append(("muted", "fails a limit", "ring"))
        yield chart


def _place(base: pd.DataFrame, row: Mapping[Any, Any]) -> int:
    """The number of a run among the page's rows."""
    return int(base.index[base["row"] == row["row"]][0])


def sensitivity_section(answers: Sequence[Answer], knobs: Sequence[str]) -> Iterator[Section]:
    """The rate with one setting turned, the others at their best."""
    charts = []
    for knob in knobs:
        levels = {
            each["scheduler"]: [
                level for level in each["sensitivity"].get(knob, []) if level["rate"]
            ]
            for each in answers
        }
        levels = {scheduler: held for scheduler, held in levels.items() if held}
        values = list(dict.fromkeys(level["value"] for held in levels.values() for level in held))
        if len(values) < 2:
            continue
        x = over_names(plain_name(knob), [value_label(value) for value in values], *across())
        rates = [level["rate"] for held in levels.values() for level in held]
        chart = Chart(
            f"Highest rate over {plain_name(knob)}",
            x,
            fitted("requests/s", rates, *upward(), log=False),
        )
        for rank, (scheduler, held) in enumerate(levels.items()):
            points = [(float(values.index(level["value"])), level) for level in held]
            chart.line([(at, level["rate"]) for at, level in points], colour(rank))
            for at, level in points:
                tip = (
                    f"{scheduler}, {plain_name(knob)} {value_label(level['value'])}\n"
                    f"{level['rate']:g} requests/s"
                    + (
                        "\nthe best"
                        if level["is_best"]
                        else f"\n{100 * (level['change'] or 0):+.0f} %"
                    )
                )
                chart.dot((at, level["rate"]), colour(rank), tip=tip)
            chart.legend.append((colour(rank), scheduler, "dot"))
        charts.append(chart)
    if charts:
        words = ["The highest rate with one setting turned, the others at their best."]
        yield Section("What each setting is worth", words, charts=charts)
