"""Stretches of a recorded trace, drawn with repetition."""

from __future__ import annotations

import numpy as np
import pytest

from simulator import Trace
from simulator.errors import WorkloadError
from workloads.resample import resample_blocks

SECOND = 1_000_000_000


def trace(**more: object) -> Trace:
    """Eight requests, one every second from 5 s; request i has 10 + i prompt tokens."""
    rows = np.arange(8)
    columns = {"arrival_ns": (5 + rows) * SECOND, "prompt_tokens": 10 + rows}
    return Trace(**columns, output_tokens=np.ones(8, np.int64), **more)  # type: ignore[arg-type]


def test_stretches_keep_their_requests_and_the_gaps_within() -> None:
    """Four stretches of 7 s / 4: requests 0 1, 2 3, 4 5 and 6 7."""
    for seed in range(20):
        told = resample_blocks(trace(), 4, seed)
        tokens = told.prompt_tokens.reshape(4, 2)
        assert (tokens[:, 1] == tokens[:, 0] + 1).all()
        assert {*tokens[:, 0].tolist()} <= {10, 12, 14, 16}
        gaps = np.diff(told.arrival_ns).reshape(-1)
        assert (gaps[::2] == SECOND).all()
        assert "4 stretches of time drawn with repetition" in told.notes[-1]


def test_the_same_seed_draws_the_same_trace_and_another_seed_another() -> None:
    first, again, other = (resample_blocks(trace(), 4, seed) for seed in (1, 1, 2))
    assert (first.prompt_tokens == again.prompt_tokens).all()
    assert not np.array_equal(first.prompt_tokens, other.prompt_tokens)


def test_a_stretch_drawn_again_shares_no_prefix_with_the_first_time() -> None:
    hashed = trace(block_hashes=tuple((row,) for row in range(8)), hash_block_tokens=8)
    for seed in range(20):
        told = resample_blocks(hashed, 4, seed)
        assert told.block_hashes is not None
        assert len({*told.block_hashes}) == 8


def test_requests_that_wait_for_each_other_are_not_torn_apart() -> None:
    with pytest.raises(WorkloadError, match="cannot be cut into stretches of time"):
        resample_blocks(trace(think_ns=np.zeros(8, np.int64)), 4, 0)
