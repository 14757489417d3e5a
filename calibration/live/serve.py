"""`serve`: the simulator's engine in real time. A step costs what computing it really took.

The engine, its scheduler and its KV cache are the ones that simulate. Only the price of a step is
different: it is computed on the device, and its price is the time until its tokens are there,
counted from the end of the step before it; planning and bookkeeping between two steps are part of
it, as in a serving engine. So the engine's clock is the wall clock, and arrivals keep to it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.device import CLOCKS
from simulator.cost_model import CostModel
from simulator.kv_cache import KVCache
from simulator.plan import StepShape
from simulator.result import Result
from simulator.simulation import simulate
from simulator.trace import Trace
from simulator.view import Scheduler

from .busy import OtherProcesses
from .executor import Executor
from .work import StepWork, Watched


@dataclass(frozen=True, slots=True)
class WallClock:
    """Where time comes from: nanoseconds, and a wait of so many seconds."""

    now_ns: Callable[[], int] = time.perf_counter_ns
    sleep: Callable[[float], object] = time.sleep


class IdleSkipped:
    """A clock of CPU time, which stands still while nothing is computed: waiting moves it on."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._skipped_ns = 0

    def now_ns(self) -> int:
        """Nanoseconds computed and waited."""
        return self._now_ns() + self._skipped_ns

    def sleep(self, wait_s: float) -> None:
        """Wait without waiting."""
        self._skipped_ns += math.ceil(wait_s * 1e9)


def clock_named(name: str) -> WallClock:
    """The clock that a table was measured with: `wall` or `cpu`."""
    if name == "wall":
        return WallClock()
    skipped = IdleSkipped(CLOCKS[name])
    return WallClock(skipped.now_ns, skipped.sleep)


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A run. work: of every step. model_ns: what computing each of them took, without planning and
    bookkeeping, int64, shape (steps,); absent in a simulation. cpu_share: of the model's wall time,
    in which this thread had a CPU. others_cpus: that other processes used; None if nothing tells.
    """

    result: Result
    work: tuple[StepWork, ...]
    model_ns: NDArray[np.int64] | None = None
    cpu_share: float = 1.0
    others_cpus: float | None = None

    @property
    def shapes(self) -> list[StepShape]:
        """Every step as a cost model sees it."""
        return [shape_of(work) for work in self.work]


class LiveSteps:
    """A cost model that computes the step it is asked to price.

    It also holds planning back until the wall clock reaches the engine's, which is ahead only when
    the engine was idle and waits for the next arrival.
    """

    needs_longest_context = False

    def __init__(self, scheduler: Scheduler, executor: Executor, clock: WallClock) -> None:
        self.watched = Watched(scheduler, self._wait_until)
        self.model_ns: list[int] = []
        self.wall_ns = self.cpu_ns = 0
        self._executor, self._clock = executor, clock
        self._start_ns: int | None = None

    def step_ns(self, shape: StepShape) -> int:
        """Compute the step that was planned last; nanoseconds since its planning began."""
        work = self.watched.work[-1]
        now_ns = self._clock.now_ns
        wall, cpu, began = time.perf_counter_ns(), time.thread_time_ns(), now_ns()
        self._executor.run(work)
        ended = now_ns()
        self.wall_ns += time.perf_counter_ns() - wall
        self.cpu_ns += time.thread_time_ns() - cpu
        self.model_ns.append(ended - began)
        assert self._start_ns is not None  # a step is planned before it is priced
        return max(1, ended - self._start_ns - work.now_ns)

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """One step: the engine is told not to leap."""
        assert steps == 1
        return np.array([self.step_ns(shape)], dtype=np.int64)

    def _wait_until(self, engine_ns: int) -> None:
        clock = self._clock
        if self._start_ns is None:
            self._start_ns = clock.now_ns() - engine_ns
        while (early_ns := engine_ns + self._start_ns - clock.now_ns()) > 0:
            clock.sleep(early_ns / 1e9)


class ReplayedSteps:
    """A cost model whose k-th price is the k-th duration, ns."""

    needs_longest_context = False

    def __init__(self, durations_ns: NDArray[np.int64]) -> None:
        self._left = iter(durations_ns.tolist())

    def step_ns(self, shape: StepShape) -> int:
        """The next duration; StopIteration is not possible for the schedule they came from."""
        return int(next(self._left))

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """The next durations."""
        return np.array([next(self._left) for _ in range(steps)], dtype=np.int64)


class WithHost:
    """A cost model with the host's time for planning and bookkeeping added to every step, ns."""

    def __init__(self, prices: CostModel, host_ns: int) -> None:
        self.needs_longest_context = prices.needs_longest_context
        self._prices, self._host_ns = prices, host_ns

    def step_ns(self, shape: StepShape) -> int:
        """Price and host time."""
        return self._prices.step_ns(shape) + self._host_ns

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Prices and host time of each step."""
        return self._prices.leap_ns(shape, steps) + self._host_ns


def serve(
    trace: Trace,
    scheduler: Scheduler,
    kv: KVCache,
    executor: Executor,
    *,
    max_model_len: int | None = None,
    seed: int = 0,
    clock: WallClock | None = None,
) -> Served:
    """Serve a trace in real time; takes as long as the trace and its last answers."""
    executor.begin(trace, seed)
    live = LiveSteps(scheduler, executor, clock or WallClock())
    others = OtherProcesses()
    result = simulate(
        trace,
        live.watched,
        live,
        kv,
        async_scheduling=False,
        leap=False,
        max_model_len=max_model_len,
    )
    model_ns = np.array(live.model_ns, dtype=np.int64)
    share = live.cpu_ns / max(live.wall_ns, 1)
    return Served(result, tuple(live.watched.work), model_ns, share, others.cpus())


def shape_of(work: StepWork) -> StepShape:
    """A step as a cost model sees it."""
    contexts = [context for _, context in (*work.decodes, *work.idle)]
    return StepShape(
        tuple((chunk.padded, chunk.past) for chunk in work.chunks),
        len(contexts),
        sum(contexts),
        max(contexts, default=0),
    )
