"""`PrefixCache`: paged KV memory that remembers what its blocks hold.

Source: vLLM 0.33 `v1/core/block_pool.py` and `kv_cache_manager.py`. Full blocks can be hit by later
requests with the same prefix, as soon as they are planned; a block nobody holds stays hittable
until it is reused. Free blocks are taken without content first, then in LRU order; a sequence's
blocks are freed last first, so that the tail of a prefix goes before its head.

Until somebody comes back for content (a shared prefix, a later turn, a preempted request), all
blocks are alike and are only counted (`_blank`). Then work is done per admission, chunk and
release, in whole arrays; a decoding sequence's new blocks are counted (`grow`), taken before
anything else changes or is asked, and given their content when it leaves, or when a later turn
asks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .kv_cache import Contexts, KVCache
from .prefix_keys import NO_CONTENT, Keys, PrefixKeys
from .request import Sequence
from .trace import Trace

Blocks = NDArray[np.int64]
NOBODY = -1
NO_BLOCKS = np.zeros(0, dtype=np.int64)


class PrefixCache(KVCache):
    """`KVCache` with prefix caching; made for one trace by `prepared`.

    blocks, block_size, watermark: as `KVCache`.
    """

    caches_prefixes = True

    __slots__ = (
        "_aside",
        "_bare",
        "_bare_top",
        "_blank",
        "_block_of",
        "_context_of",
        "_head",
        "_key_of",
        "_lag",
        "_live",
        "_loose",
        "_loose_top",
        "_memo",
        "_owed",
        "_place",
        "_places",
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
        self._blank = self.keys.all_start_alone
        self._bare = np.arange(self.blocks)
        self._bare_top = self.blocks
        self._loose = np.empty(self.blocks, dtype=np.int64)
        self._loose_top = self._owed = 0
        self._aside = np.zeros(0, dtype=np.int64)
        self._refs = np.zeros(self.blocks, dtype=np.int64)
        self._key_of = np.full(self.blocks, NOBODY, dtype=np.int64)
        self._place = np.full(self.blocks, NOBODY, dtype=np.int64)
        self._block_of = np.full(max(1024, self.keys.used), NOBODY, dtype=np.int64)
        self._queue = np.empty(2 * self.blocks + 1024, dtype=np.int64)
        self._places = np.arange(len(self._queue))
        self._head = self._tail = 0
        self._twins: dict[int, list[int]] = {}
        self._live: dict[int, Sequence] = {}
        self._memo: tuple[Sequence, Blocks, int] | None = None

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
        if self._blank:
            return NO_BLOCKS, 0
        self._take_owed()
        self._name_parents(sequence)
        if self._memo is not None and self._memo[0] is sequence:
            return self._memo[1], self._memo[2]
        found = self._find(sequence)
        idle = len(found) - int(np.count_nonzero(self._refs[found])) if len(found) else 0
        self._memo = (sequence, found, idle)
        return found, idle

    def _find(self, sequence: Sequence) -> Blocks:
        keys = self._keys(sequence)[: (sequence.known_tokens - 1) // self.block_size]
        if not len(keys):
            return keys
        found = self._block_of[keys]
        missing = found < 0
        first = int(missing.argmax())
        return found[:first] if missing[first] else found

    def _keys(self, sequence: Sequence) -> Keys:
        keys = self.keys.of(sequence.row)
        if self.keys.used > len(self._block_of):
            grown = np.full(2 * self.keys.used, NOBODY, dtype=np.int64)
            grown[: len(self._block_of)] = self._block_of
            self._block_of = grown
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
            if not len(sequence._block_ids):
                sequence._block_ids = self._room_for(sequence)
            self._loose_top -= missing
            taken = self._loose[self._loose_top : self._loose_top + missing]
            sequence._block_ids[blocks - missing : blocks] = taken
            self._refs[taken] = 1
            sequence._named_blocks = blocks

    def admit(self, sequence: Sequence) -> None:
        """Cached leading blocks become the sequence's own."""
        if self._blank:
            sequence._block_ids = NO_BLOCKS
            return
        found, idle = self._hits(sequence)
        hits = len(found)
        self._memo = None
        sequence._block_ids = self._room_for(sequence)
        if hits:
            sequence._block_ids[:hits] = found
            if idle:
                self._place[found[self._refs[found] == 0]] = NOBODY
                self.free_blocks -= idle
            self._refs[found] += 1
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
            self._take(blocks - sequence._blocks)
            new = self._pop(blocks - sequence._blocks)
            self._refs[new] = 1
            sequence._block_ids[sequence._blocks : blocks] = new
            sequence._blocks = sequence._named_blocks = blocks
        self._name_parents(sequence)
        self._hash(sequence, tokens - self._unknown(sequence, tokens))

    def grow(self, blocks: int) -> None:
        """Blocks for the pool's next tokens: counted now, taken when it matters which."""
        self._take(blocks)
        if not self._blank:
            self._owed += blocks

    def _take_owed(self) -> None:
        """Take the blocks that grew: before anything else is taken, freed or looked up."""
        if self._owed:
            top, self._loose_top = self._loose_top, self._loose_top + self._owed
            self._loose[top : self._loose_top] = self._pop(self._owed)
            self._owed = 0

    def set_aside(self, blocks: int) -> None:
        """Choose the next so many blocks to be taken now, before others are freed."""
        if self._blank:
            return
        self._take_owed()
        more = blocks - len(self._aside)
        if more > 0:
            self._aside = np.concatenate((self._aside, self._choose(more)))

    def freed_by(self, sequences: list[Sequence], blocks: list[int]) -> int:
        """Blocks that become free if these are evicted: shared ones only with their last holder."""
        if self._blank or not sequences:
            return sum(blocks)
        named = [s._block_ids[: s._named_blocks] for s in sequences]
        unnamed = sum(blocks) - sum(len(ids) for ids in named)
        held, holders = np.unique(np.concatenate(named), return_counts=True)
        return unnamed + int(np.count_nonzero(self._refs[held] == holders))

    def release(self, sequence: Sequence, tokens: int, *, ended: bool) -> None:
        """All blocks of a sequence that ended or was preempted, the last one first.

        What nobody can ask for once it ended is content all the same: it is not taken first.
        """
        if self._blank:
            if ended:
                self.free_blocks += sequence._blocks
                sequence._blocks = 0
                return
            self._tell_apart()
        self._take_owed()
        if not ended:
            self.keys.complete(sequence.row)
        self._settle(sequence, tokens, 0 if ended else self._unknown(sequence, tokens))
        if ended:
            full = tokens // self.block_size
            self._key_of[sequence._block_ids[sequence._hashed_blocks : full]] = NO_CONTENT
            sequence._hashed_blocks = full
        held = sequence._block_ids[: sequence._blocks][::-1]
        bare = sequence._blocks - sequence._hashed_blocks
        self._memo = None
        refs = self._refs[held] - 1
        self._refs[held] = refs
        self._bare[self._bare_top : self._bare_top + bare] = held[:bare]
        self._bare_top += bare
        idle = held[bare:][refs[bare:] == 0]
        self._append(idle)
        self.free_blocks += bare + len(idle)
        sequence._blocks = sequence._named_blocks = sequence._hashed_blocks = 0
        self._live.pop(sequence.row, None)
        if ended:
            for keys in self.keys.forget(sequence.row):
                self._empty(keys)

    def _tell_apart(self) -> None:
        """From now on it matters which block is which; nobody wants what is in the free ones."""
        free = self.free_blocks
        self._blank = False
        self._bare_top = free
        self._loose[: self.blocks - free] = self._bare[free:]
        self._loose_top = self.blocks - free

    def _empty(self, keys: range) -> None:
        """Nobody can ask for these contents again; their blocks keep their place in the queue."""
        blocks = self._block_of[keys.start : keys.stop]
        self._key_of[blocks[blocks >= 0]] = NO_CONTENT
        blocks[:] = NOBODY
        if self._twins:
            for key in keys:
                self._key_of[self._twins.pop(key, [])] = NO_CONTENT

    def _hash(self, sequence: Sequence, tokens: int) -> None:
        """Enter the full blocks of the first `tokens` tokens; two blocks may have one content."""
        keys = self._keys(sequence)
        start, stop = sequence._hashed_blocks, min(len(keys), tokens // self.block_size)
        if stop <= start:
            return
        sequence._hashed_blocks = stop
        self._memo = None
        blocks = sequence._block_ids[start:stop]
        keys = keys[start:stop]
        self._key_of[blocks] = keys
        first = self._block_of[keys]
        taken = first >= 0
        if np.count_nonzero(taken):
            twins = (column[taken].tolist() for column in (keys, first, blocks))
            for key, one, other in zip(*twins, strict=True):
                self._twins.setdefault(key, [one]).append(other)
            keys, blocks = keys[~taken], blocks[~taken]
        self._block_of[keys] = blocks

    def _pop(self, blocks: int) -> Blocks:
        """Which free blocks are taken: those set aside for this step, then as they come."""
        aside = min(blocks, len(self._aside))
        if not aside:
            return self._choose(blocks)
        taken, self._aside = self._aside[:aside], self._aside[aside:]
        return np.concatenate((taken, self._choose(blocks - aside))) if aside < blocks else taken

    def _choose(self, blocks: int) -> Blocks:
        """Free blocks without content, then the least recently used."""
        bare = min(blocks, self._bare_top)
        self._bare_top -= bare
        taken = self._bare[self._bare_top : self._bare_top + bare]
        if bare == blocks:
            return taken
        victims = self._oldest(blocks - bare)
        keys = self._key_of[victims]
        self._memo = None
        self._block_of[keys] = NOBODY
        if self._twins:
            self._keep_twins(keys.tolist(), victims.tolist())
        return np.concatenate((taken, victims)) if bare else victims

    def _oldest(self, blocks: int) -> Blocks:
        """The least recently used free blocks; entries of those that were hit are skipped."""
        found: list[Blocks] = []
        missing = blocks
        while missing:
            start, stop = self._head, min(self._tail, self._head + missing)
            window = self._queue[start:stop]
            valid = self._place[window] == self._places[start:stop]
            self._head = stop
            found.append(window if np.count_nonzero(valid) == stop - start else window[valid])
            missing -= len(found[-1])
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _keep_twins(self, keys: list[int], victims: list[int]) -> None:
        """A content whose first block is gone is found in the next one that has it."""
        shared = [
            (key, block) for key, block in zip(keys, victims, strict=True) if key in self._twins
        ]
        for key, block in shared:
            holders = self._twins.get(key)
            if holders is None:
                self._block_of[key] = NOBODY
                continue
            holders.remove(block)
            self._block_of[key] = holders[0]
            if len(holders) == 1:
                del self._twins[key]

    def _append(self, blocks: Blocks) -> None:
        """To the end of the LRU queue; what was hit since leaves holes, closed when it is full."""
        if self._tail + len(blocks) > len(self._queue):
            entries = self._queue[self._head : self._tail]
            entries = entries[self._place[entries] == self._places[self._head : self._tail]]
            self._head, self._tail = 0, len(entries)
            self._queue[: self._tail] = entries
            self._place[entries] = self._places[: self._tail]
        self._queue[self._tail : self._tail + len(blocks)] = blocks
        self._place[blocks] = self._places[self._tail : self._tail + len(blocks)]
        self._tail += len(blocks)
