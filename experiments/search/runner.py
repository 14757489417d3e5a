"""A search from the question to its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config import RunConfig
from experiments.fork_server import warm_up
from experiments.sweep.backends import check_workers, workers
from experiments.sweep.point import shared_workload
from experiments.sweep.sharing import Handle, file_key, in_memory, read_files
from experiments.sweep.store import named_files
from experiments.workload import Workload
from simulator.errors import ConfigError

from .answer import Answer, answer_of, no_answer
from .best import Incumbent, Rates, advance, challenge
from .bracket import rounded
from .candidates import Candidate, Candidates
from .certainty import Certainty, certainties
from .evaluator import Evaluator, Progress
from .files import open_folder, write_search
from .knobs import Knobs, Settings
from .question import Question, kind_of, rates_of, workload_config
from .sampled import search_space
from .sensitivity import Level, sensitivity

MOST_ENUMERATED = 4096
"""Larger finite spaces are not listed to see how many configurations come to the same."""

PROFILE = (0.5, 0.7, 0.85, 0.95, 1.05, 1.2, 1.5, 2.0)
"""Multiples of an answer's rate that are run too: is passing monotone, where does it saturate?"""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """A finished search. answers: one per scheduler, in the order asked. report: search.json."""

    answers: tuple[Answer, ...]
    report: dict[str, Any]  # Any: JSON values
    evaluations: int
    resumed: int


@dataclass(slots=True)
class _Race:
    """One scheduler's configurations. best and baseline are None if none can be run."""

    candidates: Candidates
    best: Incumbent | None
    baseline: Incumbent | None
    compared: int = 1
    levels: tuple[Level, ...] = ()
    certainty: Certainty | None = None

    @property
    def name(self) -> str:
        """Of the scheduler."""
        return self.candidates.scheduler


def run_search(
    question: Question,
    out: Path,
    *,
    jobs: int = 1,
    backend: str = "loky",
    progress: Progress | None = None,
) -> SearchOutcome:
    """Answer a question and write `search.json` and `evaluations.parquet` to `out`.

    The answer is the same whatever the number of processes. Every run is kept in
    `out/evaluations`, so that the same call goes on after a crash, and another question takes up
    what it shares with the one before.

    Raises:
        ConfigError: the question makes no sense, or `out` cannot be written to.
        RunwayError: the workload cannot be read, or no configuration can be run.
    """
    check_workers(jobs, backend)
    warm_up(jobs, backend)
    config = workload_config(question)
    files = read_files([config])
    workload = _workload(config, in_memory(files))
    rates = rates_of(question, config, workload.trace)
    races = [_race(question, name, workload, rates) for name in question.schedulers]
    _require_one(races)
    folder = open_folder(out)
    with workers(files, folder, jobs=jobs, backend=backend) as pool:
        evaluator = Evaluator(
            pool,
            folder,
            question.objective,
            kind_of(config, workload.trace),
            question.blocks,
            _files(question),
            progress,
        )
        answers = _answers(question, races, evaluator, rates)
    report = write_search(question, out, answers, evaluator, workload=workload, config=config)
    return SearchOutcome(tuple(answers), report, len(evaluator.done), evaluator.resumed)


def _answers(
    question: Question, races: Sequence[_Race], evaluator: Evaluator, rates: Rates
) -> list[Answer]:
    evaluator.stage = "first brackets"
    started = [each for r in races for each in (r.best, r.baseline) if each is not None]
    advance(evaluator, [(each.candidate, each.bracket, 0) for each in started])
    for race in races:
        evaluator.stage = f"{race.name}: configurations"
        _improve(question, race, evaluator, rates)
    for race in races:
        evaluator.stage = f"{race.name}: around the answer"
        _profile(race, evaluator, rates)
    for race in races:
        evaluator.stage = f"{race.name}: what settings are worth"
        if race.best is not None and race.best.rate:
            told = sensitivity(evaluator, race.best, question.knobs, race.candidates, rates)
            race.levels = tuple(told)
    evaluator.stage = "replicates"
    running = [(race, race.best) for race in races if race.best is not None]
    sure = certainties(evaluator, [best for _, best in running], rates, question.replicates)
    for (race, _), certainty in zip(running, sure, strict=True):
        race.certainty = certainty
    return [_answer(question, race, evaluator) for race in races]


