"""One server under constant concurrency, simulated."""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np

from costmodels import ExtrapolationWarning, load_cost_model
from costmodels.loading import LoadedCostModel
from simulator import KVCache, Scheduler, Trace, simulate
from simulator.errors import ConfigError
from simulator.schedulers import SglangScheduler, VllmScheduler
from simulator.timings import tpot_ms, ttft_ns
from simulator.units import NS_PER_MS

from .servers import LENGTH_RATIO, Server

TOKEN_BUDGET = 8192
REQUESTS_PER_USER = 5
SEED = 0


@lru_cache(maxsize=64)
def _prices(
    system: str, backend: str, model: str, tp: int, dtype: str, kv_dtype: str
) -> LoadedCostModel:
    name = f"aiconfigurator:{system}/{backend}"
    return load_cost_model(name, model=model, tp=tp, dtype=dtype, kv_dtype=kv_dtype)


def predicted_ms(server: Server) -> tuple[float, float]:
    """Mean TTFT and TPOT, ms."""
    prices = _prices(
        *(server.system, server.backend, server.model),
        *(server.tp, server.dtype, server.kv_dtype),
    )
    if prices.table.kv is None:
        raise ConfigError(f"{server.model} does not fit {server.tp} x {server.system}")
    policy: Scheduler = VllmScheduler(TOKEN_BUDGET, max(server.users, 1))
    if server.backend == "sglang":
        policy = SglangScheduler(
            TOKEN_BUDGET, max(server.users, 1), enable_mixed_chunk=server.mixes_prompts
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        cache = KVCache(prices.table.kv.blocks, prices.table.kv.block_size)
        result = simulate(load(server), policy, prices, cache, users=server.users)
    rows = np.arange(len(result.trace))
    return float(ttft_ns(result, rows).mean() / NS_PER_MS), float(tpot_ms(result, rows).mean())


def load(server: Server) -> Trace:
    """Five requests for each user, all there at the start."""
    random = np.random.Generator(np.random.PCG64(SEED))
    requests, ratio = REQUESTS_PER_USER * server.users, LENGTH_RATIO[server.who]
    prompts, outputs = (
        random.integers(max(int(ratio * length), 1), length, requests, endpoint=True)
        for length in (server.isl, server.osl)
    )
    outputs = np.maximum(outputs, 2)
    return Trace(
        arrival_ns=np.zeros(requests, np.int64),
        prompt_tokens=prompts,
        output_tokens=outputs,
        max_tokens=outputs,
    )
