"""`KVCache`: paged KV memory in counted mode: how many blocks, not which.

Source: PagedAttention (Kwon et al., SOSP 2023, section 4): memory is handed out in blocks of
`block_size` tokens, so a sequence with c computed tokens holds ceil(c / block_size) of them.
"""

from __future__ import annotations

from typing import Protocol

from .errors import ConfigError


class KVView(Protocol):
    """What a scheduler may see of the cache."""

    @property
    def free_blocks(self) -> int:
        """Blocks nobody holds."""

    @property
    def watermark_blocks(self) -> int:
        """Free blocks that admission must leave while others run."""

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""


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

    __slots__ = ("block_size", "blocks", "free_blocks", "watermark", "watermark_blocks")

    def __init__(self, blocks: int, block_size: int = 16, watermark: float = 0.0) -> None:
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

    def emptied(self) -> KVCache:
        """A fresh cache of the same size, so that one description serves many runs."""
        return KVCache(self.blocks, self.block_size, self.watermark)

    @property
    def used_blocks(self) -> int:
        """Blocks somebody holds."""
        return self.blocks - self.free_blocks

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_size)

    def take(self, blocks: int) -> None:
        """Hand out blocks. The engine has checked that they are there."""
        assert blocks <= self.free_blocks, (blocks, self.free_blocks)
        self.free_blocks -= blocks

    def give(self, blocks: int) -> None:
        """Take blocks back."""
        self.free_blocks += blocks
        assert self.free_blocks <= self.blocks, (blocks, self.free_blocks)
