"""`LeapLog`: the step log of a run, one row per leap, unfolded to one row per step when read."""

from __future__ import annotations

import numpy as np

from .result import Ints
from .step_log import EntryLog


class LeapLog:
    """The step log as the engine kept it: a leap is one row. Columns unfold when asked for.

    Each property is an int64 array of shape (steps,), named as in `result.StepLog`. A run of a
    million requests has tens of millions of steps, so nothing is kept unfolded.
    """

    __slots__ = ("_durations", "_entries", "_pool_growth", "_steps")

    def __init__(self, entries: EntryLog, pool_growth: Ints, durations: Ints) -> None:
        self._entries = entries
        self._steps = np.ascontiguousarray(entries.column("steps"))
        self._durations = durations
        self._pool_growth = pool_growth

    def __len__(self) -> int:
        return len(self._durations)

    def _spread(self, name: str) -> Ints:
        return np.repeat(self._entries.column(name), self._steps)

    def _first_steps(self) -> Ints:
        """Index of the first step of every entry."""
        return np.cumsum(self._steps) - self._steps

    def _position(self) -> Ints:
        """0, 1, 2 … within each entry."""
        return np.arange(len(self)) - np.repeat(self._first_steps(), self._steps)

    @property
    def duration_ns(self) -> Ints:
        """How long each step took."""
        return self._durations

    @property
    def end_ns(self) -> Ints:
        """When each step ended: the entry's start plus the durations so far in it."""
        total = np.cumsum(self._durations)
        first = self._first_steps()
        reached = np.concatenate(([0], total))[first]
        offset = self._entries.column("start_ns") - reached
        total += np.repeat(offset, self._steps)
        return total

    @property
    def prefill_tokens(self) -> Ints:
        """Prompt tokens computed, recomputation included."""
        return self._spread("prefill_tokens")

    @property
    def prefill_seqs(self) -> Ints:
        """Sequences with a prompt chunk."""
        return self._spread("prefill_seqs")

    @property
    def decode_seqs(self) -> Ints:
        """Sequences that produced a token by decoding."""
        return self._spread("decode_seqs")

    @property
    def padded_seqs(self) -> Ints:
        """Slots priced but idle (static batching)."""
        return self._spread("padded_seqs")

    @property
    def context_tokens(self) -> Ints:
        """KV tokens the decodes read, padded slots included: one more per sequence per step."""
        grown = self._position()
        grown *= self._spread("decode_seqs") + self._spread("padded_seqs")
        grown += self._spread("context_tokens")
        return grown

    @property
    def running(self) -> Ints:
        """Sequences holding a seat."""
        return self._spread("running")

    @property
    def used_blocks(self) -> Ints:
        """KV blocks held while the step ran: the entry's, plus the growth of later steps in it."""
        growth = np.zeros(len(self), dtype=np.int64)
        decodes = self._spread("decode_seqs") > 0
        growth[decodes] = self._pool_growth
        grown = np.cumsum(growth)
        first = self._first_steps()
        inside = grown[first]
        grown -= np.repeat(inside, self._steps)
        grown += self._spread("used_blocks")
        return grown

    @property
    def preempted(self) -> Ints:
        """Evictions just before the step."""
        return self._spread("preempted")

    @property
    def emitted_tokens(self) -> Ints:
        """Output tokens the step's end produced."""
        return self._spread("decode_seqs") + self._spread("completed")
