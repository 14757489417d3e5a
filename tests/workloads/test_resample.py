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


def test_a_session_goes_whole_with_the_stretch_of_its_first_turn() -> None:
    """Row 1 starts a session that goes on with rows 4 and 7; all others are on their own.

    Stretches: 0 1 4 7, 2 3, 5 and 6. Later turns keep their pause and their distance from the
    start, and wait for the turn before them of the same draw.
    """
    parents = (None, None, None, None, "1", None, None, "4")
    think_ns = np.arange(8) * SECOND
    seen = 0
    for seed in range(20):
        told = resample_blocks(trace(parent=parents, think_ns=think_ns), 4, seed)
        assert told.parent is not None
        assert told.think_ns is not None
        row_of = told.prompt_tokens - 10
        assert (told.think_ns == row_of * SECOND).all()
        for new, old in enumerate(row_of.tolist()):
            before = told.parent[new]
            assert (before is None) == (parents[old] is None)
            if before is not None:
                seen += 1
                assert row_of[int(before)] == int(parents[old] or 0)
                assert told.arrival_ns[new] - told.arrival_ns[int(before)] == 3 * SECOND
        counts = np.bincount(row_of, minlength=8)
        assert counts[0] == counts[1] == counts[4] == counts[7]
        assert counts[2] == counts[3]
        assert len({told.id_of(row) for row in range(len(told))}) == len(told)
    assert seen


def test_predictions_and_declared_limits_go_along() -> None:
    told = resample_blocks(
        trace(predicted_output_tokens=np.arange(8) + 1, max_tokens=np.arange(8) + 2), 4, 0
    )
    assert told.predicted_output_tokens is not None
    assert told.max_tokens is not None
    assert (told.predicted_output_tokens == told.prompt_tokens - 9).all()
    assert (told.max_tokens == told.prompt_tokens - 8).all()


def test_requests_all_at_once_have_no_stretches() -> None:
    at_once = Trace(np.zeros(3, np.int64), np.ones(3, np.int64), np.ones(3, np.int64))
    with pytest.raises(WorkloadError, match="no time to cut into stretches"):
        resample_blocks(at_once, 4, 0)
