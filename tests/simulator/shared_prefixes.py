"""Traces whose requests share content, caches that remember it, and the policies to serve them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from simulator import Trace
from simulator.kv_cache import KVCache
from simulator.prefix_cache import PrefixCache
from simulator.prefix_keys import PrefixKeys
from tests.strategies import traces


class WatchedPrefixCache(PrefixCache):
    """Remembers the cache of the last run, so that a test sees what it holds at the end."""

    last: KVCache

    def prepared(self, trace: Trace, lag: int) -> KVCache:
        """A fresh cache for a run."""
        self.last = super().prepared(trace, lag)
        return self.last


class NamingPrefixCache(PrefixCache):
    """Tells blocks apart even where it could count."""

    def prepared(self, trace: Trace, lag: int) -> KVCache:
        """A fresh cache for a run."""
        return self.naming(PrefixKeys(trace, self.block_size), lag)


@st.composite
def sharing_traces(draw: st.DrawFn, max_requests: int = 12) -> Trace:
    """Groups with a common prefix, conversations whose turns may overlap, or hash ids."""
    trace: Trace = draw(traces(max_requests))
    rows = len(trace)
    kind = draw(st.sampled_from(["groups", "turns", "both", "hashes"]))
    columns: dict[str, object] = {}
    if kind in ("groups", "both"):
        lengths = draw(st.lists(st.integers(0, 40), min_size=2, max_size=2))
        groups = draw(st.lists(st.integers(-1, 1), min_size=rows, max_size=rows))
        columns["prefix_group"] = tuple(None if g < 0 else f"g{g}" for g in groups)
        columns["prefix_tokens"] = np.array([0 if g < 0 else lengths[g] for g in groups])
    if kind in ("turns", "both"):
        columns |= _turns(draw, trace)
    if kind == "hashes":
        chains = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
        needed = -(-trace.prompt_tokens // 4)
        columns["hash_block_tokens"] = 4
        columns["block_hashes"] = tuple(
            tuple(100 * chain + place for place in range(int(count)))
            for chain, count in zip(chains, needed, strict=True)
        )
    return trace.changed("shares prefixes", **columns)


def _turns(draw: st.DrawFn, trace: Trace) -> dict[str, object]:
    """Some rows continue an earlier one: its prompt and output, and then their own."""
    prompts, parents = trace.prompt_tokens.copy(), [None] * len(trace)
    for row in range(1, len(trace)):
        parent = draw(st.integers(-1, row - 1))
        if parent >= 0 and prompts[parent] < 60:
            parents[row] = f"r{parent}"
            prompts[row] += prompts[parent] + trace.output_tokens[parent]
    ids = tuple(f"r{row}" for row in range(len(trace)))
    return {"prompt_tokens": prompts, "parent": tuple(parents), "ids": ids}


@st.composite
def prefix_caches(draw: st.DrawFn, trace: Trace) -> KVCache:
    """From too small for the longest request to room for a few of them."""
    block_size = draw(st.sampled_from([1, 2, 4, 8, 16]))
    longest = int((trace.prompt_tokens + trace.output_tokens).max())
    needed = -(-longest // block_size)
    blocks = draw(st.integers(max(1, needed - 2), 3 * needed))
    return WatchedPrefixCache(blocks, block_size, draw(st.sampled_from([0.0, 0.0, 0.03, 0.2])))
