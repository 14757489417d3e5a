"""`validate_live`: serve a trace for real, simulate it with a table's prices, and compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from calibration.comparison import Comparison
from calibration.device import DTYPES, GIB, keep_freed_memory, memory_bytes
from calibration.errors import CalibrationError
from calibration.kernels import Decoder
from calibration.kv_dtype import kv_dtype_of
from calibration.sizes import DecoderSizes
from simulator.cost_model import CostModel
from simulator.kv_cache import KVCache
from simulator.request import Request
from simulator.result import Result
from simulator.simulation import simulate
from simulator.trace import Trace
from simulator.view import Scheduler

from .compare import compare
from .executor import Executor
from .serve import ReplayedSteps, Served, WallClock, WithHost, serve
from .work import Watched

LARGEST_WARM_UP = 2048
"""Prompt tokens: a longer chunk needs no memory that this one does not."""
WARM_UP_REQUESTS, WARM_UP_PROMPT, WARM_UP_OUTPUT = 4, 16, 24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveSettings:
    """What to serve. scheduler: makes a fresh one for every run; repeats: served runs."""

    sizes: DecoderSizes
    device: str
    dtype: str
    trace: Trace
    scheduler: Callable[[], Scheduler]
    kv: KVCache
    max_num_seqs: int
    max_model_len: int | None = None
    kv_cache_dtype: str = "auto"
    repeats: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LiveOutcome:
    """Every served run, the one prediction, and each run beside it.

    identical: whether the simulator, told how long every step took, put the same requests in every
    step of every run and gave every token its time. host_ns: added to every price of the table, see
    `host_ns_of`.
    """

    runs: tuple[Served, ...]
    predicted: Served
    comparisons: tuple[Comparison, ...]
    identical: bool
    host_ns: int


def validate_live(
    settings: LiveSettings,
    prices: Callable[[], CostModel],
    *,
    progress: Callable[[int, int], object] = lambda done, total: None,
    before_run: Callable[[], object] = lambda: None,
    clock: WallClock | None = None,
) -> LiveOutcome:
    """Serve the trace `repeats` times, simulate it once, compare.

    prices: asked for after the last run. progress: called with (runs done, runs); before_run:
    called before each. Raises CalibrationError if the model and the cache it needs do not fit the
    device.
    """
    executor = executor_of(settings)
    executor.warm_up(min(LARGEST_WARM_UP, int(settings.trace.prompt_tokens.max())))
    host_ns = host_ns_of(warm_up(settings, executor, clock))
    runs = []
    for number in range(settings.repeats):
        before_run()
        runs.append(
            serve(
                *(settings.trace, settings.scheduler(), settings.kv, executor),
                max_model_len=settings.max_model_len,
                seed=settings.seed,
                clock=clock,
            )
        )
        progress(number + 1, settings.repeats)
    cost_model = WithHost(prices(), host_ns)
    predicted = predict(settings, cost_model)
    comparisons = tuple(compare(run, predicted.result, cost_model.step_ns) for run in runs)
    identical = all(same_schedule(run, replay(settings, run)) for run in runs)
    return LiveOutcome(tuple(runs), predicted, comparisons, identical, host_ns)


def warm_up(settings: LiveSettings, executor: Executor, clock: WallClock | None) -> Served:
    """Serve a few short requests that are not of the trace, all at once."""
    count = min(settings.max_num_seqs, WARM_UP_REQUESTS)
    prompt = max(1, min(WARM_UP_PROMPT, executor.width - WARM_UP_OUTPUT))
    output = max(1, min(WARM_UP_OUTPUT, executor.width - prompt))
    trace = Trace.from_requests(Request(str(row), 0, prompt, output) for row in range(count))
    return serve(trace, settings.scheduler(), settings.kv, executor, clock=clock)


def host_ns_of(run: Served) -> int:
    """Planning and bookkeeping of a step, median: the engine's, which no table of a model has."""
    assert run.model_ns is not None  # it was served
    return int(np.median(run.result.steps.duration_ns - run.model_ns))


def predict(settings: LiveSettings, prices: CostModel) -> Served:
    """The trace, simulated with these prices."""
    watched = Watched(settings.scheduler())
    result = simulate(
        settings.trace,
        watched,
        prices,
        settings.kv,
        async_scheduling=False,
        leap=False,
        max_model_len=settings.max_model_len,
    )
    return Served(result, tuple(watched.work))


def replay(settings: LiveSettings, run: Served) -> Served:
    """The trace, simulated with the durations that the steps of a run had."""
    return predict(settings, ReplayedSteps(run.result.steps.duration_ns))


def same_schedule(one: Served, other: Served) -> bool:
    """Is everybody in the same steps, and does every token come at the same instant?"""
    return (
        [work.roster for work in one.work] == [work.roster for work in other.work]
        and all(
            np.array_equal(getattr(one.result.steps, name), getattr(other.result.steps, name))
            for name in ("end_ns", "duration_ns", "context_tokens", "used_blocks", "preempted")
        )
        and _same_requests(one.result, other.result)
    )


def _same_requests(one: Result, other: Result) -> bool:
    return all(
        np.array_equal(getattr(one.requests, name), getattr(other.requests, name))
        for name in ("state", "first_token_ns", "finish_ns", "emitted_tokens", "preemptions")
    )


def executor_of(settings: LiveSettings) -> Executor:
    """A decoder with a slot for every request that may run, as long as the longest of the trace."""
    keep_freed_memory()
    trace, sizes = settings.trace, settings.sizes
    width = int((trace.prompt_tokens + trace.output_tokens).max())
    if settings.max_model_len is not None:
        width = min(width, settings.max_model_len)
    slots = min(settings.max_num_seqs, len(trace))
    dtype = DTYPES[settings.dtype]
    kv_dtype = kv_dtype_of(settings.kv_cache_dtype, dtype)
    cache_bytes = slots * width * sizes.kv_elements_per_token * kv_dtype.itemsize
    needed = sizes.weights * dtype.itemsize + cache_bytes
    free = memory_bytes(settings.device)
    if needed > 0.9 * free:
        raise CalibrationError(
            f"{sizes.name} and a padded KV cache of {slots} x {width} tokens need "
            f"{needed / GIB:.1f} GiB, {settings.device} has {free / GIB:.1f} GiB free: take fewer "
            "--max-num-seqs or shorter requests"
        )
    with torch.inference_mode():
        decoder = Decoder(
            sizes,
            device=settings.device,
            dtype=dtype,
            cache_tokens=slots * width,
            seed=settings.seed,
            kv_dtype=kv_dtype,
        )
        return Executor(decoder, slots=slots, width=width)
