"""`Engine`: one SimPy process that asks a scheduler for plans, prices them and applies them.

    take arrivals -> plan -> launch (evict, admit, take blocks, price) -> wait -> deliver

Launching changes what planning sees; delivering hands out what the step produced. With one step
in flight (sync) the two follow each other; with two (vLLM's `async_scheduling`) step k + 1 is
planned while step k runs. Nobody else changes a sequence, the pool or the cache.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Generator

import simpy

from .clock import Clock
from .cost_model import CostModel
from .decode_launch import Flight
from .decode_pool import DecodePool
from .errors import SchedulerStalledError
from .feed import ArrivalFeed
from .kv_cache import KVCache
from .launch import Launcher
from .lifecycle import Lifecycle
from .options import EngineOptions
from .queues import FcfsQueue, KeyedQueue, WaitingQueue
from .request_log import RequestColumns
from .step_log import EntryLog, TokenLog
from .units import ns_to_seconds
from .view import EngineView, Scheduler

PROGRESS_EVERY = 256
"""Requests that end between two calls of the progress callback."""


class Engine:
    """Serves one feed with one scheduler on one simulated device."""

    def __init__(
        self,
        env: Clock,
        feed: ArrivalFeed,
        scheduler: Scheduler,
        cost_model: CostModel,
        kv: KVCache,
        *,
        options: EngineOptions,
    ) -> None:
        self.entries = EntryLog()
        self.tokens = TokenLog()
        self.events = 1
        self.pipe: deque[Flight] = deque()
        self.pool = DecodePool(kv.block_size, self.tokens, cost_model.needs_longest_context)
        key = getattr(scheduler, "queue_key", None)
        waiting: WaitingQueue = FcfsQueue() if key is None else KeyedQueue(key)
        self.view = EngineView(kv, self.pool, waiting, slow_path=options.slow_path)
        self.life = Lifecycle(
            self.view,
            feed,
            RequestColumns(),
            self.tokens,
            holds_slots=bool(getattr(scheduler, "holds_slots_until_batch_end", False)),
            delivers_at_end=bool(getattr(scheduler, "delivers_at_batch_end", False)),
            swaps=options.swap_ns_per_block is not None,
        )
        kv.watch(self.pool)
        self.feed = feed
        self.launcher = Launcher(
            feed,
            scheduler,
            cost_model,
            self.life,
            view=self.view,
            entries=self.entries,
            pipe=self.pipe,
            options=options,
        )
        self._env = env
        self._scheduler = scheduler
        self._options = options
        self._closes_ns = sys.maxsize if options.stop_ns is None else options.stop_ns - 1
        # The last token is never fed back, so the cache need not hold it.
        self._capacity = self._most_tokens = kv.blocks * kv.block_size + 1
        if options.never_fits == "wait":
            self._most_tokens = sys.maxsize
        if options.max_model_len is not None:
            self._most_tokens = min(self._most_tokens, options.max_model_len)
        self._reported = 0

    def run(self) -> Generator[simpy.Event | None, None, None]:
        """The loop: a SimPy process that ends when nothing is left to serve and nothing comes."""
        env, pipe, ahead = self._env, self.pipe, self._options.pipeline_depth - 1
        feed, view, timeout = self.feed, self.view, self._env.timeout
        launcher, launch = self.launcher, self.launcher.launch
        reports = self._options.progress is not None
        clock_ns = now_ns = env.now
        while True:
            if pipe and pipe[-1][0] > now_ns:
                # What is planned while a step runs needs no event: till its end nothing changes.
                now_ns = pipe[-1][0]
            due_ns = feed.next_ns
            if due_ns is not None and due_ns <= now_ns:
                self._take_arrivals(now_ns)
            flight = None
            if (view.running or view.waiting) and not launcher.stopped:
                flight = launch(now_ns)
            if ahead:
                if flight is not None:
                    pipe.append(flight)
                    if len(pipe) <= ahead:
                        continue
                flight = pipe[0] if pipe else None
            if flight is None:
                change_ns = self._next_change_ns()
                if change_ns is None:
                    break
                if change_ns > now_ns:
                    self.events += 1
                    yield timeout(change_ns - now_ns)
                    clock_ns = now_ns = change_ns
                continue
            _, end_ns, finishing = flight
            if end_ns > clock_ns:
                self.events += 1
                yield timeout(end_ns - clock_ns)
                clock_ns = now_ns = end_ns
            if finishing:
                due_ns = feed.next_ns
                if due_ns is not None and due_ns < end_ns:
                    # What arrived before makes way before: a finish lets capped clients go on.
                    self._take_arrivals(end_ns - 1)
                self.life.deliver(finishing, end_ns)
            if reports:
                self._report_progress()
            if ahead:
                pipe.popleft()
        stop_ns = self._options.stop_ns
        if stop_ns is not None:
            if stop_ns > now_ns:
                self.events += 1
                yield timeout(stop_ns - now_ns)
            self._take_arrivals(stop_ns)

    def _has_work(self) -> bool:
        return bool(self.view.waiting or self.view.running) and not self.launcher.stopped

    def _take_arrivals(self, now_ns: int) -> None:
        feed, waiting, most = self.feed, self.view.waiting, self._most_tokens
        last_ns = now_ns if now_ns < self._closes_ns else self._closes_ns
        next_ns = feed.next_ns
        while next_ns is not None and next_ns <= last_ns:
            for sequence in feed.pull(last_ns):
                total = sequence.prompt_tokens + sequence._output_tokens
                if total <= most:
                    waiting.add(sequence)
                else:
                    self.life.reject(sequence, self._rejection(total))
            next_ns = feed.next_ns
        self.view.load_ended = next_ns is None

    def _rejection(self, total: int) -> str:
        """Why a request can never be served: said on arrival, instead of blocking the queue."""
        limit = self._options.max_model_len
        return "exceeds_model_len" if limit is not None and total > limit else "exceeds_kv_capacity"

    def _report_progress(self) -> None:
        progress, ended = self._options.progress, self.life.ended
        if progress is not None and ended - self._reported >= PROGRESS_EVERY:
            self._reported = ended
            progress(ended)

    def _next_change_ns(self) -> int | None:
        """When anything can change while nothing runs; None: the run is over."""
        now, stop_ns = self._env.now, self._options.stop_ns
        times = (self.feed.next_ns, self.launcher.wake_ns if self._has_work() else None)
        due = min((t for t in times if t is not None and t >= now), default=None)
        if self.launcher.stopped or (stop_ns is not None and (due is None or due >= stop_ns)):
            return None
        if due is None and (self.view.waiting or self.view.running) and not self._waits_for_ever():
            raise SchedulerStalledError(
                f"{type(self._scheduler).__name__} planned nothing at "
                f"{ns_to_seconds(now):.9g} s while {len(self.view.waiting)} requests wait and "
                f"{len(self.view.running)} run, and no arrival will change "
                "that: make plan() admit or decode something"
            )
        return due

    def _waits_for_ever(self) -> bool:
        """Whether somebody in the system will never fit the cache, and so blocks all the others."""
        return self._options.never_fits == "wait" and any(
            sequence.prompt_tokens + sequence._output_tokens > self._capacity
            for sequence in (*self.view.waiting, *self.view.running)
        )
