"""`DecodePool`: everyone who generates, as aggregates and one step counter.

A decode step changes every member in the same way: one more token, one more context token, and
a new block for those at a block's edge. So nothing is stored per member per step. A member is
(the step it joined, its context then), and all else is derived from the counter:

    context now   = context at joining + steps since
    finish step   = joining step + tokens left              a heap: who ends next
    block edge    = (joining step + 1 - context) mod b       a count per phase: growth of a step
    longest       = max(context - joining step) + counter    a heap: the order never changes

Joining, leaving and sitting out a step cost O(log n); a step, or a leap of many, costs O(1).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from heapq import heappop, heappush

from .sequence import Sequence
from .step_log import TokenLog, piece


class DecodePool:
    """The sequences that decode, in aggregate. Schedulers read it; the engine changes it.

    step: decode steps planned so far. size: members. growth_blocks: blocks that one more token for
    everybody needs. context_tokens: KV tokens of all members, summed.
    padded_seqs, padded_context_tokens: finished members of a static batch that still hold their
    slot: priced, but producing nothing. resting, resting_now: members that sit out the step
    launched last, and the one being planned; ended_now: who got their last token in it.
    """

    __slots__ = (
        "_block_size",
        "_finish",
        "_longest",
        "_members",
        "_phases",
        "_sitting_out",
        "_tokens",
        "context_tokens",
        "ended_now",
        "growth_blocks",
        "padded_context_tokens",
        "padded_seqs",
        "resting",
        "resting_now",
        "size",
        "step",
    )

    def __init__(self, block_size: int, tokens: TokenLog, track_longest: bool) -> None:
        self.step = 0
        self.size = 0
        self.growth_blocks = 0
        self.context_tokens = 0
        self.padded_seqs = 0
        self.padded_context_tokens = 0
        self.resting: Container[Sequence] = ()
        self.resting_now: Container[Sequence] = ()
        self.ended_now: Container[Sequence] = ()
        self._block_size = block_size
        self._tokens = tokens
        self._members: dict[Sequence, None] = {}
        self._phases = [0] * block_size
        self._sitting_out: list[int] = []
        self._finish: list[tuple[int, int, int, Sequence]] = []
        self._longest: list[tuple[int, int, int, Sequence]] | None = [] if track_longest else None

    def __len__(self) -> int:
        return self.size

    def __contains__(self, sequence: object) -> bool:
        return sequence in self._members

    def __iter__(self) -> Iterator[Sequence]:
        """Members in admission order. Slow: for the slow path and for policies that must."""
        return iter(sorted(self._members, key=lambda sequence: sequence._order))

    def context_of(self, sequence: Sequence) -> int:
        """KV tokens of a member now."""
        return sequence._first_context + self.step - sequence._joined_step

    def needs_block(self, sequence: Sequence) -> bool:
        """Whether one more token of this member needs a new block."""
        return self.context_of(sequence) % self._block_size == 0

    def growth_of(self, steps: int) -> int:
        """Blocks that `steps` more tokens for everybody need."""
        if steps == 1:
            return self.growth_blocks
        size = self._block_size
        cycles, rest = divmod(steps, size)
        start = (self.step + 1) % size
        stop = start + rest
        phases = self._phases
        if stop <= size:
            part = sum(phases[start:stop])
        else:
            part = self.size - sum(phases[stop - size : start])
        return cycles * self.size + part

    def steps_ahead(self, free_blocks: int, limit: int) -> int:
        """Steps until the next member produces its last token, that step included; at most
        `limit`, and at most what `free_blocks` cover.
        """
        size, members = self._block_size, self.size
        ends = self._finish[0][0] - self.step
        if ends < limit:
            limit = ends
        if members * ((limit + size - 1) // size) <= free_blocks or not members:
            return limit
        steps, free = free_blocks // members * size, free_blocks % members
        position = (self.step + 1) % size
        while steps < limit and self._phases[position] <= free:
            free -= self._phases[position]
            steps += 1
            position = position + 1 if position + 1 < size else 0
        return min(steps, limit)

    def longest_context(self) -> int:
        """The largest context of a member or a padded slot; 0 if untracked or empty."""
        heap = self._longest
        if not heap:
            return 0
        while heap and heap[0][2] != heap[0][3]._version:
            heappop(heap)
        return self.step - heap[0][0] if heap else 0

    def join(self, sequence: Sequence) -> None:
        """A sequence whose prompt is computed and whose next token is a decode."""
        step, context = self.step, sequence.computed_tokens
        sequence._first_context = context
        sequence._joined_step = sequence._span_step = step
        self._members[sequence] = None
        self.size += 1
        self.context_tokens += context
        size = self._block_size
        self._phases[(step + 1 - context) % size] += 1
        if context % size == 0:
            self.growth_blocks += 1
        finish_step = step + sequence._output_tokens - sequence._produced_tokens
        if self._longest is not None:
            self._expect(sequence, finish_step)
            return
        sequence._version = version = sequence._version + 1
        sequence._finish_step = finish_step
        heappush(self._finish, (finish_step, sequence._order, version, sequence))

    def advance(self, steps: int) -> list[Sequence]:
        """Everybody produces `steps` tokens; returns those who are done, in admission order."""
        self.step = now = self.step + steps
        if self._sitting_out:
            for phase in self._sitting_out:
                self._phases[phase] += 1
            self._sitting_out.clear()
        self.context_tokens += steps * self.size
        if self.padded_seqs:
            self.padded_context_tokens += steps * self.padded_seqs
        heap = self._finish
        done: list[Sequence] = []
        while heap and heap[0][0] == now:
            sequence = heappop(heap)[3]
            done.append(sequence)
            self._leave(sequence)
            if heap and heap[0][2] != heap[0][3]._version:
                self._drop_stale()
        self.growth_blocks = self._phases[(now + 1) % self._block_size]
        return done

    def leave(self, sequence: Sequence) -> None:
        """Preempted: write down what was derived."""
        self._leave(sequence)
        self._drop_stale()
        self.growth_blocks = self._phases[(self.step + 1) % self._block_size]

    def _leave(self, sequence: Sequence) -> None:
        step, first = self.step, sequence._span_step
        joined, joined_context = sequence._joined_step, sequence._first_context
        context = joined_context + step - joined
        if step > first:
            self._tokens.add(piece(sequence.row, first, step, joined_context + first - joined))
        sequence._version += 1
        sequence._produced_tokens += step - joined
        sequence.computed_tokens = context
        sequence._blocks = -(-context // self._block_size)
        del self._members[sequence]
        self.size -= 1
        self.context_tokens -= context
        self._phases[(step + 1 - context) % self._block_size] -= 1

    def _drop_stale(self) -> None:
        """The first entry of the heap of finishes is always a valid one."""
        heap = self._finish
        while heap and heap[0][2] != heap[0][3]._version:
            heappop(heap)

    def hold_back(self, sequence: Sequence) -> None:
        """The member sits out the coming step (called before `advance(1)`)."""
        self._close_span(sequence)
        phase = (self.step + 1 - self.context_of(sequence)) % self._block_size
        self._phases[phase] -= 1
        self._sitting_out.append((phase + 1) % self._block_size)
        self.context_tokens -= 1
        sequence._joined_step += 1
        sequence._span_step = self.step + 1
        self._expect(sequence, sequence._finish_step + 1)
        self._drop_stale()
        self.growth_blocks = self._phases[(self.step + 1) % self._block_size]

    def keep_slot(self, sequence: Sequence) -> None:
        """A finished member of a static batch stays as a padded slot until the batch ends."""
        self.padded_seqs += 1
        self.padded_context_tokens += sequence.computed_tokens
        if self._longest is not None:
            key = self.step - sequence.computed_tokens
            heappush(self._longest, (key, sequence._order, sequence._version, sequence))

    def drop_slots(self) -> None:
        """The static batch ended: no padded slot remains."""
        self.padded_seqs = self.padded_context_tokens = 0
        if self._longest is not None:
            self._longest.clear()

    def close_spans(self) -> None:
        """The run stopped: log what the remaining members produced so far."""
        for sequence in self._members:
            self._close_span(sequence)

    def _close_span(self, sequence: Sequence) -> None:
        if self.step > sequence._span_step:
            context = sequence._first_context + sequence._span_step - sequence._joined_step
            self._tokens.add(piece(sequence.row, sequence._span_step, self.step, context))

    def _expect(self, sequence: Sequence, finish_step: int) -> None:
        sequence._version += 1
        sequence._finish_step = finish_step
        entry = (finish_step, sequence._order, sequence._version, sequence)
        heappush(self._finish, entry)
        if self._longest is not None:
            key = sequence._joined_step - sequence._first_context
            heappush(self._longest, (key, sequence._order, sequence._version, sequence))
