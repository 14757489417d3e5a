"""`simulate_data_parallel`: replicas of an engine that take their steps together.

Replicas of a mixture of experts share the experts (vLLM's `--data-parallel-size` with
`--enable-expert-parallel`): every layer waits for all of them, so they run in lockstep. Each has
its own scheduler and KV cache; a step has one price, for what all of them do in it, and whoever has
nothing to do computes a dummy batch meanwhile. Everything else is `Engine`'s, step by step.

Source: vLLM 0.19, `vllm/v1/engine/core.py` (`DPEngineCoreProc`), `vllm/v1/engine/core_client.py`
(`DPLBAsyncMPClient.get_core_engine_for_request`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import SimpleQueue
from time import perf_counter
from typing import cast

import numpy as np
from numpy.typing import NDArray

from .clock import EngineClock
from .decode_launch import Flight
from .engine import Engine
from .errors import ConfigError, RequestTooLargeError, WorkloadError
from .feed import OpenFeed, SequenceMaker
from .kv_cache import KVCache
from .options import EngineOptions
from .outcome import outcome_of
from .plan import StepShape
from .result import Ints, Result
from .trace import Trace
from .view import Scheduler

STATISTICS_EVERY_NS = 100_000_000
"""How often a client learns the replicas' queues. Source: vLLM, `vllm/v1/engine/coordinator.py`."""
WAITING_WEIGHT = 4

Shapes = tuple[StepShape | None, ...]
JointPrice = Callable[[Shapes], int]
"""What each replica does in a step (None: nothing) -> nanoseconds, > 0."""


@dataclass(frozen=True, slots=True, eq=False)
class DataParallelResult:
    """results: of each replica, over the whole trace; what it did not serve never arrived there.

    replica: which one served a row, shape (n,).
    """

    results: tuple[Result, ...]
    replica: Ints

    def column(self, name: str) -> Ints:
        """A column of `RequestLog`, each row from the replica that served it."""
        held = np.stack([getattr(result.requests, name) for result in self.results])
        chosen: Ints = held[self.replica, np.arange(len(self.replica))]
        return chosen


def simulate_data_parallel(
    trace: Trace,
    schedulers: tuple[Scheduler, ...],
    price: JointPrice,
    kv_cache: KVCache,
    *,
    async_scheduling: bool = True,
    needs_longest_context: bool = False,
) -> DataParallelResult:
    """Serve an open-loop trace with one replica per scheduler, in lockstep.

    kv_cache: of each replica. needs_longest_context: whether shapes must hold it.

    Raises:
        WorkloadError: no requests. ConfigError: no scheduler. RequestTooLargeError: a request that
            the empty cache could not hold.
    """
    if not len(trace):
        raise WorkloadError("no requests: the workload is empty")
    if not schedulers:
        raise ConfigError("no schedulers: give one for each replica")
    _refuse_too_large(trace, kv_cache)
    options = EngineOptions(leap=False, pipeline_depth=2 if async_scheduling else 1)
    with _Together(len(schedulers), price, needs_longest_context) as together:
        engines = [
            _engine(trace, scheduler, kv_cache, together.prices[number], options)
            for number, scheduler in enumerate(schedulers)
        ]
        started = perf_counter()
        replica, end_ns = _serve(trace, engines, together, options.pipeline_depth)
        wall_s = perf_counter() - started
    results = tuple(_result(engine, trace, end_ns, wall_s) for engine in engines)
    return DataParallelResult(results, replica)


class LoadBalancer:
    """Where a client sends a request: to the replica with the least 4 x waiting + running.

    It counts what it sent since it last heard of the queues as waiting; ties go to the first.

    >>> balancer = LoadBalancer(2)
    >>> [balancer.choose(0, [(0, 3), (0, 2)]) for _ in range(4)]
    [1, 0, 1, 0]
    """

    def __init__(self, replicas: int) -> None:
        self._known = [[0, 0] for _ in range(replicas)]
        self._next_ns = 0

    def choose(self, now_ns: int, queues: list[tuple[int, int]]) -> int:
        """queues: (waiting, running) of each replica now; they are heard every 100 ms."""
        if now_ns >= self._next_ns:
            self._known = [list(queue) for queue in queues]
            self._next_ns = now_ns + STATISTICS_EVERY_NS
        scores = [WAITING_WEIGHT * waiting + running for waiting, running in self._known]
        chosen = scores.index(min(scores))
        self._known[chosen][0] += 1
        return chosen


