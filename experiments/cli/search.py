"""`runway search`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import SweptCommand, field_options, given, out_option
from .search_report import print_search
from .terminal import Tick, progress_bar, say
from .workers import backend_option, jobs_option

if TYPE_CHECKING:
    from experiments.search import Question
    from experiments.search.evaluator import Progress

NOTHING_FOUND = 1
OWN_MEANING = ("slo", "scheduler", "rate")
"""Settings of a run whose flags mean something else here."""


def _parameters() -> Iterator[click.Parameter]:
    for parameter in field_options(lists=True):
        if parameter.name not in OWN_MEANING:
            yield parameter


@click.command("search", cls=SweptCommand, params=list(_parameters()))
@click.argument("config", metavar="[RUN.YAML]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--slo",
    multiple=True,
    metavar="LIMIT=TIME,...",
    help="What a rate must meet: ttft_p99=500ms, tpot_mean=40ms ... (ttft, tpot, itl, e2el; mean, "
    "p50, p90, p95, p99, max), or of single requests ttft=500ms, tpot=50ms ...; repeatable.",
)
@click.option(
    "--attainment",
    default=0.99,
    metavar="0..1",
    help="Share of requests that must meet the limits of single requests. [default: 0.99]",
)
@click.option(
    "--scheduler",
    "--schedulers",
    "schedulers",
    metavar="NAME[,...]",
    help="Policies to compare, each with its own answer. [default: chunked]",
)
@click.option(
    "--over",
    multiple=True,
    metavar="KNOB[=VALUES],...",
    help="Settings to turn: a name for its usual values, NAME=V1,V2 or NAME=LOW..HIGH (log:LOW.. "
    "HIGH for equal ratios); repeatable. A flag with several values says the same.",
)
@click.option("--rate", metavar="REQ/S", help="Rate to try first. [default: the workload's own]")
@click.option(
    "--rates",
    metavar="LOW:HIGH",
    help="Try no rate beyond these. [default: the first, divided and multiplied by 1024]",
)
@click.option(
    "--precision",
    default=0.01,
    metavar="SHARE",
    help="How near the highest rate that passes and the lowest that fails come. [default: 0.01]",
)
@click.option(
    "--replicates",
    default=8,
    metavar="N",
    help="Other workloads of the kind that say how sure the answer is: seeds, or resampled "
    "stretches of a recorded trace; 0 for none. [default: 8]",
)
@click.option(
    "--blocks", default=20, metavar="N", help="Stretches that a trace is cut into. [default: 20]"
)
@click.option(
    "--exhaustive",
    default=64,
    metavar="N",
    help="Try every configuration of spaces up to this size; of larger ones --trials. "
    "[default: 64]",
)
@click.option("--trials", default=64, metavar="N", help="Proposals of the optimiser. [default: 64]")
@click.option("--search-seed", default=0, metavar="N", help="Seed of the optimiser. [default: 0]")
@click.option(
    "--allow-saturated",
    is_flag=True,
    help="Accept rates at which the queue grows as long as requests arrive.",
)
@out_option
@jobs_option
@backend_option
@click.option("--figures/--no-figures", default=True, help="Draw the figure. [default: yes]")
@click.option("--json", "as_json", is_flag=True, help="Print search.json.")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(
    config: Path | None,
    out: Path,
    figures: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,  # Any: a setting of a run, or one of the options above
) -> int:
    """The highest rate that meets an SLO, and the configuration that gets there.

    Brackets and bisects the arrival rate of one workload; with --over it finds the best values of
    those settings for each scheduler, what each is worth, and the flags of `vllm serve`. RUN.YAML
    holds settings of a run, as for `runway simulate`. The same command goes on with a search that
    was stopped. Exit code 1: no rate meets the SLO.
    """
    from experiments.search import EVERY_RATE, FOUND, run_search

    workers = {name: flags.pop(name) for name in ("jobs", "backend")}
    question = _question(config, flags)
    with progress_bar("searching: runs") as tick:
        outcome = run_search(question, out, **workers, progress=_progress(tick, question))
    drawn = _draw(out) if figures else []
    if as_json and not quiet:
        from experiments.results import json_text

        say(json_text(outcome.report))
    elif not quiet:
        print_search(outcome, question, out, drawn)
    met = any(answer.status in (FOUND, EVERY_RATE) for answer in outcome.answers)
    return 0 if met else NOTHING_FOUND


def _question(config: Path | None, flags: dict[str, Any]) -> Question:  # Any: as for `command`
    from experiments.config import load_config
    from experiments.search import Question, read_knobs, read_objective
    from experiments.sweep import split_flags
    from experiments.yaml_file import read_yaml

    own = {name: flags.pop(name) for name in _OWN}
    base, lists = split_flags(given(flags))
    if config is not None:
        load_config(config, base)
        base = {**read_yaml(config).values, **base}
    base |= {"rate": own["rate"]} if own["rate"] is not None else {}
    named = str(own["schedulers"] or base.get("scheduler") or "chunked").split(",")
    objective = read_objective(
        own["slo"], own["attainment"], saturated_is_bad=not own["allow_saturated"]
    )
    return Question(
        {name: value for name, value in base.items() if name not in ("slo", "scheduler")},
        tuple(dict.fromkeys(name.strip() for name in named)),
        read_knobs(own["over"], lists),
        objective,
        rates=_ends(own["rates"]),
        seed=own["search_seed"],
        **{name: own[name] for name in _PLAIN},
    )


_PLAIN = ("precision", "replicates", "blocks", "exhaustive", "trials")
_OWN = (
    *("slo", "attainment", "schedulers", "over", "rate", "rates", "search_seed"),
    *("allow_saturated", *_PLAIN),
)


def _ends(text: str | None) -> tuple[float, float] | None:
    from simulator.errors import ConfigError

    if text is None:
        return None
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError:
        raise ConfigError(f"--rates {text!r}: must be LOW:HIGH in requests/s") from None


def _progress(tick: Tick, question: Question) -> Progress:
    """Against a guess of how many runs there will be: it grows if that was too low."""
    knobs = question.knobs
    size = knobs.size if knobs.size is not None and knobs.size <= question.exhaustive else None
    tried = (size or question.trials) if knobs.domains else 0
    levels = sum(len(knobs.levels(name)) for name in knobs.domains)
    guess = len(question.schedulers) * (24 + tried + 5 * levels + 5 * question.replicates)
    return lambda done, stage: tick(done, max(guess, done + 5), stage)


def _draw(out: Path) -> list[Path]:
    from .plot import draw

    return draw(out)
