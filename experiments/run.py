"""One experiment: from a config to a result, its summary and its files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodels import DEFAULT_COST_MODEL, ExtrapolationWarning, LoadedCostModel
from simulator import ClientDelay, simulate
from simulator.errors import ConfigError, RunwayError
from simulator.metrics import summarize
from simulator.result import Result
from simulator.tables import preemption_table, request_table, step_table, token_table
from simulator.timings import Slo
from simulator.trace import Trace
from simulator.units import ms_to_ns, ns_to_ms, seconds_to_ns
from simulator.window import Trim

from .blame import blame
from .config import RunConfig
from .fitted_range import beyond_fit
from .memory import Memory, build_cost_model, build_memory, describe_cost_model
from .parquet import write_table
from .policies import ENGINE_NAMES, Policy, build_policy
from .provenance import runway_version
from .results import results_folder, write_json, write_yaml
from .targets import missed_limits
from .workload import Workload, build_workload

DEFAULT_SLO = {"ttft_ms": 1000.0, "tpot_ms": 50.0}
"""Limits of a good request when neither the config nor its preset names any."""

TRIMS = tuple(Trim.__dataclass_fields__)


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """All that a run needs. config: as given, with its open defaults filled in."""

    config: RunConfig
    workload: Workload
    policy: Policy
    cost_model: LoadedCostModel
    memory: Memory

    @property
    def notes(self) -> tuple[str, ...]:
        """Settings that change less than their name says, and targets that are not the SLO."""
        return (*self.policy.notes, *self.memory.notes, *missed_limits(self.config, self.policy))


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A finished run. summary: what summary.json holds."""

    config: RunConfig
    result: Result
    summary: dict[str, Any]  # Any: JSON values


def prepare(
    config: RunConfig, *, trace: Trace | None = None, workload: Workload | None = None
) -> Parts:
    """Everything a config names, built and checked; nothing is simulated yet.

    trace, workload: of this config, if they have been built before.

    Raises:
        RunwayError: the config cannot be run; the message says why and what to do.
    """
    policy = build_policy(config)
    filled: dict[str, object] = {
        "cost_model": config.cost_model or DEFAULT_COST_MODEL,
        "async_scheduling": policy.async_scheduling,
        "enable_prefix_caching": policy.prefix_caching,
    }
    for seats in ("max_num_seqs", ENGINE_NAMES["max_num_seqs"]):
        if seats in policy.parameters:
            filled["max_num_seqs"] = policy.parameters[seats]
    config = config.model_copy(update=filled)
    cost_model = build_cost_model(config)
    memory = build_memory(config, cost_model.table)
    workload = workload or build_workload(config, trace=trace)
    config = config.model_copy(update={"slo": config.slo or workload.slo or DEFAULT_SLO})
    return Parts(config, workload, policy, cost_model, memory)


