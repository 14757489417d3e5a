"""What every policy does alike: serve the decodes, go on with prompts, admit new ones.

`Room` is what is left to give in the step being planned; the functions take from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from simulator.plan import (
    ALL,
    ONE_STEP,
    UNTIL_FINISH,
    WHILE_ALONE,
    Decode,
    Holds,
    Plan,
    make_tuple,
)
from simulator.sequence import Sequence
from simulator.view import EngineView

Chunks = tuple[tuple[Sequence, int], ...]

UNLIMITED = sys.maxsize

KEEP_WHILE_ALONE = Plan(ALL, holds=WHILE_ALONE)
KEEP_UNTIL_FINISH = Plan(ALL, holds=UNTIL_FINISH)
KEEP_DECODING = {holds: Plan(ALL, holds=holds) for holds in Holds}
"""The plan of most steps, made once: everybody decodes, nothing else happens."""


class Room:
    """Tokens, free blocks and seats left in the step being planned, and who was evicted for it.

    granted: blocks that half-done prompts got in this step.
    """

    __slots__ = (
        "_freed",
        "_held",
        "blocks",
        "evicted",
        "granted",
        "seats",
        "taken",
        "tokens",
        "withdrawn",
    )

    def __init__(self, tokens: int, blocks: int, seats: int) -> None:
        self.tokens = tokens
        self.blocks = blocks
        self.seats = seats
        self.granted = 0
        self.evicted: tuple[Sequence, ...] = ()
        self.withdrawn: tuple[tuple[Sequence, int], ...] = ()
        self.taken: tuple[int, ...] = ()
        self._held: tuple[int, ...] = ()
        self._freed = 0

    def evict(self, view: EngineView, victim: Sequence) -> None:
        """Its seat and blocks are there to give; blocks it shares only with their last holder."""
        self.evicted += (victim,)
        self._held += (view.blocks_of(victim),)
        freed = view.kv.freed_by(self.evicted, self._held)
        self.blocks += freed - self._freed
        self._freed = freed
        self.seats += 1

    def would_free(self, view: EngineView, victims: list[Sequence]) -> int:
        """Blocks that evicting these too would add."""
        held = (*self._held, *(view.blocks_of(victim) for victim in victims))
        return view.kv.freed_by((*self.evicted, *victims), held) - self._freed


def at_a_glance(view: EngineView, tokens: int, seats: int, chunk_size: int) -> Plan | None:
    """The plans of most steps: all decode and nobody can start, or the only one who waits does.

    tokens: the step's budget. chunk_size: as in `admit_prompts`; 0: admissions take a closer look,
    as does whatever is None here.
    """
    pool, kv = view.decoding, view.kv
    if view.prefilling or view.slow_path or pool.size >= tokens:
        return None
    blocks = kv.free_blocks - pool.growth_blocks
    if blocks < 0:
        return None
    if not view.waiting:
        return KEEP_WHILE_ALONE if seats > 0 else KEEP_UNTIL_FINISH
    if view.planned_tokens is not None:
        return None
    if seats > 0:
        head = next(iter(view.waiting))
        if kv.caches_prefixes and not kv.finds_nothing(head):
            return None
        watermark = kv.watermark_blocks if view.running else 0
        if -(-head.known_tokens // kv.block_size) <= blocks - watermark:
            if not chunk_size or len(view.waiting) > 1:
                return None
            new, left = head.known_tokens - head.computed_tokens, tokens - pool.size
            new = new if new < left else left
            return with_chunks(ALL, ((head, new if new < chunk_size else chunk_size),))
    return KEEP_UNTIL_FINISH if pool.size else None


def with_chunks(decode: Decode | tuple[Sequence, ...], chunks: Chunks) -> Plan:
    """A step with prompt chunks and nothing out of the ordinary; then, if alone, all decode."""
    plan: Plan = make_tuple(Plan, (decode, chunks, (), WHILE_ALONE, 0, None, (), (), False))
    return plan


def serve_decodes(view: EngineView, room: Room) -> Decode | tuple[Sequence, ...]:
    """Everybody who generates, if tokens and blocks cover it; else whoever the walk reaches.

    Source: vLLM V1 `Scheduler.schedule`: running requests are walked in order; when one cannot get
    a block, the last of the running list is preempted, again and again, until it fits or is
    itself the victim. Without a token limit in the way that comes to evicting from the tail until
    the growth of those who stay is covered, which needs no walk.
    """
    pool = view.decoding
    if view.slow_path or pool.size > room.tokens:
        return _walk_decodes(view, room)
    if pool.growth_blocks > room.blocks:
        holders = (v for v in reversed(view.running) if v in pool or v in view.prefilling)
        return decode_all_but(view, room, holders)
    room.tokens -= pool.size
    room.blocks -= pool.growth_blocks
    return ALL


def decode_all_but(view: EngineView, room: Room, victims: Iterable[Sequence]) -> Decode:
    """Evict, in this order, until the growth of those who stay is covered; they all decode."""
    pool = view.decoding
    growth, members = pool.growth_blocks, pool.size
    for victim in victims:
        if growth <= room.blocks:
            break
        if victim in pool:
            growth -= pool.needs_block(victim)
            members -= 1
        room.taken += (room.blocks,)
        room.evict(view, victim)
    room.tokens -= members
    room.blocks -= growth
    return ALL


def _walk_decodes(view: EngineView, room: Room) -> tuple[Sequence, ...]:
    pool = view.decoding
    standing = [s for s in view.running if s in pool or s in view.prefilling]
    served: list[Sequence] = []
    for sequence in pool:
        if room.tokens == 0 or sequence in room.evicted:
            break
        if pool.needs_block(sequence):
            while room.blocks == 0:
                room.evict(view, standing[-1])
                if standing.pop() is sequence:
                    return tuple(served)
            room.blocks -= 1
        room.tokens -= 1
        served.append(sequence)
    return tuple(served)


def continue_prompts(
    view: EngineView, room: Room, chunk_size: int, order: Iterable[Sequence] | None = None
) -> Chunks:
    """The next chunk of every admitted prompt, oldest first or in the order given.

    A chunk without free blocks evicts the last prompt behind it; without one it sits out until
    a decode ends.
    """
    chunks: list[tuple[Sequence, int]] = []
    prompts = view.prefilling if order is None else order
    standing = [s for s in prompts if s not in room.evicted]
    for sequence in tuple(standing):
        if room.tokens == 0 or sequence in room.evicted:
            break
        new = min(sequence.remaining_tokens, room.tokens, chunk_size)
        need = view.kv.blocks_for(sequence.computed_tokens + new) - sequence._blocks
        behind = standing[standing.index(sequence) + 1 :]
        if need <= room.blocks or need <= room.blocks + room.would_free(view, behind):
            while need > room.blocks:
                room.evict(view, standing.pop())
            room.blocks -= need
            room.granted += need
            room.tokens -= new
            chunks.append((sequence, new))
    return tuple(chunks)


def admit_prompts(
    view: EngineView,
    room: Room,
    chunk_size: int,
    *,
    whole: bool = False,
    order: Iterable[Sequence] | None = None,
) -> Chunks:
    """First chunks of waiting prompts, strictly in queue order, while there is room.

    order: those who wait in another order; one who does not fit blocks all behind.

    A prompt is admitted only if blocks for all its known tokens are free beyond what admitted
    prompts still need and beyond the watermark (not applied to an empty engine), as vLLM does
    with `scheduler_reserve_full_isl`. A step that evicted somebody admits nobody.
    With `whole`, a prompt that exceeds the tokens left waits, unless it is the step's first.
    With prefix caching only the first: it may change what the next one finds (see `admissions`).
    """
    if room.evicted:
        return ()
    kv = view.kv
    free = room.blocks
    if view.prefilling:
        free += room.granted - _promised_blocks(view)
    chunks: list[tuple[Sequence, int]] = []
    size, seats, left, caches = kv.block_size, room.seats, room.tokens, kv.caches_prefixes
    watermark = kv.watermark_blocks if view.running else 0
    for sequence in view.waiting if order is None else order:
        if caches:
            tokens = sequence.known_tokens - kv.cached_tokens(sequence)
            need = kv.blocks_to_admit(sequence, sequence.known_tokens)
        else:
            tokens = sequence.known_tokens - sequence.computed_tokens
            need = -(-sequence.known_tokens // size)
        if seats <= 0 or left <= 0 or need > free - watermark:
            break
        if whole:
            if tokens > left and (chunks or view.planned_tokens):
                break
        else:
            if tokens > left:
                tokens = left
            if tokens > chunk_size:
                tokens = chunk_size
        free -= need
        seats -= 1
        left -= tokens
        watermark = kv.watermark_blocks
        chunks.append((sequence, tokens))
        if caches:
            break
    room.seats, room.tokens = seats, left
    return tuple(chunks)


def admissions(
    view: EngineView,
    room: Room,
    chunk_size: int,
    *,
    whole: bool = False,
    order: Iterable[Sequence] | None = None,
) -> tuple[Chunks, bool]:
    """(first chunks of waiting prompts, whether to ask again in this step): `Plan`'s `more`.

    With prefix caching prompts are admitted one by one, after everything else of the step is
    applied, because each adds to the cache and takes from it.
    """
    chunks = admit_prompts(view, room, chunk_size, whole=whole, order=order)
    if not view.kv.caches_prefixes:
        return chunks, False
    if view.planned_tokens is None:
        return (), bool(chunks)
    return chunks, bool(chunks) and len(view.waiting) > 1


def _promised_blocks(view: EngineView) -> int:
    """Blocks that admitted prompts need from now on, those granted in this step included."""
    kv = view.kv
    return sum(kv.blocks_for(s.known_tokens) - s._blocks for s in view.prefilling)


def holding(view: EngineView, room: Room) -> Holds:
    """How long a decode-only plan stays right: would an arrival be admitted at once?

    A head of the queue whose earlier turn still generates may find more in the cache every step.
    """
    if view.waiting and view.kv.source_decodes(next(iter(view.waiting))):
        return ONE_STEP
    if view.waiting or view.prefilling or room.seats <= 0 or room.tokens <= 0:
        return UNTIL_FINISH
    return WHILE_ALONE
