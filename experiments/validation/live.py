"""Live validation put together: a model, its table and a short trace; a report."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibration.errors import CalibrationError
from calibration.sizes import DecoderSizes, find_sizes
from costmodels import CostTable, ExtrapolationWarning, LoadedCostModel, load_cost_model
from experiments.config import RunConfig
from experiments.memory import describe_cost_model
from experiments.policies import build_policy
from experiments.run import Parts, prepare
from simulator import simulate
from simulator.errors import ConfigError

if TYPE_CHECKING:
    from calibration.live.validate import LiveOutcome, LiveSettings

LONGEST = 1 << 40
LOAD = 0.6
"""Share of what the device can serve, by its table, that arrives if no rate is given."""
GENERATED = {
    "requests": "48",
    "input_tokens": "lognormal:128:0.8",
    "output_tokens": "lognormal:40:0.6",
}
LIMITS = {"scheduler": "vllm", "max_num_batched_tokens": "512", "max_num_seqs": "16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """What to serve. flags: fields of `RunConfig`, as text, where they differ from the defaults.

    calibrate_between_s: go on measuring the table for so many seconds before every served run.
    """

    model: str
    cost_model: str
    device: str = "cpu"
    dtype: str = "float32"
    repeats: int = 1
    calibrate_between_s: float = 0.0
    flags: Mapping[str, str]


def run_live(
    asked: LiveRun, progress: Callable[[int, int], object]
) -> tuple[dict[str, Any], LiveOutcome]:  # Any: JSON values
    """Serve the trace on this machine, simulate it, compare: the report and all behind it.

    Everything is checked before anything is served. progress: called with (runs done, runs).

    Raises:
        CalibrationError: torch is missing, or model, device or table do not fit each other.
        RunwayError: the table, the trace or the scheduler cannot be used.
    """
    sizes = find_sizes(asked.model)
    table = load_cost_model(asked.cost_model).table
    _need_torch()
    from calibration.device import use_threads
    from calibration.live.match import check_table, clock_of_table, threads_of
    from calibration.live.report import report_of
    from calibration.live.serve import clock_named
    from calibration.live.validate import validate_live

    with use_threads(threads_of(table.provenance)):
        check_table(table.name, table.provenance, sizes, asked.device, asked.dtype)
        clock = clock_of_table(table.provenance)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExtrapolationWarning)  # the report says it
            parts = prepare(_config(asked))
            settings = _settings(asked, parts, sizes)
            outcome = validate_live(
                settings,
                lambda: load_cost_model(asked.cost_model),
                progress=progress,
                before_run=lambda: _measure_more(asked, table),
                clock=clock_named(clock),
            )
    about = {**_about(asked, sizes, parts), "clock": clock}
    about["time_beyond_table"] = _beyond(load_cost_model(asked.cost_model), outcome)
    return report_of(outcome, settings, about), outcome


def _measure_more(asked: LiveRun, table: CostTable) -> None:
    from calibration.live.again import measure_more

    if asked.calibrate_between_s:
        measure_more(
            *(Path(asked.cost_model), asked.model, table.provenance),
            device=asked.device,
            seconds=asked.calibrate_between_s,
        )


def _need_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise CalibrationError(
            "live validation serves through torch, which is not installed: "
            "pip install 'llm-runway[calibration]', or pip install torch"
        )


def _config(asked: LiveRun) -> RunConfig:
    """The run as `runway simulate` would have it, sync and without prefix caching."""
    given = {**LIMITS, **asked.flags, "cost_model": asked.cost_model}
    fixed = {"async_scheduling": False, "enable_prefix_caching": False}
    if "trace" in given:
        return RunConfig(**given, **fixed)
    given = {**GENERATED, **given}
    if "rate" not in given:
        given["rate"] = _rate(RunConfig(**given, **fixed, arrival="all-at-once"))
    return RunConfig(**given, **fixed)


def _rate(config: RunConfig) -> str:
    """Requests a second: `LOAD` times what is served when all of them wait from the start."""
    parts = prepare(config)
    _check_lengths(parts)
    result = simulate(
        parts.workload.trace,
        parts.policy.scheduler,
        parts.cost_model,
        parts.memory.cache,
        async_scheduling=False,
        max_model_len=parts.memory.max_model_len,
    )
    return f"{LOAD * len(parts.workload.trace) / (result.end_ns / 1e9):.3g}"


def _settings(asked: LiveRun, parts: Parts, sizes: DecoderSizes) -> LiveSettings:
    from calibration.live.match import kv_cache_dtype_of
    from calibration.live.validate import LiveSettings

    trace = parts.workload.trace
    if trace.parent is not None:
        raise ConfigError(
            "a trace of conversations cannot be served live: its turns wait for each other"
        )
    return LiveSettings(
        sizes=sizes,
        device=asked.device,
        dtype=asked.dtype,
        trace=trace,
        scheduler=lambda: build_policy(parts.config).scheduler,
        kv=parts.memory.cache,
        max_num_seqs=parts.config.max_num_seqs or len(trace),
        max_model_len=parts.memory.max_model_len,
        kv_cache_dtype=kv_cache_dtype_of(parts.cost_model.table.provenance),
        repeats=asked.repeats,
        seed=parts.config.seed,
    )


def _check_lengths(parts: Parts) -> None:
    cache, trace = parts.memory.cache, parts.workload.trace
    limit = min(parts.memory.max_model_len or LONGEST, cache.blocks * cache.block_size)
    shortest = int((trace.prompt_tokens + trace.output_tokens).min())
    if shortest > limit:
        raise ConfigError(
            f"no request can be served: the shortest has {shortest} tokens, max_model_len and the "
            f"KV cache allow {limit}: take shorter ones, or more --kv-blocks"
        )


def _beyond(prices: LoadedCostModel, outcome: LiveOutcome) -> float:
    """Share of the served time in steps of which the table measured no such count."""
    beyond = getattr(prices, "beyond", lambda shape: ())
    steps = [
        (float(ns), bool(beyond(shape)))
        for run in outcome.runs
        for shape, ns in zip(run.shapes, run.result.steps.duration_ns, strict=True)
    ]
    return sum(ns for ns, is_beyond in steps if is_beyond) / sum(ns for ns, _ in steps)


def _about(asked: LiveRun, sizes: DecoderSizes, parts: Parts) -> dict[str, object]:
    """Of what stands in the report's head; the table as it is after the last run."""
    table = load_cost_model(asked.cost_model).table
    return {
        "model": sizes.name,
        "shapes": sizes.shapes,
        "device": table.provenance["device"],
        "torch_device": asked.device,
        "threads": table.provenance.get("threads"),
        "dtype": asked.dtype,
        "cost_model": describe_cost_model(parts.config, table),
        "scheduler": parts.policy.described(),
        "workload": parts.workload.described(parts.config),
        "rate": parts.config.rate,
    }
