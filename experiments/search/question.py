"""What a search is asked: an SLO, a workload, and what may be chosen to meet it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.config import RunConfig, load_config
from experiments.workload import source_of
from simulator.errors import ConfigError, WorkloadError
from simulator.trace import Trace
from simulator.units import NS_PER_S

from .best import Rates
from .bracket import rounded
from .evaluate import GENERATED, RECORDED
from .knobs import Knobs
from .limits import Objective

SPREAD = 1024.0
"""Rates are tried from the workload's own over this to its own times this, if need be."""


@dataclass(frozen=True, slots=True)
class Question:
    """base: settings that all configurations share, the workload among them.

    precision: how near the highest rate that passes and the lowest that fails must come, a share.
    replicates: how many other workloads of the kind say how sure the answer is; 0 for none.
    blocks: stretches that a recorded trace is cut into for them. rates: lowest and highest to try.
    exhaustive: spaces of at most so many configurations are tried whole; others by an optimiser
    with `trials` proposals and `seed`.
    """

    base: Mapping[str, Any]  # Any: values of any setting
    schedulers: tuple[str, ...]
    knobs: Knobs
    objective: Objective
    precision: float = 0.01
    replicates: int = 8
    blocks: int = 20
    rates: tuple[float, float] | None = None
    exhaustive: int = 64
    trials: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.001 <= self.precision <= 0.5:
            raise ConfigError(f"--precision {self.precision:g}: must be a share of 0.001 to 0.5")
        if self.replicates == 1 or self.replicates < 0:
            raise ConfigError(
                f"--replicates {self.replicates}: must be 0, or at least 2 to see how they differ"
            )
        if self.blocks < 2 or self.trials < 1 or self.exhaustive < 1:
            raise ConfigError(
                f"--blocks {self.blocks} must be at least 2, --trials {self.trials} and "
                f"--exhaustive {self.exhaustive} at least 1"
            )
        if self.rates and not 0 < self.rates[0] < self.rates[1]:
            raise ConfigError(
                f"--rates {self.rates[0]:g}:{self.rates[1]:g}: must be LOWEST:HIGHEST, above 0"
            )

    def described(self) -> dict[str, Any]:  # Any: JSON values
        """For search.json."""
        return {
            "base": dict(self.base),
            "schedulers": list(self.schedulers),
            "over": self.knobs.described(),
            "slo": self.objective.described(),
            "slo_in_words": self.objective.words(),
            "precision": self.precision,
            "replicates": self.replicates,
            "blocks": self.blocks,
            "rates": list(self.rates) if self.rates else None,
            "exhaustive": self.exhaustive,
            "trials": self.trials,
            "seed": self.seed,
        }


def workload_config(question: Question) -> RunConfig:
    """The run that makes the workload at its own rate; one that needs a rate gets 1 request/s.

    Raises:
        ConfigError: a closed loop, which has no rate, or no workload.
    """
    config = load_config(None, question.base)
    if config.users is not None:
        raise ConfigError("--users makes a closed loop, which has no rate to search: drop it")
    needs_rate = source_of(config) == "requests" and config.rate is None
    return config.model_copy(update={"rate": 1.0}) if needs_rate else config


def kind_of(config: RunConfig, trace: Trace) -> str:
    """Whether other workloads of the kind come from other seeds or from the recording's own time.

    trace: of the workload at its own rate.
    """
    if source_of(config) in ("preset", "requests"):
        return GENERATED
    return RECORDED if _mean_rate(trace) else GENERATED


def rates_of(question: Question, config: RunConfig, trace: Trace) -> Rates:
    """Where to look for the answer.

    Raises:
        WorkloadError: fewer than two requests, or all at once and no rate to begin with.
    """
    own = config.rate or _mean_rate(trace)
    if len(trace) < 2 or not own:
        raise WorkloadError(
            f"a workload of {len(trace)} request(s) at one instant has no rate to search from: "
            "give --rate"
        )
    lowest, highest = question.rates or (rounded(own / SPREAD), rounded(own * SPREAD))
    start = min(max(own, lowest), highest)
    return Rates(start, lowest, highest, question.precision)


def _mean_rate(trace: Trace) -> float | None:
    """Gaps over span, requests per second; None without a span."""
    span_ns = int(trace.arrival_ns[-1] - trace.arrival_ns[0]) if len(trace) else 0
    return (len(trace) - 1) * NS_PER_S / span_ns if span_ns else None
