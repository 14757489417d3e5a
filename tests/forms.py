"""One line per run of many kinds, the same whether the event loop is compiled or interpreted.

RUNWAY_INTERPRETED=1 python -m tests.forms
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator

import numpy as np

from costmodels import LinearCostModel, load_cost_model
from simulator import SCHEDULERS, KVCache, PrefixCache, Result, compiled, simulate
from workloads import generate

BLOCK_SIZE = 16


def lines() -> Iterator[str]:
    """Every scheduler, sync and async, counted and hashed cache; memory is short, so some evict."""
    trace = generate(requests=150, rate=6, prompt="uniform:20:3000", output="uniform:1:200", seed=7)
    linear = LinearCostModel(step_ms=6, decode_ms_per_context_token=2e-4, prefill_ms_per_token=0.02)
    for name, policy in SCHEDULERS.items():
        for cache in (KVCache(700, BLOCK_SIZE), PrefixCache(700, BLOCK_SIZE)):
            for ahead in (False, True):
                for prices in (linear, load_cost_model("lesson")):
                    result = simulate(trace, policy(), prices, cache, async_scheduling=ahead)
                    kind = f"{name} {type(cache).__name__} {ahead} {type(prices).__name__}"
                    yield f"{kind}: {digest(result)}"


def digest(result: Result) -> str:
    """A hash of when everything happened."""
    log, steps = result.requests, result.steps
    columns = (log.first_token_ns, log.finish_ns, log.preemptions, steps.end_ns, steps.used_blocks)
    digested = hashlib.sha256()
    for column in columns:
        digested.update(np.ascontiguousarray(column).tobytes())
    return digested.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(f"interpreted because {compiled.INTERPRETED_BECAUSE}\n")
    sys.stdout.writelines(f"{line}\n" for line in lines())
