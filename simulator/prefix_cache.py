"""`PrefixCache`: paged KV memory that remembers what its blocks hold.

Source: vLLM 0.33 `v1/core/block_pool.py` and `kv_cache_manager.py`. Full blocks can be hit by later
requests with the same prefix, as soon as they are planned; a block nobody holds stays hittable
until it is reused. Free blocks are taken without content first, then in LRU order; a sequence's
blocks are freed last first, so that the tail of a prefix goes before its head.

Work is done per admission, chunk and release, in whole arrays; a decoding sequence's new blocks are
taken unnamed (`grow`) and given their content only when it leaves, or when somebody asks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .kv_cache import Contexts, KVCache
from .prefix_keys import Keys, PrefixKeys
from .request import Sequence
from .trace import Trace

Blocks = NDArray[np.int64]
NOBODY = -1


class PrefixCache(KVCache):
    """`KVCache` with prefix caching; made for one trace by `prepared`.

    blocks, block_size, watermark: as `KVCache`.
    """

    caches_prefixes = True

    __slots__ = (
        "_bare",
        "_block_of",
        "_context_of",
        "_head",
        "_key_of",
        "_lag",
        "_live",
        "_loose",
        "_memo",
        "_place",
        "_queue",
        "_refs",
        "_tail",
        "_twins",
        "keys",
        "pool",
    )

    def prepared(self, trace: Trace, lag: int) -> PrefixCache:
        """A fresh cache for this trace.

        lag: sampled tokens of a decoding sequence whose ids are not known yet when a step is
        planned (0 sync, 1 async): blocks with them cannot be hit.
        """
        cache = PrefixCache(self.blocks, self.block_size, self.watermark)
        cache._start(trace, lag)
        return cache

    def _start(self, trace: Trace, lag: int) -> None:
        self.keys = PrefixKeys(trace, self.block_size)
        self._lag = lag
        self._bare = list(range(self.blocks))
        self._loose: list[int] = []
        self._refs = np.zeros(self.blocks, dtype=np.int64)
        self._key_of = np.full(self.blocks, NOBODY, dtype=np.int64)
        self._place = np.full(self.blocks, NOBODY, dtype=np.int64)
        self._block_of = np.full(max(1024, self.keys.used), NOBODY, dtype=np.int64)
        self._queue = np.empty(2 * self.blocks + 1024, dtype=np.int64)
        self._head = self._tail = 0
        self._twins: dict[int, list[int]] = {}
        self._live: dict[int, Sequence] = {}
        self._memo: tuple[Sequence, int, int] | None = None

    def watch(self, pool: Contexts) -> None:
        """The pool knows how far a decoding sequence is."""
        self.pool = pool

    def cached_tokens(self, sequence: Sequence) -> int:
        """Leading tokens already in the cache: full blocks, and never the last known token."""
        return self._hits(sequence)[0] * self.block_size

    def blocks_to_admit(self, sequence: Sequence, tokens: int) -> int:
        """New blocks for `tokens` tokens, plus hit blocks that nobody holds now."""
        hits, idle = self._hits(sequence)
        return self.blocks_for(tokens) - hits + idle

    def _hits(self, sequence: Sequence) -> tuple[int, int]:
        """(leading blocks that are cached, those nobody holds); remembered until a change."""
        if self._memo is not None and self._memo[0] is sequence:
            return self._memo[1], self._memo[2]
        self._name_parent(sequence)
        found = self._find(sequence)
        idle = int(np.count_nonzero(self._refs[found] == 0))
        self._memo = (sequence, len(found), idle)
        return len(found), idle

    def _find(self, sequence: Sequence) -> Blocks:
        limit = (sequence.known_tokens - 1) // self.block_size
        keys = self._keys(sequence)[:limit]
        found = self._block_of[keys]
        missing = np.flatnonzero(found < 0)
        return found[: missing[0]] if len(missing) else found

    def _keys(self, sequence: Sequence) -> Keys:
        keys = self.keys.of(sequence.row)
        if self.keys.used > len(self._block_of):
            grown = np.full(2 * self.keys.used, NOBODY, dtype=np.int64)
            grown[: len(self._block_of)] = self._block_of
            self._block_of = grown
        return keys

    def _name_parent(self, sequence: Sequence) -> None:
        """A later turn that comes before the earlier one ended: what that one has is hittable."""
        row = self.keys.parent_of(sequence.row)
        while row is not None:
            parent = self._live.get(row)
            if parent is not None:
                self._settle(parent, self._tokens_of(parent), self._lag)
            row = self.keys.parent_of(row)

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
            taken = self._loose[-missing:]
            del self._loose[-missing:]
            sequence._block_ids[blocks - missing : blocks] = taken
            self._refs[taken] = 1
            sequence._named_blocks = blocks

    def admit(self, sequence: Sequence) -> None:
        """Cached leading blocks become the sequence's own."""
        hits = self._hits(sequence)[0]
        found = self._find(sequence)
        self._memo = None
        sequence._block_ids = np.empty(len(self._keys(sequence)) + 1, dtype=np.int64)
        sequence._block_ids[:hits] = found
        idle = found[self._refs[found] == 0]
        self._place[idle] = NOBODY
        self.free_blocks -= len(idle)
        self._refs[found] += 1
        sequence._blocks = sequence._named_blocks = sequence._hashed_blocks = hits
        sequence.computed_tokens = hits * self.block_size
        if sequence.row in self.keys.has_children:
            self._live[sequence.row] = sequence

    def extend(self, sequence: Sequence, tokens: int) -> None:
        """Blocks for the first `tokens` tokens; the full ones can be hit from now on."""
        blocks = self.blocks_for(tokens)
        self._name(sequence, sequence._blocks)
        new = self._pop(blocks - sequence._blocks)
        self._refs[new] = 1
        sequence._block_ids[sequence._blocks : blocks] = new
        sequence._blocks = sequence._named_blocks = blocks
        self._hash(sequence, tokens)

    def grow(self, blocks: int) -> None:
        """Blocks for the pool's next tokens, unnamed until somebody needs to know."""
        if blocks:
            self._loose += self._pop(blocks).tolist()

    def freed_by(self, sequences: list[Sequence], blocks: list[int]) -> int:
        """Blocks that become free if these are evicted: shared ones only with their last holder."""
        named = [s._block_ids[: s._named_blocks] for s in sequences]
        unnamed = sum(blocks) - sum(len(ids) for ids in named)
        held, holders = np.unique(np.concatenate(named), return_counts=True)
        return unnamed + int(np.count_nonzero(self._refs[held] == holders))

    def release(self, sequence: Sequence, tokens: int, *, ended: bool) -> None:
        """All blocks of a sequence that ended or was preempted, the last one first."""
        self._settle(sequence, tokens, 0 if ended else self._lag)
        held = sequence._block_ids[: sequence._blocks][::-1]
        self._memo = None
        self._refs[held] -= 1
        idle = held[self._refs[held] == 0]
        hashed = self._key_of[idle] != NOBODY
        self._bare += idle[~hashed].tolist()
        self._append(idle[hashed])
        self.free_blocks += len(idle)
        sequence._blocks = sequence._named_blocks = sequence._hashed_blocks = 0
        self._live.pop(sequence.row, None)
        if ended:
            self.keys.forget(sequence.row)

    def _hash(self, sequence: Sequence, tokens: int) -> None:
        """Enter the full blocks of the first `tokens` tokens; two blocks may have one content."""
        start, stop = sequence._hashed_blocks, tokens // self.block_size
        if stop <= start:
            return
        sequence._hashed_blocks = stop
        self._memo = None
        blocks = sequence._block_ids[start:stop]
        keys = self._keys(sequence)[start:stop]
        self._key_of[blocks] = keys
        taken = self._block_of[keys] != NOBODY
        if taken.any():
            for key, block in zip(keys[taken].tolist(), blocks[taken].tolist(), strict=True):
                self._twins.setdefault(key, []).append(block)
            keys, blocks = keys[~taken], blocks[~taken]
        self._block_of[keys] = blocks

    def _pop(self, blocks: int) -> Blocks:
        """Free blocks: those without content first, then the least recently used."""
        if blocks <= 0:
            return np.zeros(0, dtype=np.int64)
        assert blocks <= self.free_blocks, (blocks, self.free_blocks)
        self.free_blocks -= blocks
        self._memo = None
        bare = self._bare
        first = max(0, len(bare) - blocks)
        taken = np.array(bare[first:], dtype=np.int64)
        del bare[first:]
        if len(taken) == blocks:
            return taken
        return np.concatenate((taken, self._evict(blocks - len(taken))))

    def _evict(self, blocks: int) -> Blocks:
        """The least recently used blocks lose their content; entries that were hit are skipped."""
        found: list[Blocks] = []
        missing = blocks
        while missing:
            window = self._queue[self._head : min(self._tail, self._head + 2 * missing + 64)]
            places = np.arange(self._head, self._head + len(window))
            valid = np.flatnonzero(self._place[window] == places)[:missing]
            found.append(window[valid])
            missing -= len(valid)
            self._head += len(window) if missing else int(valid[-1]) + 1
        victims = np.concatenate(found)
        keys = self._key_of[victims]
        self._place[victims] = NOBODY
        self._key_of[victims] = NOBODY
        if self._twins:
            self._drop_twins(keys.tolist(), victims.tolist())
        else:
            self._block_of[keys] = NOBODY
        return victims

    def _drop_twins(self, keys: list[int], blocks: list[int]) -> None:
        for key, block in zip(keys, blocks, strict=True):
            twins = self._twins.get(key, [])
            if self._block_of[key] == block:
                self._block_of[key] = twins.pop(0) if twins else NOBODY
            else:
                twins.remove(block)
            if not twins:
                self._twins.pop(key, None)

    def _append(self, blocks: Blocks) -> None:
        """To the end of the LRU queue; what was hit since leaves holes, closed when it is full."""
        if self._tail + len(blocks) > len(self._queue):
            entries = self._queue[self._head : self._tail]
            entries = entries[self._place[entries] == np.arange(self._head, self._tail)]
            self._head, self._tail = 0, len(entries)
            self._queue[: self._tail] = entries
            self._place[entries] = np.arange(self._tail)
        self._queue[self._tail : self._tail + len(blocks)] = blocks
        self._place[blocks] = np.arange(self._tail, self._tail + len(blocks))
        self._tail += len(blocks)
