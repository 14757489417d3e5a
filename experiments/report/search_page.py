"""The page of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from experiments.percent import percent
from experiments.search.saved import load_search

from .accuracy import accuracy_section
from .page import Cell, Facts, Page, Section, Table, facts_of, said
from .search_charts import limit_charts, sensitivity_section
from .sweep_points import is_missing, plain_name

Answer = Mapping[str, Any]
"""One of search.json's answers. Any: JSON values."""

_NUMBERS = {
    "request_goodput": "good requests/s",
    "output_throughput": "output tokens/s",
    "ttft_ms_p50": "TTFT p50 ms",
    "ttft_ms_p99": "TTFT p99 ms",
    "tpot_ms_p50": "TPOT p50 ms",
    "tpot_ms_p99": "TPOT p99 ms",
    "itl_ms_p99": "ITL p99 ms",
}


def search_page(folder: Path) -> Page:
    """The page of a folder that `runway search --out` wrote."""
    report, runs = load_search(folder)
    answers: list[Answer] = sorted(report["answers"], key=lambda each: -(each["rate"] or 0.0))
    knobs = list(report["question"]["over"])
    base = runs[runs["replicate"] == 0].reset_index(names="row")
    return Page(
        title=f"search {folder.resolve().name}",
        question=_question(report, knobs),
        answer=list(_words(answers, knobs)),
        tiles=list(_tiles(report, answers)),
        warnings=list(_warnings(report, answers)),
        sections=[
            Section(
                "How the limits fare as the load rises",
                ["Each line is a scheduler at its best settings; a point is a run."],
                charts=list(limit_charts(report, answers, base)),
            ),
            *sensitivity_section(answers, knobs),
            Section("Answers", tables=[_answer_table(answers, knobs)]),
            _run_table(base, knobs),
            accuracy_section(report["cost_model"]),
            _provenance(report),
        ],
        rows=[
            (f"{row['scheduler']} at {row['rate']:g} requests/s", _facts(row, knobs, report))
            for row in base.to_dict("records")
        ],
    )


def _question(report: Mapping[str, Any], knobs: Sequence[str]) -> str:
    slo = str(report["question"]["slo_in_words"]).replace("<=", "≤").replace(">=", "≥")
    schedulers = report["question"]["schedulers"]
    asked = [*(["scheduler"] if len(schedulers) > 1 else []), *map(plain_name, knobs)]
    name = report["workload"].get("name") or "the workload"
    if not asked:
        return f"How much load of {name} can {schedulers[0]} take within {slo}?"
    take = "take" if len(asked) > 1 else "takes"
    return f"Which {' and '.join(asked)} {take} the most load of {name} within {slo}?"


def _words(answers: Sequence[Answer], knobs: Sequence[str]) -> Iterator[str]:
    best = answers[0] if answers else None
    if best is None or not best["rate"]:
        yield "No rate that was tried meets the limits."
        return
    settings = ", ".join(f"{plain_name(knob)} {_setting(best, knob)}" for knob in knobs)
    who = f"{best['scheduler']} with {settings}" if settings else str(best["scheduler"])
    if best["failed_rate"]:
        fails = f"At {best['failed_rate']:g} it fails {', '.join(best['binding'])}."
        yield f"{who}: up to {best['rate']:g} requests/s{_between(best)}. {fails}"
    else:
        yield f"{who}: {best['rate']:g} requests/s and more; no rate that was tried is too high."
    for other in answers[1:]:
        told = f"{other['rate']:g} requests/s" if other["rate"] else other["status"]
        yield f"{other['scheduler']}: {told}{_between(other)}."
    flags = next((each["vllm_flags"] for each in answers if each["vllm_flags"]), None)
    if flags:
        yield f"To paste: vllm serve MODEL {flags}"


def _between(answer: Answer) -> str:
    """The confidence interval of a rate."""
    sure = answer["certainty"] or {}
    if sure.get("ci_low") is None:
        return ""
    share = f"{100 * sure['confidence']:.0f} % confidence"
    return f" ({share}: {sure['ci_low']:.2f} to {sure['ci_high']:.2f})"


def _setting(answer: Answer, knob: str) -> str:
    return "not used" if knob in answer["unused"] else said((answer["settings"] or {}).get(knob))


