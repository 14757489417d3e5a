"""What `runway search` prints: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.percent import percent

from .terminal import number, print_table, say

if TYPE_CHECKING:
    from experiments.search import Answer, Question, SearchOutcome
    from experiments.search.sensitivity import Level

HEADINGS = {
    "chunk_size": "chunk size",
    "max_num_batched_tokens": "token budget",
    "max_num_seqs": "max seqs",
}

LONG_ENOUGH = 10.0
"""Arrivals should last this many times as long as a request."""


def print_search(outcome: SearchOutcome, question: Question, out: Path, drawn: list[Path]) -> None:
    """Everything worth saying about a search."""
    from experiments.search import ranked

    answers = ranked(outcome.answers)
    say(f"{_setting(outcome)}; SLO {question.objective.words()}")
    for line in _headlines(answers, question):
        say(line)
    knobs = list(question.knobs.domains)
    print_table(
        "Highest rate that meets the SLO, requests/s; times in ms at that rate",
        [
            *("scheduler", "rate", "95 % confidence", "fails at", "not met there"),
            *(HEADINGS.get(name, name) for name in knobs),
            *("vs as given", "goodput/s", "TTFT p99", "TPOT p99", "tokens/s"),
        ],
        [_cells(answer, knobs) for answer in answers],
    )
    for answer in answers:
        if answer.sensitivity:
            _print_sensitivity(answer)
    for answer in answers:
        flags = answer.flags(question.knobs)
        if flags:
            like = "" if answer.scheduler == "vllm" else f" (the nearest to {answer.scheduler})"
            say(f"vllm serve MODEL {flags}{like}")
    for line in _warnings(answers, outcome):
        say(f"! {line}")
    kept = f", {outcome.resumed} kept from before" if outcome.resumed else ""
    say(f"{outcome.evaluations} runs{kept}; results in {out}")
    for path in drawn:
        say(f"drew {path}")


def _setting(outcome: SearchOutcome) -> str:
    workload, table = outcome.report["workload"], outcome.report["cost_model"]
    named = workload.get("name") or workload.get("file", {}).get("name") or "generated workload"
    stamp = f" ({table['stamp'].partition(':')[0]})" if table["stamp"] else ""
    return f"{named}, {outcome.report['requests']:,} requests, {table['name']}{stamp}"


def _headlines(answers: list[Answer], question: Question) -> Iterator[str]:
    """The answer in words; for schedulers without one, the bound that is known instead."""
    from experiments.search import EVERY_RATE, FAILED, FOUND, INVALID, NO_RATE

    best = answers[0]
    if best.status == FOUND and best.rate is not None:
        sure = best.certainty
        within = f", {_span(best)} with 95 % confidence ({_method(best)})" if sure else ""
        rate = sure.rate if sure else best.rate
        equal = [
            each.scheduler
            for each in answers[1:]
            if each.rate and each.rate * (1 + question.precision) >= best.rate
        ]
        alike = f"; {', '.join(equal)} as good within the precision" if equal else ""
        yield f"best: {best.scheduler}, {rate:.4g} requests/s{within}{alike}"
    yield from _leads(answers)
    for answer in answers:
        if answer.status == NO_RATE and answer.beyond is not None:
            yield (
                f"{answer.scheduler}: no rate meets the SLO; even at {answer.failed:.4g} "
                f"requests/s {_misses(answer, question)}"
            )
        elif answer.status == EVERY_RATE:
            yield (
                f"{answer.scheduler}: every rate that was tried meets the SLO, up to "
                f"{answer.rate:.4g} requests/s: the answer lies above"
            )
        elif answer.status in (FAILED, INVALID):
            yield ": ".join((answer.scheduler, answer.status, *answer.binding))


def _leads(answers: list[Answer]) -> Iterator[str]:
    """The best against each other one, on the same workloads."""
    from experiments.search.certainty import lead

    best = answers[0]
    for other in answers[1:]:
        if best.certainty and other.certainty:
            apart, low, high = lead(best.certainty, other.certainty)
            yield (
                f"{best.scheduler} over {other.scheduler}: {apart:+.3g} requests/s, {low:.3g} to "
                f"{high:.3g} with 95 % confidence, on the same workloads"
            )


def _misses(answer: Answer, question: Question) -> str:
    """What is not met at the lowest rate, with its value."""
    assert answer.beyond is not None
    limits = {limit.name: limit.limit_ms for limit in question.objective.limits}
    told = []
    for name in answer.binding:
        held = answer.beyond.limits.get(name)
        if held is None:
            told.append(f"it is {name}")
        elif name in limits:
            value = "beyond measure" if held.value is None else f"{held.value:,.1f} ms"
            told.append(f"{name} is {value}, limit {limits[name]:g} ms")
        else:
            told.append(f"only {percent(held.share)} of requests meet their limits")
    return ", ".join(told)


def _method(answer: Answer) -> str:
    assert answer.certainty is not None
    runs = len(answer.certainty.rates)
    if answer.certainty.method == "seeds":
        return f"{runs} seeds"
    return f"{runs} resamplings of the trace in blocks of time"


def _span(answer: Answer) -> str:
    assert answer.certainty is not None
    return f"{answer.certainty.low:.4g} to {answer.certainty.high:.4g}"


def _cells(answer: Answer, knobs: list[str]) -> list[str]:
    sure, at = answer.certainty, answer.at
    rate = answer.rate if sure is None else sure.rate
    more = at.more if at else {}
    found = answer.candidate
    settings, unused = (found.resolved, found.unused) if found else ({}, ())
    return [
        answer.scheduler,
        "-" if rate is None else f"{rate:.4g}",
        _span(answer) if sure else "-",
        "-" if answer.failed is None else f"{answer.failed:.4g}",
        "-" if at is None and answer.failed is None else _binding(answer),
        *("-" if name in unused else _setting_text(settings.get(name)) for name in knobs),
        _gain(answer),
        number(more.get("request_goodput"), 2),
        number(more.get("ttft_ms_p99")),
        number(more.get("tpot_ms_p99")),
        number(more.get("output_throughput")),
    ]


def _binding(answer: Answer) -> str:
    failed = answer.beyond is not None and answer.beyond.error is not None
    return "the run fails" if failed else ", ".join(answer.binding) or "-"


def _gain(answer: Answer) -> str:
    """Over the same scheduler with no knob turned, on the same requests."""
    if answer.rate is None or answer.baseline_rate is None:
        return "-"
    return f"{100 * (answer.rate / answer.baseline_rate - 1):+.1f} %"


def _setting_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print_sensitivity(answer: Answer) -> None:
    """A row a knob."""
    assert answer.rate is not None
    unused = answer.candidate.unused if answer.candidate else ()
    rows = []
    for knob in dict.fromkeys(level.knob for level in answer.sensitivity):
        levels = [level for level in answer.sensitivity if level.knob == knob]
        told = [f"{_setting_text(level.value)}: {_change(level, answer.rate)}" for level in levels]
        words = f"not used by {answer.scheduler}" if knob in unused else "   ".join(told)
        rows.append([HEADINGS.get(knob, knob), words])
    print_table(
        f"{answer.scheduler}: what each setting is worth, the others at their best",
        ["setting", "value: change of the highest rate that meets the SLO"],
        rows,
        text_columns=2,
    )


def _too_short(answer: Answer, outcome: SearchOutcome) -> Iterator[str]:
    """A workload that is over before it is in its stride says little about a rate."""
    mean_ms = answer.at.more.get("e2el_ms_mean") if answer.at else None
    if not mean_ms or not answer.rate:
        return
    lasts_s = outcome.report["requests"] / answer.rate
    if lasts_s < LONG_ENOUGH * mean_ms / 1000:
        yield (
            f"{answer.scheduler}: at this rate all requests arrive within {lasts_s:,.0f} s and a "
            f"request takes {mean_ms / 1000:,.1f} s: too short to tell a queue that grows from a "
            "start; give more requests"
        )


def _change(level: Level, best: float) -> str:
    if level.invalid:
        return "cannot run"
    if level.rate is None:
        return "no rate"
    return "best" if level.is_best else f"{100 * (level.rate / best - 1):+.0f} %"


def _warnings(answers: list[Answer], outcome: SearchOutcome) -> Iterator[str]:
    stamp = outcome.report["cost_model"]["stamp"]
    if stamp:
        yield stamp
    for answer in answers:
        name = answer.scheduler
        if answer.violations:
            (failed, first), (_, last) = answer.violations[0], answer.violations[-1]
            yield (
                f"{name}: not monotone: {failed:.4g} requests/s fails, and of the higher rates "
                f"{len(answer.violations)} pass, {first:.4g} to {last:.4g}; the answer is the "
                "highest rate below any failure"
            )
        if answer.saturates_from is not None:
            yield f"{name}: saturated from {answer.saturates_from:.4g} requests/s (lowest tried)"
        yield from _too_short(answer, outcome)
        beyond = answer.at.more.get("extrapolated_share") if answer.at else None
        if beyond:
            yield f"{name}: {percent(beyond)} of the time was priced beyond the measured range"
        for settings, reason in list(answer.invalid.items())[:3]:
            yield f"{name}: {settings or 'as given'} cannot be run: {reason}"
        if answer.space is None or answer.configurations < (answer.space or 0):
            space = "a space without end" if answer.space is None else f"{answer.space:,}"
            yield f"{name}: {answer.configurations} different configurations compared, of {space}"
    found = [answer.candidate for answer in answers if answer.candidate and answer.rate]
    yield from dict.fromkeys(note for candidate in found for note in candidate.notes)
