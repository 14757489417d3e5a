"""`DecodeLauncher`: steps in which everybody decodes and nothing else happens, in leaps.

The half of launching that prompts have no part in; `Launcher` (launch.py) is the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from .cost_model import CostModel
from .feed import ArrivalFeed, OpenFeed
from .leap import (
    BITS,
    line_sum,
    price,
    step_price,
    steps_reaching,
    steps_until,
    steps_within,
)
from .lifecycle import Lifecycle
from .options import EngineOptions
from .plan import ALL, ONE_STEP, UNTIL_FINISH, WHILE_ALONE, Plan, StepShape, make_tuple
from .promise import Promise
from .sequence import Sequence
from .step_log import EntryLog, entry
from .view import EngineView

EVERYBODY = Plan(ALL, holds=WHILE_ALONE)
"""What every policy plans that promised `WHILE_ALONE`, while nobody else asks for anything."""

Flight = tuple[int, int, list[Sequence]]
"""A launched plan: when its last step starts, when it ends, and who then gets the last token."""


class DecodeLauncher:
    """Starts decode-only steps: as many as their plan holds for, and those that must follow.

    stopped: the next step would end after the stop time, so there is none.
    """

    def __init__(
        self,
        feed: ArrivalFeed,
        cost_model: CostModel,
        life: Lifecycle,
        promise: Promise | None,
        *,
        view: EngineView,
        entries: EntryLog,
        pipe: deque[Flight],
        options: EngineOptions,
    ) -> None:
        self.stopped = False
        self._feed, self._life, self._pipe = feed, life, pipe
        self._view, self._pool, self._kv = view, view.decoding, view.kv
        self._entries = entries
        self._promise = promise
        self._careful = options.slow_path or options.check_promises
        self._cost_model = cost_model
        self._line = getattr(cost_model, "line", None)
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

    def _run_on(self, flight: Flight | None, with_prompts: bool) -> Flight | None:
        """Leap after leap, without asking anybody, while nobody arrives, waits or prefills."""
        view, pool = self._view, self._pool
        if view.prefilling or view.waiting:
            return flight
        due_ns, sync = self._feed.next_ns, self._depth == 1
        while flight is not None and pool.size and (with_prompts or flight[2]):
            if due_ns is not None and due_ns <= (flight[1] if sync else flight[0]):
                break  # then more happens at its end than these finishes
            following = self._leap_after(flight) if sync else self._leap_beside(flight)
            if following is None:
                break
            flight, with_prompts = following, False
        return flight

    def _leap_after(self, flight: Flight) -> Flight | None:
        """The leap after prompts or a finish; None: blocks or time run out first.

        Seats and blocks are given back before it starts.
        """
        _, end_ns, finishing = flight
        if finishing:
            self._life.deliver(finishing, end_ns)
            finishing.clear()
        if self._pool.growth_blocks > self._kv.free_blocks:
            return None
        return self._decode_steps(EVERYBODY, end_ns, self._pool.size, ())

    def _leap_beside(self, flight: Flight) -> Flight | None:
        """The same in an asynchronous pipeline: seats and blocks are given back after its plan.

        What was in flight before has ended by then.
        """
        for _, earlier_ns, ended in self._pipe:
            if ended:
                self._life.deliver(ended, earlier_ns)
                ended.clear()
        if self._pool.growth_blocks > self._kv.free_blocks:
            return None
        _, end_ns, finishing = flight
        following = self._decode_steps(EVERYBODY, end_ns, self._pool.size, (flight,))
        if finishing:
            self._life.deliver(finishing, end_ns)
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
        if self._swap_ns and self._paid_blocks != self._life.moved_blocks:
            stays = False
        if stays and not (before and self._finish_in_flight(plan)):
            steps = pool.steps_ahead(kv.free_blocks, self._longest_leap)
            if steps > 1 and holds is not UNTIL_FINISH:
                due_ns = self._feed.next_ns
                if due_ns is not None:
                    cut_ns = due_ns - start_ns
        line = self._line(shape) if steps > 1 and self._line is not None else None
        leaving = [s for flight in before for s in flight[2]] if before and steps > 1 else ()
        if line is None:
            steps = 1 if leaving else steps
            first, slope, steps, total_ns, last_ns = self._price(shape, steps, cut_ns, start_ns)
        else:
            first, slope = line
            if cut_ns is None:
                total_ns = line_sum(first, slope, steps)
            elif self._depth == 1 and cut_ns > 0:
                steps, total_ns = steps_reaching(first, slope, steps, cut_ns)
            else:
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
                steps, first, slope = 1, step_price(self._cost_model, shape) << BITS, 0
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
        return end_ns - last_ns, end_ns, finishing

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

    def _price(
        self, shape: StepShape, steps: int, cut_ns: int | None, start_ns: int
    ) -> tuple[int, int, int, int, int]:
        """A single step, or a leap of a model that has no straight line."""
        if steps == 1:
            total_ns = step_price(self._cost_model, shape) + self._transfer_ns()
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

    def _transfer_ns(self) -> int:
        """Moving blocks to host memory and back holds up the step that needs it."""
        moved = self._life.moved_blocks
        blocks, self._paid_blocks = moved - self._paid_blocks, moved
        return blocks * self._swap_ns

    def _finish_in_flight(self, plan: Plan) -> bool:
        """Whether a launched step will free a seat that matters (async only).

        It does not if nobody waits for it and no client answers a finish with a request.
        """
        matters = self._view.waiting or self._closed_loop or self._line is None
        if plan.holds is not UNTIL_FINISH and not matters:
            return False
        return any(finishing for _, _, finishing in self._pipe)

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
