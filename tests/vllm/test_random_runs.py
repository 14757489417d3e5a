"""Random cases as whole runs: leaps, the slow path and promises change nothing."""

from typing import Any

import numpy as np
import pytest

from simulator import KVCache, Result, Trace, simulate
from simulator.prefix_cache import PrefixCache
from simulator.schedulers import VllmScheduler
from simulator.units import NS_PER_MS
from tests.simulator.facts import assert_same
from tests.strategies import AffineCostModel
from tests.vllm.random_cases import random_case


def run(case: dict[str, Any], step_ms: int, **options: Any) -> Result:
    config, requests = case["config"], case["requests"]

    def ints(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    trace = Trace.sorted(
        arrival_ns=ints([r["arrival_step"] * step_ms * NS_PER_MS for r in requests]),
        prompt_tokens=ints([r["prompt_len"] for r in requests]),
        output_tokens=ints([r["output_len"] for r in requests]),
        ids=tuple(r["id"] for r in requests),
        priority=ints([r.get("priority", 0) for r in requests]),
        parent=tuple(r.get("continues") for r in requests),
        prefix_group=tuple(r.get("prefix", {}).get("group") for r in requests),
        prefix_tokens=ints([r.get("prefix", {}).get("len", 0) for r in requests]),
    )
    scheduler = VllmScheduler(
        config["max_num_batched_tokens"],
        config["max_num_seqs"],
        long_prefill_token_threshold=config["long_prefill_token_threshold"],
        enable_chunked_prefill=config["enable_chunked_prefill"],
        scheduler_reserve_full_isl=config["scheduler_reserve_full_isl"],
        policy=config["policy"],
    )
    kind = PrefixCache if config["enable_prefix_caching"] else KVCache
    kv_cache = kind(config["num_gpu_blocks"] - 1, config["block_size"], config["watermark"])
    return simulate(
        trace,
        scheduler,
        AffineCostModel(needs_longest_context=True),
        kv_cache,
        async_scheduling=config["async_scheduling"],
        **options,
    )


@pytest.mark.parametrize("seed", range(40))
def test_how_a_run_is_computed_changes_nothing(seed: int) -> None:
    case, step_ms = random_case(5_000_000 + seed), (4, 9, 20)[seed % 3]
    stepping = run(case, step_ms, leap=False)
    for options in ({}, {"leap": 3}, {"slow_path": True}, {"check_promises": True}):
        assert_same(run(case, step_ms, **options), stepping)
