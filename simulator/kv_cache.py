"""`KVCache`: paged KV memory in counted mode: how many blocks, not which.

Source: PagedAttention (Kwon et al., SOSP 2023, section 4): memory is handed out in blocks of
`block_size` tokens, so a sequence with c computed tokens holds ceil(c / block_size) of them.
"""

from __future__ import annotations

from collections.abc import Container
from collections.abc import Sequence as Rows
from operator import index
from typing import Protocol, SupportsIndex

from mypy_extensions import mypyc_attr

from .errors import ConfigError
from .sequence import Sequence
from .trace import Trace


class Contexts(Protocol):
    """Who decodes, how far each of them is, and who sits steps out (the decode pool)."""

    resting: Container[Sequence]
    resting_now: Container[Sequence]
    ended_now: Container[Sequence]

    def __contains__(self, sequence: Sequence) -> bool: ...

    def context_of(self, sequence: Sequence) -> int:
        """KV tokens of a decoding sequence."""


@mypyc_attr(allow_interpreted_subclasses=True)
class KVCache:
    """A fixed number of blocks, taken and given back by count.

    blocks: usable blocks (vLLM's `num_gpu_blocks` counts one null block more).
    block_size: tokens a block. watermark: fraction of the blocks that admission leaves free
    while something runs.

    >>> cache = KVCache(64, block_size=16)
    >>> cache.blocks_for(2000)
    125

    Raises:
        ConfigError: no blocks, no block size, or a watermark outside [0, 1).
    """

    caches_prefixes = False

    __slots__ = ("block_size", "blocks", "free_blocks", "watermark", "watermark_blocks")

    def __init__(
        self, blocks: SupportsIndex, block_size: SupportsIndex = 16, watermark: float = 0.0
    ) -> None:
        blocks, block_size = index(blocks), index(block_size)
        if blocks < 1:
            raise ConfigError(f"kv_blocks is {blocks}, must be at least 1")
        if block_size < 1:
            raise ConfigError(f"block_size is {block_size}, must be at least 1 token")
        if not 0.0 <= watermark < 1.0:
            raise ConfigError(f"watermark is {watermark}, must be in [0, 1)")
        self.blocks = blocks
        self.block_size = block_size
        self.watermark = watermark
        self.watermark_blocks = int(watermark * blocks)
        self.free_blocks = blocks

    def prepared(self, trace: Trace, lag: int) -> KVCache:
        """A fresh cache of the same size for one run, so that one description serves many."""
        return KVCache(self.blocks, self.block_size, self.watermark)

    def watch(self, pool: Contexts) -> None:
        """Where to ask how far a decoding sequence is; counting needs no such thing."""

    @property
    def used_blocks(self) -> int:
        """Blocks somebody holds."""
        return self.blocks - self.free_blocks

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_size)

    def cached_tokens(self, sequence: Sequence) -> int:
        """Leading tokens of a waiting sequence that are in the cache already: none, here."""
        return 0

    def finds_nothing(self, sequence: Sequence) -> bool:
        """Whether nothing that a waiting sequence begins with can be in the cache: yes, here."""
        return True

    def source_decodes(self, sequence: Sequence) -> bool:
        """Whether what a waiting sequence begins with is still being generated: no matter, here."""
        return False

    def blocks_to_admit(self, sequence: Sequence, tokens: int) -> int:
        """Free blocks that a waiting sequence would take to hold `tokens` tokens."""
        return -(-tokens // self.block_size)

    def admit(self, sequence: Sequence) -> None:
        """The sequence leaves the queue; cached leading blocks become its own."""

    def forget(self, sequence: Sequence) -> None:
        """It has left for good: nobody asks again for what only it began with."""

    def extend(self, sequence: Sequence, tokens: int) -> None:
        """Blocks for the first `tokens` tokens of a sequence whose prompt is being computed."""
        blocks = -(-tokens // self.block_size)
        self.free_blocks = free = self.free_blocks + sequence._blocks - blocks
        assert free >= 0, (sequence, free)
        sequence._blocks = blocks

    def grow(self, blocks: int) -> None:
        """Blocks for the pool's next tokens, whoever they are for."""
        assert blocks <= self.free_blocks, (blocks, self.free_blocks)
        self.free_blocks -= blocks

    def set_aside(self, blocks: int) -> None:
        """Choose the next so many blocks to be taken now, before others are freed."""

    def freed_by(self, sequences: Rows[Sequence], blocks: Rows[int]) -> int:
        """Blocks that become free if these sequences, holding so many each, are evicted."""
        return sum(blocks)

    def release(self, sequence: Sequence, tokens: int, *, ended: bool) -> None:
        """All blocks of a sequence that ended or was preempted, with `tokens` tokens in them."""
        self.free_blocks += sequence._blocks
        sequence._blocks = 0
        assert self.free_blocks <= self.blocks, (sequence, self.free_blocks)
