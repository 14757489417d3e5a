"""Requests of a log, served again by the simulator: the inner half of simulation-in-the-loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator import ClientDelay, CostModel, KVCache, State, Trace, simulate
from simulator.errors import ConfigError
from simulator.prefix_cache import PrefixCache
from simulator.schedulers import VllmScheduler
from simulator.timings import e2el_ns, ttft_ns
from simulator.units import NS_PER_MS, NS_PER_S

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Serving:
    """How the engine that made the log was set up, under vLLM's names.

    kv_blocks: usable ones. max_concurrency: requests that the client holds in flight, at most.
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    kv_blocks: int
    block_size: int = 16
    async_scheduling: bool = True
    enable_prefix_caching: bool = True
    max_concurrency: int | None = None


class Served(NamedTuple):
    """Times of every request on the client's clock, shape (n,), and when the last one ended."""

    ttft_ms: Floats
    tpot_ms: Floats
    e2e_ms: Floats
    makespan_s: float


def serve(trace: Trace, model: CostModel, serving: Serving, delay: ClientDelay) -> Served:
    """Simulate the requests through vLLM's scheduler.

    Raises:
        ConfigError: the KV cache could not hold one of them.
    """
    cache = PrefixCache if serving.enable_prefix_caching else KVCache
    result = simulate(
        trace,
        VllmScheduler(serving.max_num_batched_tokens, serving.max_num_seqs),
        model,
        cache(serving.kv_blocks, serving.block_size),
        max_concurrency=serving.max_concurrency,
        async_scheduling=serving.async_scheduling,
        client_delay=delay,
    )
    unserved = np.flatnonzero(result.requests.state != State.FINISHED)
    if len(unserved):
        row = int(unserved[0])
        tokens = int(trace.prompt_tokens[row] + trace.output_tokens[row])
        raise ConfigError(
            f"request {row + 1} of the log has {tokens} tokens, and kv_blocks {serving.kv_blocks} "
            f"of {serving.block_size} hold fewer: the engine that served it had more"
        )
    rows = np.arange(len(trace))
    ttft_ms, e2e_ms = (of(result, rows) / NS_PER_MS for of in (ttft_ns, e2el_ns))
    gaps = np.maximum(trace.output_tokens - 1, 1)
    last_ns = int(result.requests.finish_ns.max()) + delay.response_ns
    return Served(ttft_ms, (e2e_ms - ttft_ms) / gaps, e2e_ms, last_ns / NS_PER_S)
