"""vLLM's V1 scheduler: one token budget over the running sequences, then over the waiting ones.

There is no prefill or decode phase: every sequence wants its uncomputed tokens (a decode wants
one), the running ones first, in admission order; the waiting ones share what is left.
Source: vLLM 0.33.0, `vllm/v1/core/sched/scheduler.py` (`Scheduler.schedule`, `AsyncScheduler`) and
`vllm/v1/core/kv_cache_manager.py`; its recorded steps are reproduced exactly (docs/vllm.md).
"""

from __future__ import annotations

from typing import Literal, SupportsIndex

from mypy_extensions import mypyc_attr

from simulator.errors import ConfigError, whole
from simulator.plan import ALL, NONE, ONE_STEP, WHILE_ALONE, Decode, Holds, Plan
from simulator.sequence import Sequence
from simulator.view import EngineView

from .alignment import aligned_chunk, checked_alignment
from .limits import checked_limits
from .room import (
    KEEP_DECODING,
    UNLIMITED,
    Chunks,
    Room,
    at_a_glance,
    decode_all_but,
    holding,
    with_chunks,
)


@mypyc_attr(allow_interpreted_subclasses=True)
class VllmScheduler:
    """The real engine's batches, step by step.

    max_num_batched_tokens: tokens a step may process. max_num_seqs: sequences that may run.
    long_prefill_token_threshold: most tokens one request gets in one step, unless it is alone in
        the system; 0: no cap. chunk_size: the same under Runway's name.
    enable_chunked_prefill: if off, a waiting prompt must fit the budget left as a whole.
    scheduler_reserve_full_isl: admit a prompt only if blocks for all of it are free now.
    policy: "fcfs", or "priority" (smaller is sooner; the least urgent is preempted first).
    prefill_alignment_tokens: chunks end on multiples of it, as for hybrid (Mamba) models, whose
        state is cached by blocks of so many tokens; 0: they do not.

    Raises:
        ConfigError: a limit below 1, a budget below `max_num_seqs`, an unknown policy, two caps.
    """

    name = "vllm"
    default_async_scheduling = True
    default_prefix_caching = True

    def __init__(
        self,
        max_num_batched_tokens: SupportsIndex = 2048,
        max_num_seqs: SupportsIndex = 128,
        *,
        long_prefill_token_threshold: SupportsIndex = 0,
        chunk_size: SupportsIndex | None = None,
        enable_chunked_prefill: bool = True,
        scheduler_reserve_full_isl: bool = True,
        policy: Literal["fcfs", "priority"] = "fcfs",
        prefill_alignment_tokens: SupportsIndex = 0,
    ) -> None:
        budget, seqs, chunk = checked_limits(max_num_batched_tokens, max_num_seqs, chunk_size)
        if budget is None:
            raise ConfigError("max_num_batched_tokens is none: vllm has a token budget, give one")
        cap = whole("long_prefill_token_threshold", long_prefill_token_threshold)
        if policy not in ("fcfs", "priority"):
            raise ConfigError(f"policy is {policy!r}, must be fcfs or priority")
        if cap < 0 or (cap and chunk):
            raise ConfigError(
                f"long_prefill_token_threshold is {cap}, must be 0 (off) "
                "or more, and chunk_size is another name for it: set one of them"
            )
        self.max_num_batched_tokens = self.step_token_limit = budget
        self.max_num_seqs = seqs
        self.enable_chunked_prefill = enable_chunked_prefill
        self.scheduler_reserve_full_isl = scheduler_reserve_full_isl
        self.policy = policy
        alignment = whole("prefill_alignment_tokens", prefill_alignment_tokens)
        self.prefill_alignment_tokens = checked_alignment(alignment, budget)
        self.long_prefill_token_threshold = chunk or cap
        self._in_order = policy == "fcfs" and scheduler_reserve_full_isl
        self._cap = self.long_prefill_token_threshold or UNLIMITED
        cuts = self.long_prefill_token_threshold or alignment
        self._lone_chunk = UNLIMITED if enable_chunked_prefill and not cuts else 0
        if policy == "priority":
            self.queue_key = _priority

    @property
    def effective_chunk_size(self) -> int:
        """min(chunk cap, token budget)."""
        return min(self._cap, self.max_num_batched_tokens)

    def plan(self, view: EngineView) -> Plan:
        """The running sequences in order; then, one by one, the head of the queue."""
        used, kv = view.planned_tokens, view.kv
        seats = self.max_num_seqs - len(view.running)
        if self._in_order and used is None:
            plan = at_a_glance(view, self.max_num_batched_tokens, seats, self._lone_chunk)
            if plan is not None:
                return plan
        room = Room(self.max_num_batched_tokens - (used or 0), kv.free_blocks, seats)
        cap = self._cap if len(view.running) + len(view.waiting) > 1 else UNLIMITED
        if used is not None:
            head = self._admit(view, room, cap)
            return Plan(NONE, head, more=bool(head) and len(view.waiting) > 1)
        decode, chunks = self._serve_all(view, room, cap) or self._walk(view, room, cap)
        more = False
        if view.waiting and not room.evicted:
            admitted, more = self._admit_all(view, room, cap)
            chunks += admitted
            more = more and (bool(admitted) or self._may_admit(view, room, cap, chunks))
        if more or room.evicted:
            return Plan(
                decode,
                chunks,
                room.evicted,
                WHILE_ALONE if more else ONE_STEP,
                withdrawn=room.withdrawn,
                taken=room.taken,
                more=more,
            )
        if chunks:
            return with_chunks(decode, chunks)
        holds = self._holding(view, room)
        return KEEP_DECODING[holds] if decode is ALL else Plan(decode, holds=holds)

    def _holding(self, view: EngineView, room: Room) -> Holds:
        """As everywhere; but a more urgent arrival overtakes a head that waits for blocks."""
        if self.policy == "priority" and room.seats > 0 and room.tokens > 0:
            return Holds.UNTIL_ARRIVAL
        return holding(view, room)

    def _serve_all(self, view: EngineView, room: Room, cap: int) -> tuple[Decode, Chunks] | None:
        """Everybody running gets what they want, if tokens and blocks cover it; else None.

        With nothing but decodes, the newest make way for the growth of the others.
        """
        pool, kv = view.decoding, view.kv
        tokens = room.tokens - pool.size
        blocks = room.blocks - pool.growth_blocks
        if view.slow_path or tokens < 0 or (self.prefill_alignment_tokens and view.prefilling):
            return None
        if blocks < 0 and self.policy == "fcfs" and not view.prefilling:
            return decode_all_but(view, room, reversed(view.running)), ()
        if blocks < 0:
            return None
        chunks: list[tuple[Sequence, int]] = []
        for sequence in view.prefilling:
            new = min(sequence.remaining_tokens, cap)
            if new > tokens:
                if tokens == 0 or sequence is not next(reversed(view.running)):
                    return None
                new = tokens
            tokens -= new
            blocks -= kv.blocks_for(sequence.computed_tokens + new) - sequence._blocks
            if blocks < 0:
                return None
            chunks.append((sequence, new))
        room.tokens, room.blocks = tokens, blocks
        return ALL, tuple(chunks)

    def _walk(self, view: EngineView, room: Room, cap: int) -> tuple[tuple[Sequence, ...], Chunks]:
        """The running list in order; who finds no block evicts, from the tail or by priority."""
        pool, kv = view.decoding, view.kv
        running = list(view.running)
        given: dict[Sequence, tuple[int, int]] = {}
        position = 0
        while position < len(running) and room.tokens > 0:
            sequence = running[position]
            position += 1
            if sequence in pool:
                new, need = 1, int(pool.needs_block(sequence))
            elif sequence in view.prefilling:
                new = self._aligned(
                    min(sequence.remaining_tokens, cap, room.tokens),
                    sequence.computed_tokens,
                    sequence,
                )
                if not new:
                    continue
                need = kv.blocks_for(sequence.computed_tokens + new) - sequence._blocks
            else:
                continue
            while need > room.blocks:
                victim = self._victim(running)
                if running.index(victim) < position:
                    position -= 1
                running.remove(victim)
                room.taken += (sum(blocks for _, blocks in given.values()),)
                tokens, blocks = given.pop(victim, (0, 0))
                room.tokens += tokens
                room.evict(view, victim)
                room.blocks += blocks
                if tokens:
                    room.withdrawn += ((victim, tokens),)
                if victim is sequence:
                    break
            else:
                room.tokens -= new
                room.blocks -= need
                given[sequence] = (new, need)
        decode = tuple(sequence for sequence in given if sequence in pool)
        chunks = tuple((s, new) for s, (new, _) in given.items() if s not in pool)
        return decode, chunks

    def _aligned(self, new: int, done: int, sequence: Sequence) -> int:
        if not self.prefill_alignment_tokens:
            return new
        return aligned_chunk(new, done, sequence.known_tokens, self.prefill_alignment_tokens)

    def _victim(self, running: list[Sequence]) -> Sequence:
        if self.policy == "fcfs":
            return running[-1]
        return max(running, key=lambda s: (s.priority, s.arrival_ns, s.row))

    def _may_admit(self, view: EngineView, room: Room, cap: int, chunks: Chunks) -> bool:
        """Whether the head of the queue may start once the running ones have got theirs.

        That can change what is cached of it: chunks add to it, and so do decodes of a conversation
        that it continues; and the blocks taken may be hits of its own that nobody held.
        """
        kv = view.kv
        if chunks or kv.source_decodes(next(iter(view.waiting))):
            return True
        room = Room(room.tokens, kv.free_blocks, room.seats)
        return bool(self._admit(view, room, cap))

    def _admit_all(self, view: EngineView, room: Room, cap: int) -> tuple[Chunks, bool]:
        """The head of the queue and those behind, up to the first that may hit the prefix cache.

        Also whether there is one: what it hits depends on what the others do, so it comes later.
        """
        kv = view.kv
        chunks: list[tuple[Sequence, int]] = []
        watermark = kv.watermark_blocks if view.running else 0
        for sequence in view.waiting:
            if room.seats <= 0 or room.tokens <= 0:
                break
            if not kv.finds_nothing(sequence):
                return tuple(chunks), True
            done = sequence.computed_tokens
            new = min(sequence.known_tokens - done, cap)
            if new > room.tokens and not self.enable_chunked_prefill:
                break
            new = self._aligned(min(new, room.tokens), done, sequence)
            if not new:
                break
            taken = kv.blocks_for(done + new)
            whole = self.scheduler_reserve_full_isl
            held = kv.blocks_for(sequence.known_tokens) if whole else taken
            if held > room.blocks - watermark:
                break
            room.seats -= 1
            room.tokens -= new
            room.blocks -= taken
            watermark = kv.watermark_blocks
            chunks.append((sequence, new))
        return tuple(chunks), False

    def _admit(self, view: EngineView, room: Room, cap: int) -> Chunks:
        """The head of the queue, if it may start now; strictly in order, whatever the policy."""
        if room.seats <= 0 or room.tokens <= 0 or not len(view.waiting):
            return ()
        kv = view.kv
        sequence = next(iter(view.waiting))
        done = kv.cached_tokens(sequence)
        new = min(sequence.known_tokens - done, cap)
        if new > room.tokens and not self.enable_chunked_prefill:
            return ()
        new = self._aligned(min(new, room.tokens), done, sequence)
        if not new:
            return ()
        held = sequence.known_tokens if self.scheduler_reserve_full_isl else done + new
        watermark = kv.watermark_blocks if view.running else 0
        if kv.blocks_to_admit(sequence, held) > room.blocks - watermark:
            return ()
        return ((sequence, new),)


def _priority(sequence: Sequence) -> int:
    """Smaller is sooner; ties by arrival."""
    return sequence.priority
