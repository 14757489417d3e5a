"""`ResumeCache`: prefix caching for a trace in which no two requests begin alike.

Then only a preempted sequence ever comes back for content, its own, and all that matters of a
block is how many others are taken before it. So the free blocks are counted, in runs: first those
without content, then the least recently used; a preempted sequence's content is one run, whose
tail is taken before its head. Work is done per admission, chunk and release, never per block.
The same answers as `PrefixCache`, which is for all other traces.
"""

from __future__ import annotations

from collections import deque

from .kv_cache import Contexts, KVCache
from .sequence import Sequence


class ResumeCache(KVCache):
    """`KVCache` in which a resumed sequence finds what nobody has taken of its content.

    blocks, block_size, watermark: as `KVCache`. lag: tokens in flight, as for `PrefixCache`.
    """

    caches_prefixes = True

    __slots__ = ("_aside", "_bare", "_lag", "_left", "_owed", "_queue", "pool")

    def __init__(self, blocks: int, block_size: int, watermark: float, lag: int) -> None:
        super().__init__(blocks, block_size, watermark)
        self._lag = lag
        self._left: dict[Sequence, list[int]] = {}
        """Preempted sequence -> its run, [blocks], in the queue. Empty until somebody is."""
        self._queue: deque[list[int]] = deque([[0]])
        self._bare = blocks
        self._owed = self._aside = 0

    def watch(self, pool: Contexts) -> None:
        """The pool knows who sits out a step."""
        self.pool = pool

    def cached_tokens(self, sequence: Sequence) -> int:
        """Leading tokens of a waiting sequence that it left in the cache and nobody took."""
        if not sequence.preemptions:
            return 0
        self._take_owed()
        run = self._left.get(sequence)
        return run[0] * self.block_size if run is not None else 0

    def finds_nothing(self, sequence: Sequence) -> bool:
        """Whether a waiting sequence has never been here."""
        return not sequence.preemptions

    def admit(self, sequence: Sequence) -> None:
        """What it left becomes its own again."""
        if not sequence.preemptions:
            return
        tokens = self.cached_tokens(sequence)
        assert tokens < sequence.known_tokens, (sequence, tokens)
        run = self._left.pop(sequence, None)
        if run is not None:
            sequence._blocks, run[0] = run[0], 0
            self.free_blocks -= sequence._blocks
        sequence.computed_tokens = tokens

    def extend(self, sequence: Sequence, tokens: int) -> None:
        """Blocks for the first `tokens` tokens, counted like those of decodes."""
        blocks = -(-tokens // self.block_size)
        self.grow(blocks - sequence._blocks)
        sequence._blocks = blocks

    def grow(self, blocks: int) -> None:
        """Blocks for the next tokens: counted now, taken from the queue before it changes."""
        assert blocks <= self.free_blocks, (blocks, self.free_blocks)
        self.free_blocks -= blocks
        self._owed += blocks

    def set_aside(self, blocks: int) -> None:
        """Take the next so many blocks now, before others are freed."""
        self._take_owed()
        more = blocks - self._aside
        if more > 0:
            self._pop(more)
            self._aside += more

    def release(self, sequence: Sequence, tokens: int, *, ended: bool) -> None:
        """Blocks without content are taken next, the others when all freed before them are."""
        self._take_owed()
        lag = 0 if ended else self._unknown(sequence, tokens)
        held, content = sequence._blocks, (tokens - lag) // self.block_size
        self.free_blocks += held
        self._bare += held - content
        sequence._blocks = 0
        assert self.free_blocks <= self.blocks, (sequence, self.free_blocks)
        if not ended:
            self._left[sequence] = [content]
            self._queue += (self._left[sequence], [0])
        elif self._left or len(self._queue) > 1:
            self._queue[-1][0] += content
        else:
            self._bare += content  # nobody waits for what is in any of the free blocks
        if ended:
            self.forget(sequence)

    def forget(self, sequence: Sequence) -> None:
        """It will not come back for what it left; the blocks keep their place in the queue."""
        self._left.pop(sequence, None)

    def _unknown(self, sequence: Sequence, tokens: int) -> int:
        """Of its first `tokens`, those whose ids are not known: sampled by a step in flight."""
        if tokens <= sequence.known_tokens or sequence in self.pool.resting:
            return 0
        return self._lag

    def _take_owed(self) -> None:
        """Take what has grown: before anything is freed or looked up."""
        owed, self._owed = self._owed, 0
        aside = min(owed, self._aside)
        self._aside -= aside
        if owed > aside:
            self._pop(owed - aside)

    def _pop(self, blocks: int) -> None:
        bare = min(blocks, self._bare)
        self._bare -= bare
        blocks -= bare
        while blocks:
            run = self._queue[0]
            taken = min(blocks, run[0])
            run[0] -= taken
            blocks -= taken
            if not run[0] and len(self._queue) > 1:
                self._queue.popleft()
