"""`simulate`: one call from requests, policy, prices and memory to a `Result`."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from time import perf_counter
from typing import Any

import simpy

from .client_delay import NO_DELAY, ClientDelay, DelayedFeed
from .clock import EngineClock
from .cost_model import CostModel
from .engine import Engine
from .errors import ConfigError, WorkloadError, whole
from .feed import ArrivalFeed, CappedFeed, ClosedFeed, OpenFeed, SessionFeed
from .kv_cache import KVCache
from .options import EngineOptions
from .outcome import outcome_of
from .request import Request
from .result import Result
from .trace import Trace
from .view import Scheduler


def simulate(
    requests: Trace | Iterable[Request],
    scheduler: Scheduler,
    cost_model: CostModel,
    kv_cache: KVCache,
    *,
    users: int | None = None,
    max_concurrency: int | None = None,
    sessions: bool | None = None,
    async_scheduling: bool | None = None,
    client_delay: ClientDelay = NO_DELAY,
    **options: Any,  # Any: the fields of EngineOptions, which checks their names
) -> Result:
    """Serve the requests and report what happened.

    requests: a `Trace`, or `Request` objects in any order.
    users: closed loop: that many users, each sends its next request (in trace order) the row's
        `think_ns` after its last one ended; arrival times of later rows are ignored.
    max_concurrency: open loop, but a client sends at most so many at once.
    sessions: a turn with a `parent` arrives its `think_ns` after the parent finished, or was
        rejected. None: if the trace has both columns. False: every row at its own `arrival_ns`,
        whether or not the turn before it has been answered.
    async_scheduling: plan a step while the one before it runs, as vLLM does. None: as the
        scheduler's `default_async_scheduling` says (`vllm`: yes), else no.
    client_delay: HTTP, tokenizer and stream between the clients and the engine; TTFT and E2E are
        then on the clients' clock, and a client waits so much longer before it sends again.
    options: `leap`, `slow_path`, `check_promises`, `max_model_len`, `never_fits`, `stop_ns`,
        `swap_ns_per_block`, `progress` of `EngineOptions`.

    Raises:
        WorkloadError: no requests. ConfigError: contradicting or impossible options.
        SimulatorError: the scheduler stalled, broke a promise or made an impossible plan.

    >>> from costmodels import ConstantCostModel
    >>> from simulator import ChunkedPrefillScheduler, KVCache, Request, simulate
    >>> result = simulate(
    ...     [Request("a", 0, prompt_tokens=100, output_tokens=3)],
    ...     ChunkedPrefillScheduler(),
    ...     ConstantCostModel(prefill_ms=80, decode_ms=8),
    ...     KVCache(blocks=64),
    ... )
    >>> result.requests.first_token_ns.tolist(), result.requests.finish_ns.tolist()
    ([80000000], [96000000])
    """
    trace = requests if isinstance(requests, Trace) else Trace.from_requests(requests)
    if not len(trace):
        raise WorkloadError("no requests: the workload is empty")
    feed = _feed(trace, users, max_concurrency, sessions)
    if client_delay:
        feed = DelayedFeed(feed, client_delay)
    if async_scheduling is None:
        async_scheduling = bool(getattr(scheduler, "default_async_scheduling", False))
    settings = EngineOptions(pipeline_depth=2 if async_scheduling else 1, **options)
    if settings.swap_ns_per_block is not None and kv_cache.caches_prefixes:
        raise ConfigError(
            "swap_ns_per_block with a PrefixCache: a swapped sequence would have to keep its share "
            "of blocks others use; preempt by recompute, or use a KVCache"
        )
    _check_never_fits(settings, scheduler)
    bind_prices = getattr(scheduler, "bind_prices", None)
    if bind_prices is not None:
        bind_prices(getattr(cost_model, "uncounted", lambda: cost_model)())
    env = simpy.Environment()
    kv = kv_cache.prepared(trace, settings.pipeline_depth - 1)
    clock = EngineClock(env)
    engine = Engine(clock, feed, scheduler, cost_model, kv, options=settings)
    started = perf_counter()
    _run(env, clock, engine)
    wall_s = perf_counter() - started
    engine.life.stop()
    end_ns = int(env.now)
    outcome = outcome_of(engine, trace, end_ns)
    return Result(
        trace=trace,
        requests=outcome.requests,
        steps=outcome.steps,
        gaps=outcome.gaps,
        evictions=outcome.evictions,
        scheduler=getattr(scheduler, "name", type(scheduler).__name__),
        kv_blocks=kv.blocks,
        block_size=kv.block_size,
        end_ns=end_ns,
        stop_ns=settings.stop_ns,
        events=engine.events,
        wall_s=wall_s,
        pieces=outcome.pieces,
        pool_ends=outcome.pool_ends,
        swapped_blocks=engine.life.moved_blocks,
        client_delay=client_delay,
    )


def _run(env: simpy.Environment, clock: EngineClock, engine: Engine) -> None:
    """The event loop, without cycle collection: it leaves no cycles behind while it runs, and
    looking for them costs.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        clock.start(engine.run())
        env.run()
    finally:
        if collecting:
            gc.enable()


def _check_never_fits(options: EngineOptions, scheduler: Scheduler) -> None:
    reserves = getattr(scheduler, "scheduler_reserve_full_isl", True)
    if options.never_fits == "wait" and not reserves and options.stop_ns is None:
        raise ConfigError(
            "never_fits 'wait' without scheduler_reserve_full_isl: a request that never fits can "
            "start, preempt itself and start again for ever, as in vLLM: give stop_ns"
        )


def _feed(
    trace: Trace, users: int | None, max_concurrency: int | None, sessions: bool | None
) -> ArrivalFeed:
    if users is not None and max_concurrency is not None:
        raise ConfigError(
            f"users {users} and max_concurrency {max_concurrency} exclude each other: a closed "
            "loop never has more requests in flight than users; drop one of them"
        )
    if sessions is None:
        sessions = trace.parent is not None and trace.think_ns is not None
    if sessions:
        _check_sessions(trace, users, max_concurrency)
        return SessionFeed(trace)
    if users is not None:
        return ClosedFeed(trace, whole("users", users))
    if max_concurrency is not None:
        return CappedFeed(trace, whole("max_concurrency", max_concurrency))
    return OpenFeed(trace)


def _check_sessions(trace: Trace, users: int | None, max_concurrency: int | None) -> None:
    for name, value in (("users", users), ("max_concurrency", max_concurrency)):
        if value is not None:
            raise ConfigError(
                f"{name} {value}: in this trace later turns wait for earlier ones (parent, "
                f"think_ns), which already says when they are sent: drop {name}, or replay it "
                "with sessions=False"
            )
    for column in ("parent", "think_ns"):
        if getattr(trace, column) is None:
            raise ConfigError(f"sessions need the trace column {column}, which this trace lacks")
