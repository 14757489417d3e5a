"""One evaluation: a configuration at a rate, on one replicate of the workload."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import workloads
from experiments.blame import blame
from experiments.config import RunConfig
from experiments.run import run_config
from experiments.sweep.point import shared_workload, workload_settings
from experiments.sweep.rows import extrapolated_share
from experiments.sweep.sharing import Handle
from experiments.workload import Workload
from simulator.errors import RunwayError
from workloads.resample import resample_blocks

from .limits import SATURATED, Measured, Objective, measure

RECORDED = "blocks"
GENERATED = "seeds"

KEPT = ("request_goodput", "goodput_fraction", "request_throughput", "output_throughput")
LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms")
"""What is kept of a run beside the limits."""


@dataclass(frozen=True, slots=True)
class Replicate:
    """Which workload: `index` 0 is the one asked for; others are other seeds or resamplings.

    kind: `seeds` for a generated workload, `blocks` for a recorded one. blocks: stretches of time
    that a recorded trace is cut into.
    """

    index: int
    kind: str
    blocks: int = 0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a configuration did at a rate. error: why it could not be run; then nothing is met.

    saturated: why the run counts as saturated, None if it does not. more: other numbers of the run.
    """

    rate: float
    replicate: int
    limits: dict[str, Measured]
    saturated: str | None
    more: dict[str, float | None]
    error: str | None = None

    def passes(self, objective: Objective) -> bool:
        """Whether the SLO is met."""
        return self.error is None and not self.broken(objective)

    def broken(self, objective: Objective) -> list[str]:
        """The limits that are not met; `saturated` is one of them unless it is allowed."""
        names = [name for name, limit in self.limits.items() if not limit.met]
        return [SATURATED, *names] if self.saturated and objective.saturated_is_bad else names

    def margin(self, objective: Objective) -> float:
        """The largest value / limit; infinite where a value is beyond measure. Smaller is better.

        For limits of requests: missing share / allowed missing share.
        """
        if self.error is not None:
            return float("inf")
        ratios = [0.0]
        for limit in objective.limits:
            told = self.limits[limit.name]
            beyond = 0.0 if told.met else float("inf")
            ratios.append(beyond if told.value is None else told.value / limit.limit_ms)
        if objective.per_request:
            allowed = max(1 - objective.attainment, 1e-6)
            ratios.append((1 - self.limits["requests"].share) / allowed)
        return max(ratios)


@dataclass(frozen=True, slots=True)
class Job:
    """An evaluation that has to be done. file: its trace file, for the process that does it."""

    key: str
    config: RunConfig
    rate: float
    replicate: Replicate
    objective: Objective
    file: Handle | None = None


def evaluate(job: Job) -> tuple[str, dict[str, Any]]:  # Any: JSON values
    """The key of a job, and its record."""
    try:
        config = seeded(job)
        outcome = run_config(config, workload=_workload(config, job))
    except RunwayError as error:
        return job.key, {"error": str(error)}
    except Exception as error:  # one accident must not cost the other evaluations their time
        return job.key, {"error": blame(error)}
    summary = outcome.summary
    more: dict[str, float | None] = {name: summary[name] for name in KEPT}
    for name in LATENCIES:
        more |= {f"{name}_p50": summary[name]["p50"], f"{name}_p99": summary[name]["p99"]}
    more["e2el_ms_mean"] = summary["e2el_ms"]["mean"]
    more["extrapolated_share"] = extrapolated_share(summary)
    return job.key, {
        "limits": {
            name: {"value": told.value, "share": told.share, "met": told.met}
            for name, told in measure(outcome, job.objective).items()
        },
        "saturated": summary["saturation"]["reason"],
        "more": more,
        "error": None,
    }


def evaluation_of(rate: float, replicate: int, record: dict[str, Any]) -> Evaluation:
    """A record as it was kept. Any: JSON values."""
    if record.get("error") is not None:
        return Evaluation(rate, replicate, {}, None, {}, str(record["error"]))
    limits = {name: Measured(**told) for name, told in record["limits"].items()}
    return Evaluation(rate, replicate, limits, record["saturated"], record["more"])


def seeded(job: Job) -> RunConfig:
    """The run of a job: its rate, and the seed of its replicate if that is what it varies."""
    update: dict[str, object] = {"rate": job.rate, "slo": job.objective.of_requests()}
    if job.replicate.kind == GENERATED:
        update["seed"] = job.config.seed + job.replicate.index
    return job.config.model_copy(update=update)


def _workload(config: RunConfig, job: Job) -> Workload:
    if job.replicate.kind == GENERATED or not job.replicate.index:
        return shared_workload(config, job.file)
    recorded = job.config.model_copy(update={"rate": None})
    base = _resampled(workload_settings(recorded), job.replicate, job.file)
    return replace(base, trace=workloads.at_rate(base.trace, job.rate))


@lru_cache(maxsize=4)
def _resampled(settings: str, replicate: Replicate, file: Handle | None) -> Workload:
    workload = shared_workload(RunConfig(**json.loads(settings)), file)
    drawn = resample_blocks(workload.trace, replicate.blocks, replicate.index)
    return replace(workload, trace=drawn)