def _answer(question: Question, race: _Race, evaluator: Evaluator) -> Answer:
    invalid, space = dict(race.candidates.invalid), question.knobs.size
    if race.best is None:
        return no_answer(race.name, invalid, space)
    return answer_of(
        evaluator,
        race.best,
        race.baseline,
        certainty=race.certainty,
        sensitivity=race.levels,
        configurations=race.compared,
        space=space,
        invalid=invalid,
    )


def _race(question: Question, scheduler: str, workload: Workload, rates: Rates) -> _Race:
    """The configuration that is bracketed first is the one of the space nearest to the base."""
    judged = {**question.base, "slo": question.objective.of_requests()}
    candidates = Candidates(judged, scheduler, workload)
    given = candidates.make({})
    first = candidates.make(_nearest(question.knobs, given)) or _any(question.knobs, candidates)
    baseline = Incumbent(given, rates.bracket()) if given else None
    best = Incumbent(first, rates.bracket()) if first else None
    return _Race(candidates, best, baseline)


def _nearest(knobs: Knobs, given: Candidate | None) -> Settings:
    chosen: dict[str, Any] = {}
    for name, domain in knobs.domains.items():
        levels = knobs.levels(name)
        held = getattr(given.config, name) if given else None
        inside = held in levels or (
            held is not None and not hasattr(domain, "values") and domain.low <= held <= domain.high
        )
        chosen[name] = held if inside else levels[len(levels) // 2]
    return chosen


def _any(knobs: Knobs, candidates: Candidates) -> Candidate | None:
    """The first of the space that can be run."""
    if knobs.size is None or knobs.size > MOST_ENUMERATED:
        return None
    return next((c for s in knobs.combinations() if (c := candidates.make(s)) is not None), None)


def _improve(question: Question, race: _Race, evaluator: Evaluator, rates: Rates) -> None:
    if race.best is None or not question.knobs.domains:
        return
    size = question.knobs.size
    if size is not None and size <= MOST_ENUMERATED:
        every = race.candidates.distinct(question.knobs.combinations())
        if len(every) <= question.exhaustive:
            challenge(evaluator, race.best, every, rates)
            race.compared = len(every)
            return
    race.compared = search_space(
        evaluator,
        race.best,
        question.knobs,
        race.candidates,
        rates=rates,
        trials=question.trials,
        seed=question.seed,
    )


def _profile(race: _Race, evaluator: Evaluator, rates: Rates) -> None:
    """Runs around an answer; if one is out of order, the bracket is closed again below it."""
    for each in (race.best, race.baseline):
        if each is None or not each.rate:
            continue
        places = [rounded(each.rate * factor) for factor in PROFILE]
        inside = [rate for rate in places if rates.lowest <= rate <= rates.highest]
        found = evaluator([(each.candidate, rate, 0) for rate in inside])
        for rate, evaluation in zip(inside, found, strict=True):
            each.bracket.tell(rate, passed=evaluation.passes(evaluator.objective))
        advance(evaluator, [(each.candidate, each.bracket, 0)])


def _files(question: Question) -> dict[str, str]:
    """What decides the numbers beside the settings."""
    turned = [
        (name, value) for name in question.knobs.domains for value in question.knobs.levels(name)
    ]
    policies = [("scheduler", name) for name in question.schedulers]
    return named_files([*question.base.items(), *policies, *turned])


def _require_one(races: Sequence[_Race]) -> None:
    if any(race.best is not None for race in races):
        return
    reasons = [reason for race in races for reason in race.candidates.invalid.values()]
    raise ConfigError("\n".join(dict.fromkeys(reasons)) or "no configuration can be run")


def _workload(config: RunConfig, files: dict[str, Handle]) -> Workload:
    return shared_workload(config, files.get(file_key(config) or ""))
