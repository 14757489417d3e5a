"""`Engine`: one SimPy process that asks a scheduler for plans, prices them and applies them.

    take arrivals -> plan -> launch (evict, admit, take blocks, price) -> wait -> deliver

Launching changes what planning sees; delivering hands out what the step produced. With one step
in flight (sync) the two follow each other; with two (vLLM's `async_scheduling`) step k + 1 is
planned while step k runs. Nobody else changes a sequence, the pool or the cache.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple, Protocol

import simpy

from .cost_model import CostModel
from .decode_pool import DecodePool
from .errors import InvalidPlanError, SchedulerStalledError
from .feed import ArrivalFeed
from .kv_cache import KVCache
from .leap import LONGEST_LEAP, Priced, price, steps_at_once
from .lifecycle import Chunks, Lifecycle
from .plan import Holds, Plan, StepShape
from .promise import Promise
from .queues import FcfsQueue, KeyedQueue, WaitingQueue
from .request import Sequence
from .request_log import RequestColumns
from .step_log import EntryLog, TokenLog
from .validation import check_plan
from .view import EngineView, Scheduler

PROGRESS_EVERY = 256
"""Requests that end between two calls of the progress callback."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to run. Leaps, paths and checks do not change what comes out.

    leap: take identical steps at once; a number caps the steps of one leap.
    slow_path: walk all sequences in every step (a check of the aggregates).
    check_promises: step through every would-be leap and ask the scheduler each time.
    pipeline_depth: steps planned ahead; 1 sync, 2 async.
    stop_ns: no step that would end later is taken.
    progress: called now and then with the number of requests that have ended.
    """

    leap: bool | int = True
    slow_path: bool = False
    check_promises: bool = False
    pipeline_depth: int = 1
    max_model_len: int | None = None
    stop_ns: int | None = None
    progress: Callable[[int], None] | None = None

    @property
    def longest_leap(self) -> int:
        """Steps that one leap may take."""
        if self.slow_path or self.leap is False:
            return 1
        return LONGEST_LEAP if self.leap is True else max(1, int(self.leap))


class Clock(Protocol):
    """What the engine uses of a SimPy environment whose time is an integer of nanoseconds."""

    @property
    def now(self) -> int:
        """The instant, ns."""

    def timeout(self, delay: int) -> simpy.Event:
        """An event `delay` ns from now."""


class Flight(NamedTuple):
    """A launched plan: when its last step starts, when it ends, and what that end delivers."""

    last_start_ns: int
    end_ns: int
    completed: list[Sequence]
    finishing: list[Sequence]


class Engine:
    """Serves one feed with one scheduler on one simulated device; `rows` is the trace's length."""

    def __init__(
        self,
        env: Clock,
        feed: ArrivalFeed,
        scheduler: Scheduler,
        cost_model: CostModel,
        kv: KVCache,
        *,
        rows: int,
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
            RequestColumns(rows),
            self.tokens,
            holds_slots=bool(getattr(scheduler, "holds_slots_until_batch_end", False)),
            delivers_at_end=bool(getattr(scheduler, "delivers_at_batch_end", False)),
        )
        self._env = env
        self.feed = feed
        self._scheduler = scheduler
        self._cost_model = cost_model
        self._kv = kv
        self._options = options
        self._longest_leap = options.longest_leap
        self._closes_ns = sys.maxsize if options.stop_ns is None else options.stop_ns - 1
        self._token_limit: int | None = getattr(scheduler, "step_token_limit", None)
        self._promise = Promise(scheduler) if options.check_promises else None
        self._reported = 0
        self._busy_until_ns = 0
        self._wake_ns: int | None = None
        self._stopped = False
        self._evicted = 0
        kv.watch(self.pool)

    def run(self) -> Generator[simpy.Event, None, None]:
        """The loop: a SimPy process that ends when nothing is left to serve and nothing comes."""
        pipe, depth = self.pipe, self._options.pipeline_depth
        while True:
            if pipe:
                yield from self._until(pipe[-1].last_start_ns)
            self._take_arrivals(self._env.now)
            flight = self._launch() if self._has_work() else None
            if flight is not None:
                pipe.append(flight)
                if len(pipe) < depth:
                    continue
            if pipe:
                flight = pipe[0]
                if flight.end_ns > self._env.now:
                    self.events += 1
                    yield self._env.timeout(flight.end_ns - self._env.now)
                if flight.finishing:
                    # What arrived before makes way before: a finish lets capped clients go on.
                    self._take_arrivals(flight.end_ns - 1)
                self.life.deliver(flight.completed, flight.finishing, flight.end_ns)
                pipe.popleft()
                continue
            change_ns = self._next_change_ns()
            if change_ns is None:
                break
            yield from self._until(change_ns)
        if self._options.stop_ns is not None:
            yield from self._until(self._options.stop_ns)
            self._take_arrivals(self._options.stop_ns)

    def _has_work(self) -> bool:
        return bool(self.view.waiting or self.view.running) and not self._stopped

    def _until(self, time_ns: int) -> Generator[simpy.Event, None, None]:
        if time_ns > self._env.now:
            self.events += 1
            yield self._env.timeout(time_ns - self._env.now)

    def _take_arrivals(self, now_ns: int) -> None:
        feed, last_ns = self.feed, min(now_ns, self._closes_ns)
        next_ns = feed.next_ns
        while next_ns is not None and next_ns <= last_ns:
            for sequence in feed.pull(last_ns):
                self.life.arrive(sequence, self._rejection(sequence))
            next_ns = feed.next_ns
        self.view.load_ended = next_ns is None
        if self._options.progress and self.life.ended - self._reported >= PROGRESS_EVERY:
            self._reported = self.life.ended
            self._options.progress(self._reported)

    def _rejection(self, sequence: Sequence) -> str | None:
        """Why a request can never be served: said on arrival, instead of blocking the queue.

        The cache must hold prompt + output - 1 tokens: the last token is never fed back.
        """
        total = sequence.prompt_tokens + sequence._output_tokens
        limit = self._options.max_model_len
        if limit is not None and total > limit:
            return "exceeds_model_len"
        if self._kv.blocks_for(total - 1) > self._kv.blocks:
            return "exceeds_kv_capacity"
        return None

    def _next_change_ns(self) -> int | None:
        """When anything can change while nothing runs; None: the run is over."""
        now, stop_ns = self._env.now, self._options.stop_ns
        times = (self.feed.next_ns, self._wake_ns if self._has_work() else None)
        due = min((t for t in times if t is not None and t >= now), default=None)
        if self._stopped or (stop_ns is not None and (due is None or due >= stop_ns)):
            return None
        if due is None and (self.view.waiting or self.view.running):
            raise SchedulerStalledError(
                f"{type(self._scheduler).__name__} planned nothing at {now} ns while "
                f"{len(self.view.waiting)} requests wait and {len(self.view.running)} run, and no "
                "arrival will change that: make plan() admit or decode something"
            )
        return due

    def _later(self, wake_ns: int | None) -> int | None:
        if wake_ns is not None and wake_ns <= self._env.now:
            raise InvalidPlanError(
                f"plan does nothing and wakes at {wake_ns} ns, it is {self._env.now} ns: "
                "wake_ns must be later"
            )
        return wake_ns

    def _plan(self, start_ns: int) -> Plan:
        """Ask the scheduler, check its plan and evict whom it names."""
        view = self.view
        plan = self._scheduler.plan(view)
        check_plan(plan, view, self._token_limit)
        if self._promise is not None:
            self._promise.check(plan, view)
        withdrawn = dict(plan.withdrawn)
        for sequence, taken in zip(plan.preempt, plan.taken or repeat(0), strict=False):
            self._kv.set_aside(taken)
            self.life.evict(sequence, start_ns, withdrawn.get(sequence, 0))
            self._evicted += 1
        return plan

    def _launch(self) -> Flight | None:
        """Plan a step (or a leap of identical ones) and start it; None: there is nothing to do."""
        view, kv, pool = self.view, self._kv, self.pool
        view.now_ns = self._env.now
        start_ns = max(view.now_ns, self._busy_until_ns)
        plan = self._plan(start_ns)
        decode_seqs = self._seat_decodes(plan)
        shape = self._decode_shape(plan, decode_seqs)
        completed: list[Sequence] = []
        in_parts = bool(plan.prefill or plan.more)
        if in_parts:
            finishing = self._decode(1) if decode_seqs else []
            plan, chunks, completed = self._start_prompts(plan, start_ns, decode_seqs)
            used_blocks = kv.used_blocks
            shape = shape._replace(chunks=tuple(chunks))
        if not (decode_seqs or plan.prefill):
            self._wake_ns = view.now_ns if plan.preempt else self._later(plan.wake_ns)
            return None
        leap = self._price(plan, shape, start_ns)
        if self._stopped:
            self.life.take_back(plan)
            return None
        if not in_parts:
            used_blocks = kv.used_blocks + pool.growth_blocks
            finishing = self._decode(leap.steps)
        for sequence, _ in plan.prefill:
            sequence._active_ns += leap.total_ns
        for sequence in completed:
            self.life.end_prompt(sequence, self.entries.count, finishing)
        view.previous = plan
        pool.resting = pool.resting_now
        self._log(plan, shape, decode_seqs, (start_ns, used_blocks, len(completed)), leap)
        self._busy_until_ns = end_ns = start_ns + leap.total_ns
        return Flight(end_ns - leap.last_ns, end_ns, completed, finishing)

    def _start_prompts(
        self, plan: Plan, start_ns: int, decode_seqs: int
    ) -> tuple[Plan, Chunks, list[Sequence]]:
        """Chunks get their blocks, part by part; (the whole plan, chunks, completed prompts)."""
        view = self.view
        chunks, completed = self.life.compute_prompts(plan, start_ns)
        prefill, part, longest = plan.prefill, plan, plan.padded_prefill_tokens
        while part.more:
            view.planned_tokens = decode_seqs + sum([new for _, new in prefill])
            part = self._scheduler.plan(view)
            check_plan(part, view, self._token_limit)
            prefill += part.prefill
            longest = max(longest, part.padded_prefill_tokens)
            new_chunks, new_completed = self.life.compute_prompts(part, start_ns)
            chunks += new_chunks
            completed += new_completed
        view.planned_tokens = None
        if longest:
            chunks = [(longest, past) for _, past in chunks]
        return plan._replace(prefill=prefill, more=False), chunks, completed

    def _decode(self, steps: int) -> list[Sequence]:
        """The pool produces `steps` tokens each; returns who is done."""
        self._kv.grow(self.pool.growth_of(steps))
        return self.pool.advance(steps)

    def _log(
        self,
        plan: Plan,
        shape: StepShape,
        decode_seqs: int,
        facts: tuple[int, int, int],
        leap: Priced,
    ) -> None:
        start_ns, used_blocks, completed = facts
        self.entries.add(
            (
                start_ns,
                leap.steps,
                sum([new for _, new in plan.prefill]),
                len(plan.prefill),
                decode_seqs,
                shape.decode_seqs - decode_seqs,
                shape.decode_context_tokens,
                len(self.view.running),
                used_blocks,
                self._evicted,
                completed,
            ),
            leap.durations,
        )
        self._evicted = 0

    def _price(self, plan: Plan, shape: StepShape, start_ns: int) -> Priced:
        """The steps this plan stays right for, priced."""
        steps, cut_ns = 1, None
        if not plan.prefill and not self._finish_in_flight():
            limit = self._longest_leap
            steps = steps_at_once(plan.holds, self.pool, self._kv.free_blocks, limit)
            if plan.holds is Holds.UNTIL_ARRIVAL and self.feed.next_ns is not None:
                cut_ns = self.feed.next_ns - start_ns
        leap = price(self._cost_model, shape, steps, cut_ns, self._options.pipeline_depth)
        if self._options.stop_ns is not None:
            leap, self._stopped = leap.ended_by(self._options.stop_ns - start_ns)
        return leap if self._promise is None else self._promise.make(plan, leap)

    def _finish_in_flight(self) -> bool:
        """Whether a launched step will free a seat (async only): then plans hold one step."""
        return any(flight.finishing for flight in self.pipe) if self.pipe else False

    def _seat_decodes(self, plan: Plan) -> int:
        """How many decode in this step; those left out sit it out."""
        pool, decode_seqs = self.pool, plan.decode_seqs(len(self.pool))
        pool.resting_now = ()
        if decode_seqs < len(pool) and (decode_seqs or self._kv.caches_prefixes):
            chosen = set(plan.decode) if isinstance(plan.decode, tuple) else ()
            left_out = [sequence for sequence in pool if sequence not in chosen]
            if decode_seqs:
                for sequence in left_out:
                    pool.hold_back(sequence)
            pool.resting_now = set(left_out)
        return decode_seqs

    def _decode_shape(self, plan: Plan, decode_seqs: int) -> StepShape:
        """The decoding half of a step's shape, from the aggregates."""
        pool = self.pool
        if not decode_seqs:
            return StepShape((), 0, 0)
        longest = pool.longest_context() if self._cost_model.needs_longest_context else 0
        context = pool.context_tokens
        if self.view.slow_path or decode_seqs < len(pool):
            members = plan.decode if isinstance(plan.decode, tuple) else tuple(pool)
            context, longest = self._walked(members, longest)
        seqs = decode_seqs + pool.padded_seqs
        return StepShape((), seqs, context + pool.padded_context_tokens, longest)

    def _walked(self, members: tuple[Sequence, ...], longest: int) -> tuple[int, int]:
        """Summed and longest context of these members only (slow path, or some sit out)."""
        contexts = [self.pool.context_of(sequence) for sequence in members]
        padded = self.pool.padded_seqs > 0 or not self._cost_model.needs_longest_context
        return sum(contexts), longest if padded else max(contexts)
