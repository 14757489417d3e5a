"""`PrefixCache`: paged KV memory that remembers what its blocks hold.

Source: vLLM 0.33 `v1/core/block_pool.py` and `kv_cache_manager.py`. Full blocks can be hit by later
requests with the same prefix, as soon as they are planned; a block nobody holds stays hittable
until it is reused. Free blocks are taken without content first, then in LRU order; a sequence's
blocks are freed last first, so that the tail of a prefix goes before its head.

Work is done per admission, chunk and release, in whole arrays; a decoding sequence's new blocks are
counted (`grow`), taken before anything else changes or is asked, and given their content when it
leaves, or when a later turn asks. Where no two requests begin alike, `ResumeCache` does the same
by counting only.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

import numpy as np
from mypy_extensions import mypyc_attr

from .block_store import Blocks, BlockStore
from .kv_cache import Contexts, KVCache
from .prefix_keys import Keys, PrefixKeys
from .resume_cache import ResumeCache
from .sequence import Sequence
from .trace import Trace


@mypyc_attr(allow_interpreted_subclasses=True)
class PrefixCache(KVCache):
    """`KVCache` with prefix caching; made for one trace by `prepared`.

    blocks, block_size, watermark: as `KVCache`.
    """

    caches_prefixes = True

    __slots__ = (
        "_aside",
        "_lag",
        "_live",
        "_loose",
        "_loose_top",
        "_memo",
        "_owed",
        "_store",
        "keys",
        "pool",
    )

    def prepared(self, trace: Trace, lag: int) -> KVCache:
        """A fresh cache for this trace: one that only counts, if no two requests begin alike.

        lag: sampled tokens of a decoding sequence whose ids are not known yet when a step is
        planned (0 sync, 1 async): blocks with them cannot be hit.
        """
        keys = PrefixKeys(trace, self.block_size)
        if keys.all_start_alone:
            return ResumeCache(self.blocks, self.block_size, self.watermark, lag)
        return self.naming(keys, lag)

    def naming(self, keys: PrefixKeys, lag: int) -> PrefixCache:
        """A fresh cache that tells blocks apart, whatever the trace."""
        cache = PrefixCache(self.blocks, self.block_size, self.watermark)
        cache._start(keys, lag)
        return cache

    def _start(self, keys: PrefixKeys, lag: int) -> None:
        self.keys = keys
        self._lag = lag
        self._store = BlockStore(self.blocks, self.keys.used)
        self._loose = np.empty(self.blocks, dtype=np.int64)
        self._loose_top = self._owed = 0
        self._aside = np.zeros(0, dtype=np.int64)
        self._live: dict[int, Sequence] = {}
        self._memo: tuple[Sequence, int, Blocks, int] | None = None

    def watch(self, pool: Contexts) -> None:
        """The pool knows how far a decoding sequence is."""
        self.pool = pool

    def cached_tokens(self, sequence: Sequence) -> int:
        """Leading tokens already in the cache: full blocks, and never the last known token."""
        return len(self._hits(sequence)[0]) * self.block_size

    def blocks_to_admit(self, sequence: Sequence, tokens: int) -> int:
        """New blocks for `tokens` tokens, plus hit blocks that nobody holds now."""
        found, idle = self._hits(sequence)
        return self.blocks_for(tokens) - len(found) + idle

    def _hits(self, sequence: Sequence) -> tuple[Blocks, int]:
        """(leading blocks that are cached, how many nobody holds); remembered until a change."""
        self._take_owed()
        self._name_parents(sequence)
        memo, store = self._memo, self._store
        if memo is not None and memo[0] is sequence and memo[1] == store.changes:
            return memo[2], memo[3]
        limit = (sequence.known_tokens - 1) // self.block_size
        found = store.find(self._keys(sequence)[:limit])
        idle = len(found) - int(np.count_nonzero(store.refs[found])) if len(found) else 0
        self._memo = (sequence, store.changes, found, idle)
        return found, idle

    def _keys(self, sequence: Sequence) -> Keys:
        keys = self.keys.of(sequence.row)
        self._store.make_room(self.keys.used)
        return keys

    def _name_parents(self, sequence: Sequence) -> None:
        """A later turn that comes before the earlier one ended: what that one has is hittable.

        In a step everybody has their turn in the order of admission; what an earlier turn of the
        conversation gets after this one does not count yet.
        """
        row = self.keys.parent_of(sequence.row) if self._live else None
        while row is not None:
            parent = self._live.get(row)
            if parent is not None:
                tokens = self._tokens_of(parent)
                if sequence._blocks and parent._order > sequence._order:
                    tokens -= self._decodes_now(parent)
                self._settle(parent, tokens, self._unknown(parent, tokens))
            row = self.keys.parent_of(row)

    def _decodes_now(self, sequence: Sequence) -> bool:
        """Whether the step being planned has given it a token."""
        pool = self.pool
        if sequence in pool:
            return sequence not in pool.resting_now
        return sequence in pool.ended_now

    def finds_nothing(self, sequence: Sequence) -> bool:
        """Whether nothing that a waiting sequence begins with can be in the cache."""
        return not sequence.preemptions and self.keys.starts_alone(sequence.row)

    def source_decodes(self, sequence: Sequence) -> bool:
        """Whether an earlier turn of a waiting sequence still generates."""
        row = self.keys.parent_of(sequence.row) if self._live else None
        while row is not None:
            turn = self._live.get(row)
            if turn is not None and turn in self.pool:
                return True
            row = self.keys.parent_of(row)
        return False

    def _unknown(self, sequence: Sequence, tokens: int) -> int:
        """Of its first `tokens`, those whose ids are not known: sampled by a step in flight."""
        if tokens <= sequence.known_tokens or sequence in self.pool.resting:
            return 0
        return self._lag

    def _tokens_of(self, sequence: Sequence) -> int:
        if sequence in self.pool:
            return self.pool.context_of(sequence)
        return sequence.computed_tokens

    def _settle(self, sequence: Sequence, tokens: int, lag: int) -> None:
        """Give a sequence's unnamed blocks their identity and their content."""
        self._name(sequence, self.blocks_for(tokens))
        self._hash(sequence, tokens - lag)

    def _name(self, sequence: Sequence, blocks: int) -> None:
        """The sequence's first `blocks` blocks are known, taken from those that grew unnamed."""
        missing = blocks - sequence._named_blocks
        if missing > 0:
            self._take_owed()
            self._loose_top -= missing
            taken = self._loose[self._loose_top : self._loose_top + missing]
            sequence._block_ids[blocks - missing : blocks] = taken
            self._store.refs[taken] = 1
            sequence._named_blocks = blocks

    def admit(self, sequence: Sequence) -> None:
        """Cached leading blocks become the sequence's own."""
        found, idle = self._hits(sequence)
        hits = len(found)
        sequence._block_ids = self._room_for(sequence)
        if hits:
            sequence._block_ids[:hits] = found
            self._store.hold(found)
            self.free_blocks -= idle
        sequence._blocks = sequence._named_blocks = sequence._hashed_blocks = hits
        sequence.computed_tokens = hits * self.block_size
        if sequence.row in self.keys.has_children:
            self._live[sequence.row] = sequence

    def _room_for(self, sequence: Sequence) -> Blocks:
        most = self.blocks_for(sequence.prompt_tokens + sequence._output_tokens)
        return np.empty(most, dtype=np.int64)

    def extend(self, sequence: Sequence, tokens: int) -> None:
        """Blocks for the first `tokens` tokens; the full ones can be hit from now on."""
        blocks = self.blocks_for(tokens)
        if self.finds_nothing(sequence):  # and nobody can hit it: which blocks, is known at its end
            self.grow(blocks - sequence._blocks)
            sequence._blocks = blocks
            return
        self._name(sequence, sequence._blocks)
        if blocks > sequence._blocks:
            self._take_owed()
            KVCache.grow(self, blocks - sequence._blocks)
            new = self._pop(blocks - sequence._blocks)
            self._store.refs[new] = 1
            sequence._block_ids[sequence._blocks : blocks] = new
            sequence._blocks = sequence._named_blocks = blocks
        self._name_parents(sequence)
        self._hash(sequence, tokens - self._unknown(sequence, tokens))

    def grow(self, blocks: int) -> None:
        """Blocks for the pool's next tokens: counted now, taken when it matters which."""
        KVCache.grow(self, blocks)
        self._owed += blocks

    def _take_owed(self) -> None:
        """Take the blocks that grew: before anything else is taken, freed or looked up."""
        if self._owed:
            top, self._loose_top = self._loose_top, self._loose_top + self._owed
            self._loose[top : self._loose_top] = self._pop(self._owed)
            self._owed = 0

    def set_aside(self, blocks: int) -> None:
        """Choose the next so many blocks to be taken now, before others are freed."""
        self._take_owed()
        more = blocks - len(self._aside)
        if more > 0:
            self._aside = np.concatenate((self._aside, self._store.take(more)))

    def freed_by(self, sequences: Rows[Sequence], blocks: Rows[int]) -> int:
        """Blocks that become free if these are evicted: shared ones only with their last holder."""
        if not sequences:
            return sum(blocks)
        refs = self._store.refs
        if len(sequences) == 1:  # it has no block twice
            named = sequences[0]._named_blocks
            alone = np.count_nonzero(refs[sequences[0]._block_ids[:named]] == 1)
            return blocks[0] - named + int(alone)
        named_ids = [s._block_ids[: s._named_blocks] for s in sequences]
        unnamed = sum(blocks) - sum(len(ids) for ids in named_ids)
        held, holders = np.unique(np.concatenate(named_ids), return_counts=True)
        return unnamed + int(np.count_nonzero(refs[held] == holders))

    def release(self, sequence: Sequence, tokens: int, *, ended: bool) -> None:
        """All blocks of a sequence that ended or was preempted, the last one first.

        What nobody can ask for once it ended is content all the same: it is not taken first.
        """
        self._take_owed()
        if not ended:
            self.keys.complete(sequence.row)
        self._settle(sequence, tokens, 0 if ended else self._unknown(sequence, tokens))
        if ended:
            full = tokens // self.block_size
            self._store.fill(sequence._block_ids[sequence._hashed_blocks : full])
            sequence._hashed_blocks = full
        held = sequence._block_ids[: sequence._blocks][::-1]
        bare = sequence._blocks - sequence._hashed_blocks
        self.free_blocks += self._store.give_back(held, bare)
        sequence._blocks = sequence._named_blocks = sequence._hashed_blocks = 0
        self._live.pop(sequence.row, None)
        if ended:
            for keys in self.keys.forget(sequence.row):
                self._store.empty(keys)

    def _hash(self, sequence: Sequence, tokens: int) -> None:
        """The full blocks of the first `tokens` tokens can be found from now on."""
        keys = self._keys(sequence)
        start, stop = sequence._hashed_blocks, min(len(keys), tokens // self.block_size)
        if stop > start:
            sequence._hashed_blocks = stop
            self._store.enter(keys[start:stop], sequence._block_ids[start:stop])

    def _pop(self, blocks: int) -> Blocks:
        """Which free blocks are taken: those set aside for this step, then as they come."""
        aside = min(blocks, len(self._aside))
        if not aside:
            return self._store.take(blocks)
        taken, self._aside = self._aside[:aside], self._aside[aside:]
        if aside == blocks:
            return taken
        return np.concatenate((taken, self._store.take(blocks - aside)))
