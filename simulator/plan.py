"""`Plan`: what one step will do. `StepShape`: what a cost model needs to know about it.

Both are named tuples and not frozen dataclasses: one of each is made per step, and a frozen
dataclass costs three times as much to make.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple

from .sequence import Sequence

make_tuple = tuple.__new__
"""Makes a named tuple in half the time its own constructor takes; for the loop."""


class Holds(Enum):
    """How long a plan stays right if nobody asks the scheduler again."""

    ONE_STEP = "one step"
    """The default: ask me every step. Always correct, only slower."""
    WHILE_ALONE = "while alone"
    """Until a request arrives or a block cannot be had: finishes change nothing, nobody waits.

    Of a plan with prompts: everybody decodes from the step on in which no prompt is left.
    """
    UNTIL_ARRIVAL = "until arrival"
    """Until a request arrives or finishes, or a block cannot be had."""
    UNTIL_FINISH = "until finish"
    """As above, but an arrival would only wait (slots full, or the head of the queue blocked)."""

    __hash__ = object.__hash__  # Enum's own is written in Python


# Looking a member up in its class costs as much as a call, so the loop uses these.
ONE_STEP, WHILE_ALONE, UNTIL_FINISH = Holds.ONE_STEP, Holds.WHILE_ALONE, Holds.UNTIL_FINISH


class Decode(Enum):
    """Who decodes in a step, when it is not an explicit tuple of sequences."""

    ALL = "all"
    NONE = "none"


ALL: Literal[Decode.ALL] = Decode.ALL
NONE: Literal[Decode.NONE] = Decode.NONE


class Plan(NamedTuple):
    """One step, as a scheduler wants it.

    decode: `ALL`, `NONE` or the sequences that produce a token.
    prefill: (sequence, new_tokens) pairs, from half-done prompts or from the waiting queue
        (that is admission), in batch order.
    preempt: running sequences to evict before the step; they lose their cache and go to the
        front of the waiting queue.
    holds: how long the plan stays right; beside `ONE_STEP` a plan with prompts may only say
        `WHILE_ALONE`.
    padded_prefill_tokens: price every prompt as if it had this many tokens (static batching
        pads to the longest); 0 prices what is computed.
    wake_ns: for an empty plan, ask again at this instant even if nothing arrives.
    withdrawn: (sequence, tokens) for a victim that had been given tokens in this step before it
        was evicted: it took blocks and entered the prefix cache, as in the real engine.
    taken: blocks that this step had taken before each of `preempt` was evicted: which blocks are
        reused depends on the order of taking and freeing; only prefix caching cares.
    more: apply this part, then ask again for the rest of the same step; for policies whose next
        choice depends on what this one does to the cache (`EngineView.planned_tokens`).
    """

    decode: Decode | tuple[Sequence, ...] = Decode.NONE
    prefill: tuple[tuple[Sequence, int], ...] = ()
    preempt: tuple[Sequence, ...] = ()
    holds: Holds = Holds.ONE_STEP
    padded_prefill_tokens: int = 0
    wake_ns: int | None = None
    withdrawn: tuple[tuple[Sequence, int], ...] = ()
    taken: tuple[int, ...] = ()
    more: bool = False

    def decode_seqs(self, members: int) -> int:
        """How many decode, of a pool with this many members."""
        if self.decode is Decode.ALL:
            return members
        return len(self.decode) if isinstance(self.decode, tuple) else 0


IDLE = Plan()
"""Nothing to do now."""


class StepShape(NamedTuple):
    """What a cost model may know of a step.

    chunks: (new_tokens, past_tokens) of every prompt chunk; past is what its sequence already
        has in the KV cache.
    decode_seqs: sequences that produce one token each.
    decode_context_tokens: their tokens in the KV cache before the step, summed.
    longest_context: the largest of them; 0 unless the model sets `needs_longest_context`.
    """

    chunks: tuple[tuple[int, int], ...]
    decode_seqs: int
    decode_context_tokens: int
    longest_context: int = 0

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens computed in the step."""
        return sum(new for new, _ in self.chunks)

    def after(self, steps: int) -> StepShape:
        """The same decode-only step, `steps` tokens later.

        >>> StepShape((), 2, 100, 60).after(3)
        StepShape(chunks=(), decode_seqs=2, decode_context_tokens=106, longest_context=63)
        """
        return StepShape(
            self.chunks,
            self.decode_seqs,
            self.decode_context_tokens + steps * self.decode_seqs,
            self.longest_context + steps,
        )
