"""SGLang's scheduler: prompts first, in chunks; memory is reserved by an estimate that adapts.

Source: SGLang 0.5.9, `managers/scheduler.py` (`get_next_batch_to_run`, `update_running_batch`),
`managers/schedule_policy.py` (`PrefillAdder`), `managers/schedule_batch.py` (`retract_decode`) and
the defaults of `environ.py`; written from its behaviour. Not modelled: cache-aware orders (`lpm`),
priorities, hierarchical cache, speculation, data parallelism, `ignore_eos` reservations, and the
one wasted token that overlapped scheduling computes for a request that has just ended.
"""

from __future__ import annotations

from itertools import count
from math import inf

from simulator.errors import ConfigError, whole
from simulator.plan import Decode, Plan
from simulator.sequence import Sequence
from simulator.view import EngineView

from .limits import checked_limits
from .order import generated_tokens
from .room import (
    KEEP_UNTIL_FINISH,
    KEEP_WHILE_ALONE,
    UNLIMITED,
    Chunks,
    Room,
    decode_all_but,
)

INIT_NEW_TOKEN_RATIO, MIN_NEW_TOKEN_RATIO_FACTOR = 0.7, 0.14
NEW_TOKEN_RATIO_DECAY_STEPS, RETRACT_DECODE_STEPS = 600, 20
CLIP_MAX_NEW_TOKENS = 4096


