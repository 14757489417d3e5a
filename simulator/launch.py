"""`Launcher`: from a scheduler's plan to steps under way: evict, admit, take blocks, price, log.

Launching changes what the next planning sees; what a step produces is handed out when it ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from itertools import repeat

from .cost_model import CostModel
from .errors import InvalidPlanError
from .feed import ArrivalFeed, OpenFeed
from .leap import BITS, price, refuse_price, steps_until, steps_within
from .lifecycle import Chunks, Lifecycle
from .options import EngineOptions
from .plan import ALL, ONE_STEP, UNTIL_FINISH, WHILE_ALONE, Plan, StepShape, make_tuple
from .promise import Promise
from .request import Sequence
from .schedulers import SCHEDULERS
from .step_log import EntryLog, entry
from .validation import check_plan
from .view import EngineView, Scheduler

SHIPPED = frozenset(SCHEDULERS.values())


EVERYBODY = Plan(ALL, holds=WHILE_ALONE)
"""What every policy plans that promised `WHILE_ALONE`, while nobody else asks for anything."""

LONG_AGO_NS = 1 << 62
"""Before the run: no step with prompts has ended yet."""

Flight = tuple[int, int, list[Sequence], list[Sequence]]
"""A launched plan: when its last step starts, when it ends, and what that end delivers: the prompts
it completes and who gets the last token.
"""


class Launcher:
    """Asks for plans and starts them, one at a time.

    wake_ns: when an idle plan wants to be asked again. stopped: the next step would end after the
    stop time, so there is none.
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
        self.wake_ns: int | None = None
        self.stopped = False
        self._feed, self._life, self._pipe = feed, life, pipe
        self._view, self._pool, self._kv = view, view.decoding, view.kv
        self._entries = entries
        self._scheduler = scheduler
        self._token_limit: int | None = getattr(scheduler, "step_token_limit", None)
        self._promise = Promise(scheduler) if options.check_promises else None
        self._careful = options.slow_path or options.check_promises
        # The policies that ship are held to their plans by the conformance tests, not step by step.
        self._checks = self._careful or type(scheduler) not in SHIPPED
        self._cost_model = cost_model
        self._step_ns = cost_model.step_ns
        self._line = getattr(cost_model, "line", None)
        self._pause_saving = getattr(cost_model, "pause_saving_ns", None)
        self._prompts_end_ns = -LONG_AGO_NS
        self._needs_longest = cost_model.needs_longest_context
        self._longest_leap = options.longest_leap
        self._stop_ns, self._depth = options.stop_ns, options.pipeline_depth
        self._closed_loop = not isinstance(feed, OpenFeed)
        self._runs_on = not (self._closed_loop or self._careful or self._line is None)
        self._runs_on = self._runs_on and self._longest_leap > 1
        self._busy_until_ns = 0
        self._evicted = 0
        self._swap_ns = options.swap_ns_per_block or 0
        self._paid_blocks = 0

    def launch(self, now_ns: int) -> Flight | None:
        """Plan a step (or a leap of identical ones) and start it; None: there is nothing to do."""
        view, pool = self._view, self._pool
        view.now_ns = now_ns
        start_ns = now_ns if now_ns > self._busy_until_ns else self._busy_until_ns
        plan = self._scheduler.plan(view)
        decode, prefill, preempt, holds, _, wake_ns, _, _, more = plan
        if self._checks:
            check_plan(plan, view, self._token_limit)
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
            self.wake_ns = now_ns if preempt else self._later(wake_ns)
            return None
        if holds is WHILE_ALONE and self._runs_on:
            return self._run_on(flight)
        return flight

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
        duration_ns = self._step_ns(shape)
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
            life.end_prompts(completed, self._entries.count, finishing)
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
        return start_ns, end_ns, completed, finishing

    def _run_on(self, flight: Flight | None) -> Flight | None:
        """Leap after leap, without asking anybody, while nobody arrives, waits or prefills."""
        view, pool = self._view, self._pool
        if view.prefilling or view.waiting:
            return flight
        due_ns, sync = self._feed.next_ns, self._depth == 1
        while flight is not None and pool.size and (flight[3] or flight[2]):
            if due_ns is not None and due_ns <= (flight[1] if sync else flight[0]):
                break  # then more happens at its end than first and last tokens
            following = self._leap_after(flight)
            if following is None:
                break
            flight = following
        return flight

    def _leap_after(self, flight: Flight) -> Flight | None:
        """The leap after first or last tokens; None: blocks or time run out first.

        Sync, seats and blocks are given back before the next leap starts; async, after its plan.
        """
        life, pool, kv = self._life, self._pool, self._kv
        _, end_ns, completed, finishing = flight
        for _, earlier_ns, earlier, ended in self._pipe:
            if earlier or ended:
                life.deliver(earlier, ended, earlier_ns)
                earlier.clear()
                ended.clear()
        following: Flight | None = None
        if self._depth == 1:
            life.deliver(completed, finishing, end_ns)
            if pool.growth_blocks <= kv.free_blocks:
                following = self._decode_steps(EVERYBODY, end_ns, pool.size, ())
        elif pool.growth_blocks <= kv.free_blocks:
            following = self._decode_steps(EVERYBODY, end_ns, pool.size, (flight,))
            life.deliver(completed, finishing, end_ns)
        else:
            return None
        completed.clear()
        finishing.clear()
        return following

    def _decode_steps(
        self, plan: Plan, start_ns: int, seqs: int, before: Collection[Flight]
    ) -> Flight | None:
        """A leap: up to the first finish, arrival or block shortage. before: flights under way."""
        pool, kv = self._pool, self._kv
        if seqs < pool.size or self._careful:
            priced_seqs, context, longest = self._decodes(plan, seqs)
        else:
            priced_seqs = seqs + pool.padded_seqs
            context = pool.context_tokens + pool.padded_context_tokens
            longest = pool.longest_context() if self._needs_longest else 0
        shape: StepShape = make_tuple(StepShape, ((), priced_seqs, context, longest))
        steps, cut_ns = 1, None
        holds = plan.holds
        stays = holds is not ONE_STEP and self._longest_leap > 1
        if stays and self._paid_blocks != self._life.moved_blocks:
            stays = False
        if stays and not (before and self._finish_in_flight(plan)):
            steps = pool.steps_ahead(kv.free_blocks, self._longest_leap)
            if steps > 1 and holds is not UNTIL_FINISH:
                due_ns = self._feed.next_ns
                if due_ns is not None:
                    cut_ns = due_ns - start_ns
        line = self._line(shape) if steps > 1 and self._line is not None else None
        leaving = [s for flight in before for s in flight[3]] if before and steps > 1 else ()
        if line is None:
            steps = 1 if leaving else steps
            first, slope, steps, total_ns, last_ns = self._price(shape, steps, cut_ns, start_ns)
        else:
            first, slope = line
            steps, total_ns = steps_until(first, slope, steps, cut_ns, self._depth)
            if self._stop_ns is not None:
                limit_ns = self._stop_ns - start_ns
                steps, total_ns = steps_within(first, slope, steps, total_ns, limit_ns)
                self.stopped = not steps
            last_ns = first + (steps - 1) * slope >> BITS
        if self.stopped:
            return None
        if self._promise is not None:
            self._promise.made(plan, steps)
            if steps > 1 or slope < 0:  # a leap, or one cut to a single step
                steps, first, slope = 1, self._step_ns(shape) << BITS, 0
                total_ns = last_ns = first >> BITS
        growth = pool.growth_blocks
        used_blocks = kv.blocks - kv.free_blocks + growth
        kv.grow(growth if steps == 1 else pool.growth_of(steps))
        idle, running = priced_seqs - seqs, len(self._view.running)
        if leaving and steps > 1:
            row = (seqs, idle, context, used_blocks, running)
            self._log_leaving(leaving, (start_ns, steps), row, (first, slope))
        else:
            gone, held = self._evicted, used_blocks
            log = (start_ns, steps, 0, 0, seqs, idle, context, held, running, gone, 0, first, slope)
            self._entries.add(entry(*log))
        finishing = pool.advance(steps)
        end_ns = start_ns + total_ns
        self._busy_until_ns = end_ns
        self._evicted = 0
        self._view.previous = plan
        pool.resting = pool.resting_now
        return end_ns - last_ns, end_ns, [], finishing

    def _log_leaving(
        self,
        leaving: Collection[Sequence],
        when: tuple[int, int],
        row: tuple[int, int, int, int, int],
        line: tuple[int, int],
    ) -> None:
        """A leap beside the last step of others: their seats and blocks are free from then on."""
        (start_ns, steps), (first, slope) = when, line
        seqs, idle, context, used_blocks, running = row
        self._entries.add(entry(start_ns, 1, 0, 0, *row, self._evicted, 0, first, slope))
        freed = self._kv.freed_by([*leaving], [sequence._blocks for sequence in leaving])
        used_blocks += self._pool.growth_of(2) - self._pool.growth_blocks - freed
        later = (seqs, idle, context + seqs + idle, used_blocks, running - len(leaving))
        start_ns += first >> BITS
        first += slope
        self._entries.add(entry(start_ns, steps - 1, 0, 0, *later, 0, 0, first, slope))

    def _transfer_ns(self) -> int:
        """Moving blocks to host memory and back holds up the step that needs it."""
        moved = self._life.moved_blocks
        blocks, self._paid_blocks = moved - self._paid_blocks, moved
        return blocks * self._swap_ns

    def _price(
        self, shape: StepShape, steps: int, cut_ns: int | None, start_ns: int
    ) -> tuple[int, int, int, int, int]:
        """A single step, or a leap of a model that has no straight line."""
        if steps == 1:
            total_ns = self._step_ns(shape)
            if total_ns <= 0:
                refuse_price(self._cost_model, shape, total_ns)
            total_ns += self._transfer_ns()
            if self._stop_ns is not None and start_ns + total_ns > self._stop_ns:
                self.stopped = True
            return total_ns << BITS, 0, 1, total_ns, total_ns
        leap = price(self._cost_model, shape, steps, cut_ns, self._depth)
        if self._stop_ns is not None:
            leap, self.stopped = leap.ended_by(self._stop_ns - start_ns)
        steps, durations, total_ns, last_ns = leap
        if isinstance(durations, int):
            return total_ns << BITS, 0, 1, total_ns, total_ns
        if not self.stopped and self._promise is None:
            self._entries.add_durations(durations)
        return 0, -1, steps, total_ns, last_ns

    def _rest_of(
        self, plan: Plan, start_ns: int, seqs: int, chunks: Chunks, completed: list[Sequence]
    ) -> Plan:
        """The other parts of a step whose plan says `more`; returns the whole plan."""
        view = self._view
        prefill, part, longest = plan.prefill, plan, plan.padded_prefill_tokens
        while part.more:
            view.planned_tokens = seqs + sum([new for _, new in prefill])
            part = self._scheduler.plan(view)
            if self._checks:
                check_plan(part, view, self._token_limit)
            prefill += part.prefill
            longest = max(longest, part.padded_prefill_tokens)
            new_chunks, new_completed = self._life.compute_prompts(part, start_ns)
            chunks += new_chunks
            completed += new_completed
        view.planned_tokens = None
        if longest:
            chunks[:] = [(longest, past) for _, past in chunks]
        return plan._replace(prefill=prefill, more=False)

    def _finish_in_flight(self, plan: Plan) -> bool:
        """Whether a launched step will free a seat that matters (async only).

        It does not if nobody waits for it and no client answers a finish with a request.
        """
        matters = self._view.waiting or self._closed_loop or self._line is None
        if plan.holds is not UNTIL_FINISH and not matters:
            return False
        return any(finishing for _, _, _, finishing in self._pipe)

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

    def _decodes(self, plan: Plan, seqs: int) -> tuple[int, int, int]:
        """(sequences, summed context, longest context) that a step prices, from the aggregates."""
        pool = self._pool
        longest = pool.longest_context() if self._needs_longest else 0
        context = pool.context_tokens
        if self._view.slow_path or seqs < pool.size:
            members = plan.decode if isinstance(plan.decode, tuple) else tuple(pool)
            context, longest = self._walked(members, longest)
        return seqs + pool.padded_seqs, context + pool.padded_context_tokens, longest

    def _walked(self, members: tuple[Sequence, ...], longest: int) -> tuple[int, int]:
        """Summed and longest context of these members only (slow path, or some sit out)."""
        contexts = [self._pool.context_of(sequence) for sequence in members]
        padded = self._pool.padded_seqs > 0 or not self._cost_model.needs_longest_context
        return sum(contexts), longest if padded else max(contexts)