def run_config(
    config: RunConfig,
    *,
    trace: Trace | None = None,
    workload: Workload | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Simulate one config and summarise it.

    trace, workload: of this config, if they have been built before.
    progress: called now and then with (requests that ended, requests).

    Raises:
        RunwayError: the config cannot be run, or the run went wrong.
    """
    parts = prepare(config, trace=trace, workload=workload)
    result = simulate_parts(parts, progress)
    return Outcome(parts.config, result, _summary(parts, result))


def simulate_parts(parts: Parts, progress: Callable[[int, int], None] | None = None) -> Result:
    """Simulate what was prepared; nothing is summarised.

    Raises:
        RunwayError: the run went wrong.
    """
    with warnings.catch_warnings():
        # What lies beyond the table is said once, in the summary, with its share.
        warnings.simplefilter("ignore", ExtrapolationWarning)
        return _simulate(parts, progress)


def write_run(
    outcome: Outcome, out: Path, *, steps: bool | None = None, timing: bool | None = None
) -> None:
    """Write the results folder in one piece; steps and timing default to the config's.

    Raises:
        ConfigError: the folder cannot be written to or holds other results.
    """
    with results_folder(out) as draft:
        write_files(outcome, draft, steps=steps, timing=timing)


def write_files(
    outcome: Outcome, folder: Path, *, steps: bool | None = None, timing: bool | None = None
) -> None:
    """summary.json, config.yaml, requests.parquet and, if asked for, the steps with all tokens."""
    config = outcome.config
    write_json(
        folder / "summary.json", outcome.summary if timing is None else _timed(outcome, timing)
    )
    write_yaml(folder / "config.yaml", config.saved(), "runway simulate config.yaml --out DIR")
    write_table(folder / "requests.parquet", request_table(outcome.result))
    if config.steps if steps is None else steps:
        write_table(folder / "steps.parquet", step_table(outcome.result))
        write_table(folder / "tokens.parquet", token_table(outcome.result))
        write_table(folder / "preemptions.parquet", preemption_table(outcome.result))


def _timed(outcome: Outcome, timing: bool) -> dict[str, Any]:  # Any: JSON values
    wall_s = outcome.result.wall_s if timing else None
    return {**outcome.summary, "run": {**outcome.summary["run"], "wall_s": wall_s}}


def _simulate(parts: Parts, progress: Callable[[int, int], None] | None) -> Result:
    config, trace = parts.config, parts.workload.trace
    rows = len(trace)
    try:
        return simulate(
            trace,
            parts.policy.scheduler,
            parts.cost_model,
            parts.memory.cache,
            users=config.users,
            max_concurrency=config.max_concurrency,
            max_model_len=parts.memory.max_model_len,
            stop_ns=None if config.stop_time_s is None else seconds_to_ns(config.stop_time_s),
            async_scheduling=parts.policy.async_scheduling,
            client_delay=_client_delay(config),
            never_fits=config.never_fits,
            swap_ns_per_block=parts.memory.swap_ns_per_block,
            progress=None if progress is None else lambda done: progress(done, rows),
        )
    except RunwayError:
        raise
    except Exception as error:  # a user's policy may raise anything
        if parts.policy.path is None:
            raise
        raise ConfigError(
            f"scheduler {config.scheduler}: {blame(error, parts.policy.path)}"
        ) from error


def _client_delay(config: RunConfig) -> ClientDelay:
    return ClientDelay(
        request_ns=ms_to_ns(config.client_delay_in_ms),
        prompt_token_ns=ms_to_ns(config.tokenize_us_per_token / 1000),
        response_ns=ms_to_ns(config.client_delay_out_ms),
    )


def _summary(parts: Parts, result: Result) -> dict[str, Any]:  # Any: JSON values
    config = parts.config
    trim = Trim(**{name: getattr(config, name) for name in TRIMS})
    metrics = summarize(
        result,
        slo=Slo(**(config.slo or {})),
        window=None if trim == Trim() else trim,
        client_slo={name: Slo(**limits) for name, limits in (config.client_slo or {}).items()},
    )
    return {
        **metrics,
        "run": {
            "wall_s": result.wall_s if config.timing else None,
            "steps": len(result.steps),
            "events": result.events,
            "requests": len(result.trace),
        },
        "cost_model": {
            **describe_cost_model(config, parts.cost_model.table),
            "extrapolation": _extrapolation(parts.cost_model, result),
        },
        "config": config.saved(),
        "provenance": _provenance(parts),
    }


def _extrapolation(cost_model: LoadedCostModel, result: Result) -> object:
    """What was priced beyond the measured or fitted range, where that is known; else None."""
    report = getattr(cost_model, "extrapolation_report", None)
    if report is not None:
        return report(len(result.steps), ns_to_ms(int(result.steps.duration_ns.sum())))
    fitted_range = cost_model.table.fitted_range
    return None if fitted_range is None else beyond_fit(fitted_range, result.steps)


def _provenance(parts: Parts) -> dict[str, Any]:  # Any: JSON values
    memory = parts.memory
    return {
        "runway_version": runway_version(),
        "workload": parts.workload.described(parts.config),
        "scheduler": parts.policy.described(),
        "kv_cache": {
            "blocks": memory.cache.blocks,
            "block_size": memory.cache.block_size,
            "watermark": memory.cache.watermark,
            "prefix_caching": memory.cache.caches_prefixes,
            "origin": memory.origin,
            "max_model_len": memory.max_model_len,
        },
        "notes": list(parts.notes),
    }