class SglangScheduler:
    """Prompt steps while a prompt can start, else everybody decodes; who lacks memory is retracted.

    chunked_prefill_size: prompt tokens of a prompt step; the one prompt that exceeds what is left
        is cut and goes first in the next. None: off. SGLang's own default follows GPU memory.
    max_running_requests: sequences that may run. max_prefill_tokens: as chunked_prefill_size, but a
        step's first prompt may exceed it.
    schedule_conservativeness: scales the share of its `max_tokens` that a running request is
        thought to need still (0.7 at first, then less with every decode step; more after a
        retraction). A request that declares no `max_tokens` may need all the cache.
    enable_mixed_chunk: decodes ride along in prompt steps.

    Raises:
        ConfigError: a limit below 1, or a negative conservativeness.
    """

    name = "sglang"
    default_async_scheduling = True
    default_prefix_caching = True

    def __init__(
        self,
        chunked_prefill_size: int | None = 8192,
        max_running_requests: int = 128,
        *,
        max_prefill_tokens: int = 16384,
        schedule_conservativeness: float = 1.0,
        enable_mixed_chunk: bool = False,
    ) -> None:
        _, _, chunk = checked_limits(max_prefill_tokens, 1, chunked_prefill_size)
        _, seats, _ = checked_limits(None, max_running_requests, None)
        if not 0 <= schedule_conservativeness < inf:
            raise ConfigError(
                f"schedule_conservativeness is {schedule_conservativeness}, must be 0 or more"
            )
        self.chunked_prefill_size = self.effective_chunk_size = chunk
        self.max_running_requests = seats
        self.max_prefill_tokens = whole("max_prefill_tokens", max_prefill_tokens)
        self.schedule_conservativeness = schedule_conservativeness
        self.enable_mixed_chunk = enable_mixed_chunk
        self._first_ratio = min(1.0, INIT_NEW_TOKEN_RATIO * schedule_conservativeness)
        self._least_ratio = self._first_ratio * MIN_NEW_TOKEN_RATIO_FACTOR
        self._decay = (self._first_ratio - self._least_ratio) / NEW_TOKEN_RATIO_DECAY_STEPS
        self._places = count()
        self._run: EngineView | None = None

    def queue_key(self, sequence: Sequence) -> int:
        """First come, first served; a retracted request joins at the end."""
        return next(self._places)

    def plan(self, view: EngineView) -> Plan:
        """A prompt step if there can be one, else a decode step."""
        if view is not self._run or not view.running:
            self._run, self._ratio, self._since = view, self._first_ratio, view.decoding.step
            self._full: int | None = None
        if self._full is not None and len(view.running) < self._full:
            self._full = None
        pool, blocks = view.decoding, view.kv.free_blocks
        if view.planned_tokens is not None:
            chunks = self._admit(view, blocks)
            return Plan(Decode.NONE, chunks, more=bool(chunks) and len(view.waiting) > 1)
        if view.prefilling or (view.waiting and self._full is None):
            mixed = self.enable_mixed_chunk and pool.size > 0 and pool.growth_blocks <= blocks
            plan = self._prompts(view, blocks, mixed=mixed)
            if plan is not None:
                return plan
        if pool.growth_blocks > blocks:
            return self._retract(view)
        return KEEP_UNTIL_FINISH if view.waiting or view.prefilling else KEEP_WHILE_ALONE

    def _prompts(self, view: EngineView, blocks: int, *, mixed: bool) -> Plan | None:
        """The prompt that was cut, then those that wait; None: there is no room for any."""
        kv, pool, size = view.kv, view.decoding, view.kv.block_size
        riders = pool.size if mixed else 0
        blocks -= pool.growth_blocks if mixed else 0
        self._left = (self.chunked_prefill_size or UNLIMITED) - riders
        self._input, self._any = self.max_prefill_tokens - riders, False
        self._reserved = sum(self._to_come(view, s) for s in pool) * self._ratio_now(view)
        chunks: Chunks = ()
        for sequence in view.prefilling:  # one at most
            spare = int(blocks * size - self._reserved)
            owned = (blocks + view.blocks_of(sequence)) * size - sequence.computed_tokens
            new = min(sequence.remaining_tokens, self._left, owned)
            if 0 < spare < new:
                new = spare
            if new > 0:
                chunks = ((sequence, new),)
                blocks -= kv.blocks_for(sequence.computed_tokens + new) - view.blocks_of(sequence)
                self._spend(view, sequence, new, whole=new == sequence.remaining_tokens)
        more = False
        if view.waiting and self._full is None:
            kept = (self._left, self._input, self._reserved, self._any)
            admitted = self._admit(view, blocks)
            if kv.caches_prefixes and admitted:  # each in a part of its own, later
                more, admitted = True, ()
                self._left, self._input, self._reserved, self._any = kept
                self._full = None
            chunks += admitted
        if not (chunks or more):
            return None
        self._since += mixed  # the estimate decays with decode steps only
        return Plan(Decode.ALL if mixed else Decode.NONE, chunks, more=more)

    def _admit(self, view: EngineView, blocks: int) -> Chunks:
        """From the head of the queue, until tokens, seats or the estimate of memory run out."""
        kv, size = view.kv, view.kv.block_size
        chunks: list[tuple[Sequence, int]] = []
        taken = 0
        for sequence in view.waiting:
            running = len(view.running) + len(chunks)
            past = sequence.computed_tokens + kv.cached_tokens(sequence)
            new = sequence.known_tokens - past
            need = kv.blocks_to_admit(sequence, sequence.known_tokens)
            shared = need + past // size - kv.blocks_for(sequence.known_tokens)
            spare = (blocks - taken - shared) * size - self._reserved
            short = new + self._to_come(view, sequence) >= spare
            if running == 0:  # SGLang aborts who does not fit an empty engine
                short = need > blocks
            if running >= self.max_running_requests or short:
                self._full = running
                break
            padded = kv.blocks_for(new) * size
            if padded >= self._input and self._any:
                break
            whole = padded <= self._left
            if not whole:  # whole pages, as SGLang requires of chunked_prefill_size
                new = min(new, self._left // size * size or (0 if self._any else self._left))
                whole = new == sequence.known_tokens - past
            if new <= 0:
                break
            chunks.append((sequence, new))
            taken += shared + kv.blocks_for(new)
            self._spend(view, sequence, new, whole=whole)
            if self._left <= 0 or self._input <= 0 or kv.caches_prefixes:
                break
        return tuple(chunks)

    def _spend(self, view: EngineView, sequence: Sequence, new: int, *, whole: bool) -> None:
        padded = view.kv.blocks_for(new) * view.kv.block_size
        self._left -= padded
        self._input -= padded
        self._any = True
        if whole:
            self._reserved += self._to_come(view, sequence)

    def _retract(self, view: EngineView) -> Plan:
        """Who generated least, then the longest prompt, until the others can go on."""
        room = Room(UNLIMITED, view.kv.free_blocks, 0)
        newest_first = tuple(view.decoding)[::-1]
        decode = decode_all_but(
            view,
            room,
            sorted(newest_first, key=lambda s: (generated_tokens(view, s), -s.prompt_tokens)),
        )
        stay = [s for s in view.decoding if s not in room.evicted]
        produced = sum(generated_tokens(view, s) for s in stay)
        asked = sum(self._most_new(view, s) for s in stay)
        self._ratio = min(1.0, (produced + RETRACT_DECODE_STEPS * len(stay)) / (asked + 1))
        self._since = view.decoding.step + 1
        return Plan(decode, (), tuple(room.evicted), taken=tuple(room.taken))

    def _ratio_now(self, view: EngineView) -> float:
        """The share of what running requests may still generate that is kept free for them."""
        steps = max(0, view.decoding.step - self._since)
        return max(self._least_ratio, self._ratio - steps * self._decay)

    def _to_come(self, view: EngineView, sequence: Sequence) -> int:
        left = self._most_new(view, sequence) - generated_tokens(view, sequence)
        return min(max(left, 0), CLIP_MAX_NEW_TOKENS)

    def _most_new(self, view: EngineView, sequence: Sequence) -> int:
        """Its `max_tokens`, or what the cache could hold after its prompt."""
        room = view.kv.blocks * view.kv.block_size - sequence.prompt_tokens - 1
        return min(sequence.max_tokens or room, room)
