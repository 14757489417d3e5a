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
from .leap import (
    BITS,
    LONGEST_LEAP,
    price,
    refuse_price,
    steps_at_once,
    steps_until,
)
from .lifecycle import Chunks, Lifecycle
from .plan import Decode, Holds, Plan, StepShape
from .promise import Promise
from .queues import FcfsQueue, KeyedQueue, WaitingQueue
from .request import Sequence
from .request_log import RequestColumns
from .step_log import EntryLog, TokenLog
from .validation import check_decodes, check_plan
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
        self._careful = options.slow_path or options.check_promises
        self._line = getattr(cost_model, "line", None)
        self._step_ns = cost_model.step_ns
        self._needs_longest = cost_model.needs_longest_context
        self._stop_ns, self._depth = options.stop_ns, options.pipeline_depth
        self._most_tokens = kv.blocks * kv.block_size + 1
        if options.max_model_len is not None:
            self._most_tokens = min(self._most_tokens, options.max_model_len)
        self._reported = 0
        self._busy_until_ns = 0
        self._wake_ns: int | None = None
        self._stopped = False
        self._evicted = 0
        kv.watch(self.pool)

    def run(self) -> Generator[simpy.Event, None, None]:
        """The loop: a SimPy process that ends when nothing is left to serve and nothing comes."""
        env, pipe, ahead = self._env, self.pipe, self._options.pipeline_depth - 1
        feed, view, timeout = self.feed, self.view, self._env.timeout
        now_ns = env.now
        while True:
            if pipe:
                yield from self._until(pipe[-1][0])
                now_ns = env.now
            due_ns = feed.next_ns
            if due_ns is not None and due_ns <= now_ns:
                self._take_arrivals(now_ns)
            flight = None
            if (view.running or view.waiting) and not self._stopped:
                flight = self._launch()
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
                yield from self._until(change_ns)
                now_ns = env.now
                continue
            _, end_ns, completed, finishing = flight
            if end_ns > now_ns:
                self.events += 1
                yield timeout(end_ns - now_ns)
                now_ns = end_ns
            if completed or finishing:
                if finishing:
                    due_ns = feed.next_ns
                    if due_ns is not None and due_ns < end_ns:
                        # What arrived before makes way before: a finish lets capped clients go on.
                        self._take_arrivals(end_ns - 1)
                self.life.deliver(completed, finishing, end_ns)
                if self._options.progress is not None:
                    self._report_progress()
            if ahead:
                pipe.popleft()
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
        feed, life = self.feed, self.life
        last_ns = now_ns if now_ns < self._closes_ns else self._closes_ns
        next_ns = feed.next_ns
        while next_ns is not None and next_ns <= last_ns:
            for sequence in feed.pull(last_ns):
                total = sequence.prompt_tokens + sequence._output_tokens
                life.arrive(
                    sequence, None if total <= self._most_tokens else self._rejection(total)
                )
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

    def _launch(self) -> Flight | None:
        """Plan a step (or a leap of identical ones) and start it; None: there is nothing to do."""
        view, pool = self.view, self.pool
        view.now_ns = now_ns = self._env.now
        start_ns = now_ns if now_ns > self._busy_until_ns else self._busy_until_ns
        plan = self._scheduler.plan(view)
        decode, prefill, preempt, *_, more = plan
        if prefill or preempt or more or decode is not Decode.ALL or self._careful:
            check_plan(plan, view, self._token_limit)
            if self._promise is not None:
                self._promise.check(plan, view)
            if preempt:
                self._evict(plan, start_ns)
        else:
            check_decodes(pool, view.kv.free_blocks, self._token_limit)
        if decode is Decode.ALL:
            seqs, pool.resting_now = pool.size, ()
        else:
            seqs = self._seat_decodes(plan)
        if prefill or more:
            return self._mixed_step(plan, start_ns, seqs)
        if seqs:
            return self._leap(plan, start_ns, seqs)
        self._wake_ns = now_ns if preempt else self._later(plan.wake_ns)
        return None

    def _evict(self, plan: Plan, start_ns: int) -> None:
        withdrawn = dict(plan.withdrawn)
        for sequence, taken in zip(plan.preempt, plan.taken or repeat(0), strict=False):
            self._kv.set_aside(taken)
            self.life.evict(sequence, start_ns, withdrawn.get(sequence, 0))
        self._evicted += len(plan.preempt)

    def _mixed_step(self, plan: Plan, start_ns: int, seqs: int) -> Flight | None:
        """One step with prompt chunks in it."""
        pool, kv, life = self.pool, self._kv, self.life
        priced_seqs, context, longest = self._decodes(plan, seqs) if seqs else (0, 0, 0)
        finishing: list[Sequence] = []
        if seqs:
            kv.grow(pool.growth_blocks)
            if kv.caches_prefixes:  # blocks this step fills can be hit by its later parts
                finishing = pool.advance(1)
        chunks, completed = life.compute_prompts(plan, start_ns)
        if plan.more:
            plan = self._rest_of(plan, start_ns, seqs, chunks, completed)
            if not (seqs or chunks):
                return None
        if seqs and not kv.caches_prefixes:
            finishing = pool.advance(1)
        shape = StepShape(tuple(chunks), priced_seqs, context, longest)
        duration_ns = self._step_ns(shape)
        if duration_ns <= 0:
            refuse_price(self._cost_model, shape, duration_ns)
        end_ns = start_ns + duration_ns
        if self._stop_ns is not None and end_ns > self._stop_ns:
            self._stopped = True
            life.take_back(plan)
            return None
        tokens = 0
        for sequence, new in plan.prefill:
            sequence._active_ns += duration_ns
            tokens += new
        used_blocks = kv.blocks - kv.free_blocks
        if completed:
            life.end_prompts(completed, self.entries.count, finishing)
        self.entries.add(
            (
                start_ns,
                1,
                tokens,
                len(chunks),
                seqs,
                priced_seqs - seqs,
                context,
                len(self.view.running),
                used_blocks,
                self._evicted,
                len(completed),
                duration_ns << BITS,
                0,
            )
        )
        self._evicted = 0
        self._busy_until_ns = end_ns
        self.view.previous = plan
        pool.resting = pool.resting_now
        return Flight(start_ns, end_ns, completed, finishing)

    def _leap(self, plan: Plan, start_ns: int, seqs: int) -> Flight | None:
        """Nothing but decodes, for as many steps as the plan holds."""
        pool, kv = self.pool, self._kv
        if seqs < pool.size or self._careful:
            priced_seqs, context, longest = self._decodes(plan, seqs)
        else:
            priced_seqs = seqs + pool.padded_seqs
            context = pool.context_tokens + pool.padded_context_tokens
            longest = pool.longest_context() if self._needs_longest else 0
        shape = StepShape((), priced_seqs, context, longest)
        steps, cut_ns = 1, None
        if plan.holds is not Holds.ONE_STEP and not (self.pipe and self._finish_in_flight()):
            steps = steps_at_once(plan.holds, pool, kv.free_blocks, self._longest_leap)
            if steps > 1 and plan.holds is Holds.UNTIL_ARRIVAL:
                due_ns = self.feed.next_ns
                if due_ns is not None:
                    cut_ns = due_ns - start_ns
        line = self._line
        if steps == 1 or line is None:
            first, slope, steps, total_ns, last_ns = self._price(shape, steps, cut_ns, start_ns)
        else:
            first, slope = line(shape)
            limit_ns = None if self._stop_ns is None else self._stop_ns - start_ns
            steps, total_ns = steps_until(first, slope, steps, (cut_ns, limit_ns, self._depth))
            self._stopped = not steps
            last_ns = first + (steps - 1) * slope >> BITS
        if self._stopped:
            return None
        if self._promise is not None:
            self._promise.made(plan, steps)
            steps, first, slope = 1, self._step_ns(shape) << BITS, 0
            total_ns = last_ns = first >> BITS
        growth = pool.growth_blocks
        used_blocks = kv.blocks - kv.free_blocks + growth
        kv.grow(growth if steps == 1 else pool.growth_of(steps))
        finishing = pool.advance(steps)
        self.entries.add(
            (
                start_ns,
                steps,
                0,
                0,
                seqs,
                priced_seqs - seqs,
                context,
                len(self.view.running),
                used_blocks,
                self._evicted,
                0,
                first,
                slope,
            )
        )
        self._evicted = 0
        self._busy_until_ns = end_ns = start_ns + total_ns
        self.view.previous = plan
        pool.resting = pool.resting_now
        return Flight(end_ns - last_ns, end_ns, [], finishing)

    def _price(
        self, shape: StepShape, steps: int, cut_ns: int | None, start_ns: int
    ) -> tuple[int, int, int, int, int]:
        """A single step, or a leap of a model that has no straight line."""
        if steps == 1:
            total_ns = self._step_ns(shape)
            if total_ns <= 0:
                refuse_price(self._cost_model, shape, total_ns)
            if self._stop_ns is not None and start_ns + total_ns > self._stop_ns:
                self._stopped = True
            return total_ns << BITS, 0, 1, total_ns, total_ns
        leap = price(self._cost_model, shape, steps, cut_ns, self._depth)
        if self._stop_ns is not None:
            leap, self._stopped = leap.ended_by(self._stop_ns - start_ns)
        steps, durations, total_ns, last_ns = leap
        if isinstance(durations, int):
            return total_ns << BITS, 0, 1, total_ns, total_ns
        if not self._stopped and self._promise is None:
            self.entries.add_durations(durations)
        return 0, -1, steps, total_ns, last_ns

    def _rest_of(
        self, plan: Plan, start_ns: int, seqs: int, chunks: Chunks, completed: list[Sequence]
    ) -> Plan:
        """The other parts of a step whose plan says `more`; returns the whole plan."""
        view = self.view
        prefill, part, longest = plan.prefill, plan, plan.padded_prefill_tokens
        while part.more:
            view.planned_tokens = seqs + sum([new for _, new in prefill])
            part = self._scheduler.plan(view)
            check_plan(part, view, self._token_limit)
            prefill += part.prefill
            longest = max(longest, part.padded_prefill_tokens)
            new_chunks, new_completed = self.life.compute_prompts(part, start_ns)
            chunks += new_chunks
            completed += new_completed
        view.planned_tokens = None
        if longest:
            chunks[:] = [(longest, past) for _, past in chunks]
        return plan._replace(prefill=prefill, more=False)

    def _finish_in_flight(self) -> bool:
        """Whether a launched step will free a seat (async only): then plans hold one step."""
        return any(finishing for _, _, _, finishing in self.pipe)

    def _seat_decodes(self, plan: Plan) -> int:
        """How many decode in this step; those left out sit it out."""
        pool, decode_seqs = self.pool, plan.decode_seqs(self.pool.size)
        pool.resting_now = ()
        if decode_seqs < pool.size and (decode_seqs or self._kv.caches_prefixes):
            chosen = set(plan.decode) if isinstance(plan.decode, tuple) else ()
            left_out = [sequence for sequence in pool if sequence not in chosen]
            if decode_seqs:
                for sequence in left_out:
                    pool.hold_back(sequence)
            pool.resting_now = dict.fromkeys(left_out)
        return decode_seqs

    def _decodes(self, plan: Plan, seqs: int) -> tuple[int, int, int]:
        """(sequences, summed context, longest context) that a step prices, from the aggregates."""
        pool = self.pool
        longest = pool.longest_context() if self._needs_longest else 0
        context = pool.context_tokens
        if self.view.slow_path or seqs < pool.size:
            members = plan.decode if isinstance(plan.decode, tuple) else tuple(pool)
            context, longest = self._walked(members, longest)
        return seqs + pool.padded_seqs, context + pool.padded_context_tokens, longest

    def _walked(self, members: tuple[Sequence, ...], longest: int) -> tuple[int, int]:
        """Summed and longest context of these members only (slow path, or some sit out)."""
        contexts = [self.pool.context_of(sequence) for sequence in members]
        padded = self.pool.padded_seqs > 0 or not self._cost_model.needs_longest_context
        return sum(contexts), longest if padded else max(contexts)
