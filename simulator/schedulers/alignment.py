"""Chunks of hybrid models: the state of linear-attention (Mamba) layers is kept block by block.

Source: vLLM 0.20, `Scheduler._mamba_block_aligned_split` (`mamba_cache_mode` "align").
"""

from __future__ import annotations

from simulator.errors import ConfigError


def aligned_chunk(new: int, done: int, known: int, alignment: int) -> int:
    """New tokens of a chunk that ends on a multiple of `alignment`, or goes to the prompt's end.

    done: tokens already computed; known: all tokens to compute. What lies behind the prompt's last
    multiple is a chunk of its own. 0: the room left does not reach the next multiple, the prompt
    sits this step out.

    10,863 tokens in blocks of 1,056 under a budget of 8,192:

    >>> aligned_chunk(8192, 0, 10863, 1056), aligned_chunk(3471, 7392, 10863, 1056)
    (7392, 3168)
    >>> aligned_chunk(303, 10560, 10863, 1056), aligned_chunk(900, 1056, 10863, 1056)
    (303, 0)
    """
    last = known - known % alignment
    end = done + new
    if end < last:
        return new // alignment * alignment
    return last - done if done < last else new


def checked_alignment(alignment: int, max_num_batched_tokens: int) -> int:
    """Refuse a block that no step can hold.

    Raises:
        ConfigError: a negative alignment, or one above the token budget.
    """
    if not 0 <= alignment <= max_num_batched_tokens:
        raise ConfigError(
            f"prefill_alignment_tokens is {alignment}: must be 0 (off) to max_num_batched_tokens "
            f"({max_num_batched_tokens}), or no long prompt could ever start"
        )
    return alignment
