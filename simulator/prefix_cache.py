"""`PrefixCache`: paged KV memory that remembers what its blocks hold.

Source: vLLM 0.33 `v1/core/block_pool.py` and `kv_cache_manager.py`. Full blocks can be hit by later
requests with the same prefix, as soon as they are planned; a block nobody holds stays hittable
until it is reused. Free blocks are taken without content first, then in LRU order; a sequence's
blocks are freed last first, so that the tail of a prefix goes before its head.

Work is done per admission, chunk and release, in runs of blocks (`BlockStore`); a decoding
sequence's new blocks are counted (`grow`) and given their content when it leaves, or when a later
turn asks. Where no two requests begin alike, `ResumeCache` does the same with less.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

from mypy_extensions import mypyc_attr

from .block_run import BlockRun, runs_of
from .block_store import BlockStore, Found
from .kv_cache import Contexts, KVCache
from .prefix_keys import PrefixKeys
from .resume_cache import ResumeCache
from .sequence import Sequence
from .trace import Trace


@mypyc_attr(allow_interpreted_subclasses=True)
class PrefixCache(KVCache):
    """`KVCache` with prefix caching; made for one trace by `prepared`.

    blocks, block_size, watermark: as `KVCache`.
    """

    caches_prefixes = True

    __slots__ = ("_aside", "_lag", "_live", "_memo", "_store", "keys", "pool")

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
        self._store = BlockStore(self.blocks)
        self._aside = 0
        self._live: dict[int, Sequence] = {}
        self._memo: tuple[Sequence, Found] | None = None

    def watch(self, pool: Contexts) -> None:
        """The pool knows how far a decoding sequence is."""
        self.pool = pool

    def cached_tokens(self, sequence: Sequence) -> int:
        """Leading tokens already in the cache: full blocks, and never the last known token."""
        return self._hits(sequence).blocks * self.block_size

    def blocks_to_admit(self, sequence: Sequence, tokens: int) -> int:
        """New blocks for `tokens` tokens, plus hit blocks that nobody holds now."""
        found = self._hits(sequence)
        return self.blocks_for(tokens) - found.blocks + found.idle

    def _hits(self, sequence: Sequence) -> Found:
        """The leading blocks that are cached; remembered until a change."""
        self._name_parents(sequence)
        memo, store = self._memo, self._store
        if memo is not None and memo[0] is sequence and memo[1].changes == store.changes:
            return memo[1]
        most = (sequence.known_tokens - 1) // self.block_size
        found = store.find(self.keys.of(sequence.row), most)
        self._memo = (sequence, found)
        return found

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
                self._hash(parent, tokens - self._unknown(parent, tokens))
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

    def admit(self, sequence: Sequence) -> None:
        """Cached leading blocks become the sequence's own."""
        found = self._hits(sequence)
        self._store.hold(found.runs)
        self.free_blocks -= found.idle
        sequence._held = found.runs
        sequence._blocks = sequence._hashed_blocks = found.blocks
        sequence.computed_tokens = found.blocks * self.block_size
        if sequence.row in self.keys.has_children:
            self._live[sequence.row] = sequence

    def extend(self, sequence: Sequence, tokens: int) -> None:
        """Blocks for the first `tokens` tokens; the full ones can be hit from now on."""
        blocks = self.blocks_for(tokens)
        if blocks > sequence._blocks:
            self.grow(blocks - sequence._blocks)
            sequence._blocks = blocks
        if not self.finds_nothing(sequence):
            self._name_parents(sequence)
            self._hash(sequence, tokens - self._unknown(sequence, tokens))

    def grow(self, blocks: int) -> None:
        """Blocks for the next tokens: those set aside for this step, then as they come."""
        KVCache.grow(self, blocks)
        aside = min(blocks, self._aside)
        self._aside -= aside
        self._store.take(blocks - aside)

    def set_aside(self, blocks: int) -> None:
        """Take the next so many blocks now, before others are freed."""
        more = blocks - self._aside
        if more > 0:
            self._store.take(more)
            self._aside = blocks

    def freed_by(self, sequences: Rows[Sequence], blocks: Rows[int]) -> int:
        """Blocks that become free if these are evicted: shared ones only with their last holder."""
        freed = sum(blocks)
        holders: dict[BlockRun, int] = {}
        for sequence in sequences:
            for run in runs_of(sequence._held):
                holders[run] = holders.get(run, 0) + 1
                freed -= run.blocks
        return freed + sum([run.blocks for run, held in holders.items() if run.refs == held])

    def release(self, sequence: Sequence, tokens: int, *, ended: bool) -> None:
        """All blocks of a sequence that ended or was preempted, the last one first.

        What nobody can ask for once it ended is content all the same: it is not taken first.
        """
        if not ended:
            self.keys.complete(sequence.row)
        self._hash(sequence, tokens if ended else tokens - self._unknown(sequence, tokens))
        full = tokens // self.block_size if ended else sequence._hashed_blocks
        bare, filled = sequence._blocks - full, full - sequence._hashed_blocks
        self.free_blocks += self._store.give_back(sequence._held, bare=bare, filled=filled)
        sequence._blocks = sequence._hashed_blocks = 0
        sequence._held = []
        self._live.pop(sequence.row, None)
        if ended:
            self.forget(sequence)

    def forget(self, sequence: Sequence) -> None:
        """It has left for good: what only it and those before it had cannot be hit again."""
        for keys in self.keys.forget(sequence.row):
            self._store.empty(keys)

    def _hash(self, sequence: Sequence, tokens: int) -> None:
        """The full blocks of the first `tokens` tokens can be found from now on."""
        keys = self.keys.of(sequence.row)
        start, stop = sequence._hashed_blocks, min(len(keys), tokens // self.block_size)
        if stop > start:
            sequence._hashed_blocks = stop
            self._store.enter(keys, start, stop, sequence._held)