class _Price:
    """What an engine takes for its cost model: says what it does, and waits for the joint price."""

    def __init__(self, number: int, asked: SimpleQueue[tuple[int, StepShape | None]]) -> None:
        self.needs_longest_context = False
        self.answer: SimpleQueue[int] = SimpleQueue()
        self._number, self._asked = number, asked

    def step_ns(self, shape: StepShape) -> int:
        """The joint price of the step."""
        self._asked.put((self._number, shape))
        return self.answer.get()

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Of the single step that lockstep allows."""
        return np.full(steps, self.step_ns(shape), np.int64)


class _Together:
    """Launches a step of all engines, whose price needs to know what all of them do.

    Launching asks for the price in its middle; there it waits, in a thread of its own, until the
    others have come as far. Only one thread ever runs, in a fixed order.
    """

    def __init__(self, replicas: int, price: JointPrice, needs_longest_context: bool) -> None:
        self._asked: SimpleQueue[tuple[int, StepShape | None]] = SimpleQueue()
        self._price = price
        self._threads = ThreadPoolExecutor(replicas)
        self.prices = [_Price(number, self._asked) for number in range(replicas)]
        for one in self.prices:
            one.needs_longest_context = needs_longest_context

    def __enter__(self) -> _Together:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def launch(self, engines: list[Engine], start_ns: int) -> list[Flight | None]:
        """A flight of every engine that has something to do."""
        shapes: list[StepShape | None] = []
        launched: list[Future[Flight | None]] = []
        for number, engine in enumerate(engines):
            launched.append(self._threads.submit(self._one, number, engine, start_ns))
            shapes.append(self._asked.get()[1])
        working = [number for number, shape in enumerate(shapes) if shape is not None]
        price_ns = 0
        try:
            if working:
                price_ns = self._price(tuple(shapes))
        finally:  # nobody may be left waiting
            for number in working:
                self.prices[number].answer.put(price_ns)
                wait([launched[number]])
        return [flight.result() for flight in launched]

    def _one(self, number: int, engine: Engine, start_ns: int) -> Flight | None:
        flight = None
        try:
            view = engine.view
            if view.running or view.waiting:
                flight = engine.launcher.launch(start_ns)
        finally:
            if flight is None:
                self._asked.put((number, None))
        return flight


def _serve(
    trace: Trace, engines: list[Engine], together: _Together, depth: int
) -> tuple[Ints, int]:
    """(which replica served each row, when the last step ended)."""
    pipe: deque[tuple[int, int, list[Flight | None]]] = deque()
    arrivals = _Arrivals(trace, engines)
    now_ns = busy_ns = 0
    while True:
        if pipe:
            now_ns = max(now_ns, pipe[-1][0])
        arrivals.take(now_ns)
        start_ns = max(now_ns, busy_ns)
        flights = together.launch(engines, start_ns)
        ends_ns = [flight[1] for flight in flights if flight is not None]
        if ends_ns:
            busy_ns = ends_ns[0]
            pipe.append((start_ns, busy_ns, flights))
            if len(pipe) < depth:
                continue
        if not pipe:
            if arrivals.next_ns is None:
                return arrivals.replica, now_ns
            now_ns = max(now_ns, arrivals.next_ns)
            continue
        _, now_ns, landed = pipe.popleft()
        for engine, flight in zip(engines, landed, strict=True):
            if flight is not None and flight[2]:
                engine.life.deliver(flight[2], now_ns)


class _Arrivals:
    """Routes the requests of a trace, each as it arrives."""

    def __init__(self, trace: Trace, engines: list[Engine]) -> None:
        self.replica = np.zeros(len(trace), np.int64)
        self._engines = engines
        self._balancer = LoadBalancer(len(engines))
        self._make = SequenceMaker(trace)
        self._rest = self._due(trace)
        self._next = next(self._rest, None)

    @property
    def next_ns(self) -> int | None:
        """When the next request arrives; None: never."""
        return None if self._next is None else self._next[0]

    def take(self, now_ns: int) -> None:
        """Queue what has arrived by now."""
        while self._next is not None and self._next[0] <= now_ns:
            arrival_ns, row = self._next
            queues = [(len(e.view.waiting), len(e.view.running)) for e in self._engines]
            chosen = self._balancer.choose(arrival_ns, queues)
            self.replica[row] = chosen
            self._engines[chosen].view.waiting.add(self._make(row, arrival_ns))
            self._next = next(self._rest, None)

    def _due(self, trace: Trace) -> Iterator[tuple[int, int]]:
        return zip(trace.arrival_ns.tolist(), range(len(trace)), strict=True)


def _engine(
    trace: Trace, scheduler: Scheduler, kv_cache: KVCache, prices: _Price, options: EngineOptions
) -> Engine:
    kv = kv_cache.prepared(trace, options.pipeline_depth - 1)
    nobody = OpenFeed(trace.take(np.zeros(len(trace), np.bool_)))
    clock = cast(EngineClock, None)  # only `Engine.run` looks at it
    return Engine(clock, nobody, scheduler, prices, kv, options=options)


def _refuse_too_large(trace: Trace, kv_cache: KVCache) -> None:
    most = kv_cache.blocks * kv_cache.block_size + 1
    total = trace.prompt_tokens + trace.output_tokens
    if int(total.max()) > most:
        row = int(total.argmax())
        raise RequestTooLargeError(
            f"request {trace.id_of(row)} needs {int(total[row])} tokens of KV cache, a replica has "
            f"{most - 1}: raise kv_blocks or drop it"
        )


def _result(engine: Engine, trace: Trace, end_ns: int, wall_s: float) -> Result:
    engine.life.stop()
    outcome = outcome_of(engine, trace, end_ns)
    return Result(
        trace=trace,
        requests=outcome.requests,
        steps=outcome.steps,
        gaps=outcome.gaps,
        evictions=outcome.evictions,
        scheduler="data parallel",
        kv_blocks=engine.view.kv.blocks,
        block_size=engine.view.kv.block_size,
        end_ns=end_ns,
        stop_ns=None,
        events=len(outcome.steps),
        wall_s=wall_s,
        pieces=outcome.pieces,
        pool_ends=outcome.pool_ends,
    )
