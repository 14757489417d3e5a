"""`KVCache`: blocks are counted, never lost, never invented."""

from __future__ import annotations

import numpy as np
import pytest

from simulator import ConfigError, KVCache, Sequence, Trace

ONE = Trace(np.zeros(1, np.int64), np.ones(1, np.int64), np.ones(1, np.int64))


@pytest.mark.parametrize(
    ("tokens", "blocks"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (1024, 64), (2000, 125)]
)
def test_tokens_take_whole_blocks(tokens: int, blocks: int) -> None:
    assert KVCache(64, block_size=16).blocks_for(tokens) == blocks


def test_sequence_takes_blocks_as_it_is_computed_and_gives_them_back() -> None:
    """Blocks of 4: 3 tokens hold 1 block, 4 still 1, 9 hold 3; two decodes grow by 1 and 0."""
    cache, sequence = KVCache(10, block_size=4), Sequence(0, 0, 9, 5)

    held = []
    for tokens in (3, 4, 9):
        cache.extend(sequence, tokens)
        held.append((sequence._blocks, cache.free_blocks, cache.used_blocks))
    assert held == [(1, 9, 1), (1, 9, 1), (3, 7, 3)]

    cache.grow(1)
    sequence._blocks = 4
    cache.grow(0)
    assert cache.free_blocks == 6

    cache.release(sequence, 13, ended=True)
    assert (sequence._blocks, cache.free_blocks, cache.used_blocks) == (0, 10, 0)


def test_more_blocks_than_there_are_is_a_bug_of_ours() -> None:
    cache, sequence = KVCache(2, block_size=4), Sequence(0, 0, 12, 1)

    with pytest.raises(AssertionError):
        cache.extend(sequence, 12)
    with pytest.raises(AssertionError):
        cache.grow(3)


def test_block_given_back_twice_is_a_bug_of_ours() -> None:
    cache, sequence = KVCache(2, block_size=4), Sequence(0, 0, 8, 1)
    cache.extend(sequence, 8)
    cache.release(sequence, 8, ended=False)
    sequence._blocks = 2

    with pytest.raises(AssertionError):
        cache.release(sequence, 8, ended=False)


def test_watermark_is_a_whole_number_of_blocks_rounded_down() -> None:
    assert KVCache(100, watermark=0.01).watermark_blocks == 1
    assert KVCache(99, watermark=0.01).watermark_blocks == 0


def test_each_run_gets_a_cache_of_its_own() -> None:
    described = KVCache(7, block_size=8, watermark=0.3)

    fresh = described.prepared(ONE, lag=0)
    fresh.grow(5)

    assert (fresh.blocks, fresh.block_size, fresh.watermark_blocks) == (7, 8, 2)
    assert (fresh.free_blocks, described.free_blocks) == (2, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "kv_blocks is 0, must be at least 1"),
        ((-5,), "kv_blocks is -5"),
        ((8, 0), "block_size is 0, must be at least 1 token"),
        ((8, 16, 1.0), r"watermark is 1.0, must be in \[0, 1\)"),
        ((8, 16, -0.1), "watermark is -0.1"),
        ((8, 16, float("nan")), "watermark is nan"),
    ],
)
def test_impossible_sizes_are_refused(arguments: tuple[float, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        KVCache(*arguments)
