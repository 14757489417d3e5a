"""Spaces too big to try everything: a seeded optimiser proposes, batch by batch.

Source: the tree-structured Parzen estimator, Bergstra et al., Algorithms for Hyper-Parameter
Optimization (NeurIPS 2011), as in Optuna.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from experiments.sweep.samples import Choice, Range
from experiments.sweep.values import Setting

from .best import Incumbent, Rates, challenge
from .candidates import Candidate, Candidates
from .evaluator import Evaluator
from .knobs import Knobs

if TYPE_CHECKING:
    import optuna

BATCH = 8
"""Proposals tried together: a fixed number, so that the answer does not depend on the processes."""


def search_space(
    evaluator: Evaluator,
    incumbent: Incumbent,
    knobs: Knobs,
    candidates: Candidates,
    *,
    rates: Rates,
    trials: int,
    seed: int,
) -> int:
    """Challenge the incumbent with `trials` proposals; how many different ones there were."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, n_startup_trials=2 * BATCH
        )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    scores: dict[str, float] = {}
    for start in range(0, trials, BATCH):
        asked = [study.ask() for _ in range(min(BATCH, trials - start))]
        made = [candidates.make(_settings(trial, knobs)) for trial in asked]
        fresh = {c.key: c for c in made if c is not None and c.key not in scores}
        scores |= challenge(evaluator, incumbent, list(fresh.values()), rates)
        for trial, candidate in zip(asked, made, strict=True):
            study.tell(trial, *_told(candidate, scores, optuna.trial.TrialState.FAIL))
    return len(scores)


def _told(
    candidate: Candidate | None, scores: dict[str, float], failed: optuna.trial.TrialState
) -> tuple[float | None, optuna.trial.TrialState | None]:
    return (None, failed) if candidate is None else (scores.get(candidate.key, 0.0), None)


def _settings(trial: optuna.Trial, knobs: Knobs) -> dict[str, Setting]:
    return {name: _proposed(trial, name, domain) for name, domain in knobs.domains.items()}


def _proposed(trial: optuna.Trial, name: str, domain: Choice | Range) -> Setting:
    """A value. Numbers in a list keep their order, with none at the end."""
    if isinstance(domain, Choice):
        values = sorted(domain.values, key=_rank) if _is_ordered(domain) else domain.values
        if _is_ordered(domain):
            return values[trial.suggest_int(name, 0, len(values) - 1)]
        return trial.suggest_categorical(name, list(values))
    if domain.whole:
        return trial.suggest_int(name, int(domain.low), int(domain.high), log=domain.log)
    return float(f"{trial.suggest_float(name, domain.low, domain.high, log=domain.log):.6g}")


def _is_ordered(domain: Choice) -> bool:
    return len(domain.values) > 2 and all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        for value in domain.values
    )


def _rank(value: Setting) -> float:
    return float("inf") if value is None else float(value)
