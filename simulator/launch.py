"""`Launcher`: from a scheduler's plan to steps under way: evict, admit, take blocks, price, log.

Launching changes what the next planning sees; what a step produces is handed out when it ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import repeat

from .cost_model import CostModel
from .decode_launch import DecodeLauncher, Flight
from .errors import InvalidPlanError, whole
from .feed import ArrivalFeed
from .leap import BITS, refuse_price, step_price
from .lifecycle import Chunks, Lifecycle
from .options import EngineOptions
from .plan import ALL, WHILE_ALONE, Plan, StepShape, make_tuple
from .promise import Promise
from .schedulers import SCHEDULERS
from .sequence import Sequence
from .step_log import EntryLog, entry
from .validation import check_plan, refuse_answer
from .view import EngineView, Scheduler

SHIPPED = frozenset(SCHEDULERS.values())

LONG_AGO_NS = 1 << 62
"""Before the run: no step with prompts has ended yet."""


class Launcher(DecodeLauncher):
    """Asks for plans and starts them, one at a time.

    wake_ns: when an idle plan wants to be asked again.
    """

    def __init__(
        self,
        feed: ArrivalFeed,
        scheduler: Scheduler,
        cost_model: CostModel,
        life: Lifecycle,
        *,
        view: EngineView,
        entries: EntryLog,
        pipe: deque[Flight],
        options: EngineOptions,
    ) -> None:
        promise = Promise(scheduler) if options.check_promises else None
        super().__init__(
            feed,
            cost_model,
            life,
            promise,
            view=view,
            entries=entries,
            pipe=pipe,
            options=options,
        )
        self.wake_ns: int | None = None
        self._ask: Callable[[EngineView], object] = scheduler.plan
        self._policy = type(scheduler).__name__
        limit = getattr(scheduler, "step_token_limit", None)
        self._token_limit = None if limit is None else whole("step_token_limit", limit)
        # The policies that ship are held to their plans by the conformance tests, not step by step.
        self._checks = self._careful or type(scheduler) not in SHIPPED
        self._pause_saving = getattr(cost_model, "pause_saving_ns", None)
        self._prompts_end_ns = -LONG_AGO_NS

    def launch(self, now_ns: int) -> Flight | None:
        """Plan a step (or a leap of identical ones) and start it; None: there is nothing to do."""
        view, pool = self._view, self._pool
        view.now_ns = now_ns
        start_ns = now_ns if now_ns > self._busy_until_ns else self._busy_until_ns
        plan = self._asked()
        decode, prefill, preempt, holds, _, _, _, _, more = plan
        if self._promise is not None:
            self._promise.check(plan, view)
        if preempt:
            self._evict(plan, start_ns)
        if decode is ALL:
            seqs = pool.size
            if pool.resting_now:
                pool.resting_now = ()
        else:
            seqs = self._seat_decodes(plan)
        if prefill or more:
            flight = self._mixed_step(plan, start_ns, seqs)
        elif seqs:
            flight = self._decode_steps(plan, start_ns, seqs, self._pipe)
        else:
            self.wake_ns = now_ns if preempt else self._later(plan.wake_ns)
            return None
        if holds is WHILE_ALONE and self._runs_on:
            return self._run_on(flight, bool(prefill))
        return flight

    def _asked(self) -> Plan:
        """What the policy plans now, if it can be carried out."""
        plan = self._ask(self._view)
        if not isinstance(plan, Plan):
            refuse_answer(self._policy, plan)
        if self._checks:
            check_plan(plan, self._view, self._token_limit)
        return plan

    def _later(self, wake_ns: int | None) -> int | None:
        if wake_ns is not None and wake_ns <= self._view.now_ns:
            raise InvalidPlanError(
                f"plan does nothing and wakes at {wake_ns} ns, it is {self._view.now_ns} ns: "
                "wake_ns must be later"
            )
        return wake_ns

    def _evict(self, plan: Plan, start_ns: int) -> None:
        # Nobody has had a turn in this step yet.
        self._pool.resting_now, self._pool.ended_now = self._pool, ()
        withdrawn = dict(plan.withdrawn)
        for sequence, taken in zip(plan.preempt, plan.taken or repeat(0), strict=False):
            self._kv.set_aside(taken)
            self._life.evict(sequence, start_ns, withdrawn.get(sequence, 0))
        self._evicted += len(plan.preempt)

    def _mixed_step(self, plan: Plan, start_ns: int, seqs: int) -> Flight | None:
        """One step with prompt chunks in it."""
        pool, kv, life = self._pool, self._kv, self._life
        priced_seqs, context, longest = self._decodes(plan, seqs) if seqs else (0, 0, 0)
        finishing: list[Sequence] = []
        if seqs:
            if pool.growth_blocks:
                kv.grow(pool.growth_blocks)
            if kv.caches_prefixes:  # blocks this step fills can be hit by its later parts
                finishing = pool.advance(1)
        pool.ended_now = finishing
        chunks, completed = life.compute_prompts(plan, start_ns)
        if plan.more:
            plan = self._rest_of(plan, start_ns, seqs, chunks, completed)
            if not (seqs or chunks):
                return None
        if seqs and not kv.caches_prefixes:
            finishing = pool.advance(1)
        shape: StepShape = make_tuple(StepShape, (tuple(chunks), priced_seqs, context, longest))
        duration_ns = step_price(self._cost_model, shape)
        if chunks and self._pause_saving is not None:
            duration_ns -= self._pause_saving(shape, start_ns - self._prompts_end_ns)
            if duration_ns <= 0:
                refuse_price(self._cost_model, shape, duration_ns)
        if self._paid_blocks != life.moved_blocks:
            duration_ns += self._transfer_ns()
        end_ns = start_ns + duration_ns
        if self._stop_ns is not None and end_ns > self._stop_ns:
            self.stopped = True
            life.take_back(plan)
            return None
        tokens = 0
        for sequence, new in plan.prefill:
            sequence._active_ns += duration_ns
            tokens += new
        held = kv.blocks - kv.free_blocks
        if completed:
            life.end_prompts(completed, end_ns, self._entries.count, finishing)
        if chunks:
            self._prompts_end_ns = end_ns
        idle, seats = priced_seqs - seqs, len(self._view.running)
        if self._promise is not None:
            self._promise.made(plan, 1)
        prompts, ended = len(chunks), len(completed)
        gone, cost = self._evicted, duration_ns << BITS
        log = (start_ns, 1, tokens, prompts, seqs, idle, context, held, seats, gone, ended, cost, 0)
        self._entries.add(entry(*log))
        self._busy_until_ns = end_ns
        self._evicted = 0
        self._view.previous = plan
        pool.resting = pool.resting_now
        return start_ns, end_ns, finishing

    def _rest_of(
        self, plan: Plan, start_ns: int, seqs: int, chunks: Chunks, completed: list[Sequence]
    ) -> Plan:
        """The other parts of a step whose plan says `more`; returns the whole plan."""
        view = self._view
        prefill, part, longest = plan.prefill, plan, plan.padded_prefill_tokens
        while part.more:
            view.planned_tokens = seqs + sum([new for _, new in prefill])
            part = self._asked()
            prefill += part.prefill
            longest = max(longest, part.padded_prefill_tokens)
            new_chunks, new_completed = self._life.compute_prompts(part, start_ns)
            chunks += new_chunks
            completed += new_completed
        view.planned_tokens = None
        if longest:
            chunks[:] = [(longest, past) for _, past in chunks]
        return plan._replace(prefill=prefill, more=False)

    def _seat_decodes(self, plan: Plan) -> int:
        """How many decode in this step; those left out sit it out."""
        pool, decode_seqs = self._pool, plan.decode_seqs(self._pool.size)
        pool.resting_now = ()
        if decode_seqs < pool.size and (decode_seqs or self._kv.caches_prefixes):
            chosen = set(plan.decode) if isinstance(plan.decode, tuple) else ()
            left_out = [sequence for sequence in pool if sequence not in chosen]
            if decode_seqs:
                for sequence in left_out:
                    pool.hold_back(sequence)
            pool.resting_now = dict.fromkeys(left_out)
        return decode_seqs