def _tiles(report: Mapping[str, Any], answers: Sequence[Answer]) -> Iterator[tuple[str, str]]:
    best = answers[0] if answers else None
    if best and best["rate"]:
        yield f"{best['rate']:g}/s", f"requests within the SLO, {best['scheduler']}"
        at = best["at_rate"] or {}
        for column, name in (("ttft_ms_p99", "TTFT p99 there"), ("tpot_ms_p99", "TPOT p99 there")):
            if at.get(column) is not None:
                yield f"{at[column]:,.0f} ms", name
        if best["baseline_rate"]:
            yield f"{best['baseline_rate']:g}/s", "with the settings as given"
    yield f"{report['evaluations']:,}", "runs"


def _warnings(report: Mapping[str, Any], answers: Sequence[Answer]) -> Iterator[str]:
    if report["cost_model"]["stamp"]:
        yield str(report["cost_model"]["stamp"])
    for each in answers:
        if not each["monotone"]:
            yield f"{each['scheduler']}: some lower rate fails where a higher one passes."
        if each["saturates_from"]:
            yield f"{each['scheduler']}: saturated from {each['saturates_from']:g} requests/s."
        beyond = (each["at_rate"] or {}).get("extrapolated_share")
        if beyond:
            yield (
                f"{each['scheduler']}: {percent(beyond)} of the time was priced beyond the "
                "measured range."
            )
        for reason in each["invalid"].values():
            yield f"{each['scheduler']}: {reason}"


def _answer_table(answers: Sequence[Answer], knobs: Sequence[str]) -> Table:
    rows: list[list[Cell]] = []
    for each in answers:
        sure, at = each["certainty"] or {}, each["at_rate"] or {}
        rows.append(
            [
                each["scheduler"],
                each["rate"],
                sure.get("ci_low"),
                sure.get("ci_high"),
                each["failed_rate"],
                ", ".join(each["binding"]),
                *(_setting(each, knob) for knob in knobs),
                each["baseline_rate"],
                *(at.get(column) for column in ("ttft_ms_p99", "tpot_ms_p99", "output_throughput")),
            ]
        )
    heading = (
        *("scheduler", "rate", "low", "high", "fails at", "not met there"),
        *map(plain_name, knobs),
        *("rate as given", "TTFT p99 ms", "TPOT p99 ms", "output tokens/s"),
    )
    return Table(heading, rows)


def _run_table(base: pd.DataFrame, knobs: Sequence[str]) -> Section:
    columns = [column for column in _NUMBERS if column in base]
    rows: list[list[Cell]] = [
        [
            str(row["scheduler"]),
            *(str(row[knob]) for knob in knobs),
            float(row["rate"]),
            "yes" if row["passed"] else str(row["broken"] or row["error"] or "no"),
            *(None if is_missing(row[column]) else float(row[column]) for column in columns),
        ]
        for row in base.to_dict("records")
    ]
    heading = (
        "scheduler",
        *map(plain_name, knobs),
        "rate",
        "within the SLO",
        *(_NUMBERS[c] for c in columns),
    )
    table = Table(heading, rows, numbers=list(range(len(base))))
    words = [
        "Every rate of every configuration, without the replicates behind the confidence intervals."
    ]
    return Section("All runs", words, tables=[table])


def _facts(row: Mapping[Any, Any], knobs: Sequence[str], report: Mapping[str, Any]) -> Facts:
    """A run's full configuration, then its numbers. Any: cells and JSON values."""
    facts = [(knob, str(row[knob])) for knob in knobs]
    answer = next(
        (a for a in report["answers"] if a["configuration"] == row["configuration"]), None
    )
    if answer and answer["resolved"]:
        facts += facts_of({k: v for k, v in answer["resolved"].items() if k not in knobs})
    facts += facts_of({k: v for k, v in report["question"]["base"].items() if k not in knobs})
    facts.append(
        ("within the SLO", "yes" if row["passed"] else f"no: {row['broken'] or row['error']}")
    )
    for column, name in _NUMBERS.items():
        if column in row and not is_missing(row[column]):
            facts.append((name, f"{row[column]:,.1f}"))
    return facts


def _provenance(report: Mapping[str, Any]) -> Section:
    return Section(
        "Provenance",
        facts=facts_of({**report["provenance"], "workload": report["workload"]}),
        code=yaml.safe_dump(report["question"], sort_keys=False, allow_unicode=True),
    )
