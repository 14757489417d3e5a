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

from collections.abc import Collection, Iterator
from heapq import heappop, heappush

from .request import Sequence
from .step_log import TokenLog


class DecodePool:
    """The sequences that decode, in aggregate. Schedulers read it; the engine changes it.

    step: decode steps planned so far. context_tokens: KV tokens of all members, summed.
    padded_seqs, padded_context_tokens: finished members of a static batch that still hold their
    slot: priced, but producing nothing. resting, resting_now: members that sit out the step launched
    last, and the one being planned.
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
        "padded_context_tokens",
        "padded_seqs",
        "resting",
        "resting_now",
        "step",
    )

    def __init__(self, block_size: int, tokens: TokenLog, track_longest: bool) -> None:
        self.step = 0
        self.context_tokens = 0
        self.padded_seqs = 0
        self.padded_context_tokens = 0
        self.resting: Collection[Sequence] = ()
        self.resting_now: Collection[Sequence] = ()
        self._block_size = block_size
        self._tokens = tokens
        self._members: dict[Sequence, None] = {}
        self._phases = [0] * block_size
        self._sitting_out: list[int] = []
        self._finish: list[tuple[int, int, int, Sequence]] = []
        self._longest: list[tuple[int, int, int, Sequence]] | None = [] if track_longest else None

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, sequence: Sequence) -> bool:
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

    @property
    def growth_blocks(self) -> int:
        """Blocks that one more token for everybody needs."""
        return self._phases[(self.step + 1) % self._block_size]

    def growth_of(self, steps: int) -> int:
        """Blocks that `steps` more tokens for everybody need."""
        size = self._block_size
        if steps == 1:
            return self._phases[(self.step + 1) % size]
        cycles, rest = divmod(steps, size)
        start = (self.step + 1) % size
        stop = start + rest
        phases = self._phases
        if stop <= size:
            part = sum(phases[start:stop])
        else:
            part = sum(phases[start:]) + sum(phases[: stop - size])
        return cycles * len(self._members) + part

    def steps_that_fit(self, free_blocks: int, limit: int) -> int:
        """The largest number of steps, at most `limit`, whose growth fits `free_blocks`."""
        size, members = self._block_size, len(self._members)
        if members * ((limit + size - 1) // size) <= free_blocks or not members:
            return limit
        steps, free = free_blocks // members * size, free_blocks % members
        position = (self.step + 1) % size
        while steps < limit and self._phases[position] <= free:
            free -= self._phases[position]
            steps += 1
            position = position + 1 if position + 1 < size else 0
        return min(steps, limit)

    def _steps_to_finish(self) -> int:
        """Steps until the next member produces its last token (that step included)."""
        heap = self._finish
        while heap[0][2] != heap[0][3]._version:
            heappop(heap)
        return heap[0][0] - self.step

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
        left = sequence._output_tokens - sequence._produced_tokens
        sequence._first_context = sequence.computed_tokens
        sequence._joined_step = sequence._span_step = self.step
        self._members[sequence] = None
        self.context_tokens += sequence.computed_tokens
        self._phases[(self.step + 1 - sequence.computed_tokens) % self._block_size] += 1
        self._expect(sequence, self.step + left)

    def advance(self, steps: int) -> list[Sequence]:
        """Everybody produces `steps` tokens; returns those who are done, in admission order."""
        self.step += steps
        if self._sitting_out:
            for phase in self._sitting_out:
                self._phases[phase] += 1
            self._sitting_out.clear()
        self.context_tokens += steps * len(self._members)
        self.padded_context_tokens += steps * self.padded_seqs
        heap, now = self._finish, self.step
        done: list[Sequence] = []
        while heap and heap[0][0] <= now:
            _, _, version, sequence = heappop(heap)
            if version == sequence._version:
                done.append(sequence)
                self.leave(sequence)
        return done

    def leave(self, sequence: Sequence) -> None:
        """Finished or preempted: write down what was derived."""
        context = self.context_of(sequence)
        self._close_span(sequence)
        sequence._version += 1
        sequence._produced_tokens += self.step - sequence._joined_step
        sequence.computed_tokens = context
        sequence._blocks = -(-context // self._block_size)
        del self._members[sequence]
        self.context_tokens -= context
        self._phases[(self.step + 1 - context) % self._block_size] -= 1

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
            self._tokens.span(sequence.row, sequence._span_step, self.step, context)

    def _expect(self, sequence: Sequence, finish_step: int) -> None:
        sequence._version += 1
        sequence._finish_step = finish_step
        entry = (finish_step, sequence._order, sequence._version, sequence)
        heappush(self._finish, entry)
        if self._longest is not None:
            key = sequence._joined_step - sequence._first_context
            heappush(self._longest, (key, sequence._order, sequence._version, sequence))
