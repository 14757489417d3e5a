"""Same requests, same device, five ways to schedule: who waits?

The bundled workload is people chatting (short prompts) with documents (4k to 32k tokens) between.
"""

# ruff: noqa: T201 - a program that prints

from costmodels import load_cost_model
from simulator import ChunkedPrefillScheduler, ContinuousScheduler, KVCache, simulate
from simulator.metrics import summarize
from workloads import bundled_trace

prices = load_cost_model("b300-qwen3-32b-tp2")
cache = KVCache(prices.table.kv.blocks, prices.table.kv.block_size)
policies = {
    "whole prompts first": ContinuousScheduler(max_num_batched_tokens=8192),
    "fused, no chunk size": ChunkedPrefillScheduler(max_num_batched_tokens=8192),
    "fused, chunks of 2,048": ChunkedPrefillScheduler(8192, chunk_size=2048),
    "fused, chunks of 512": ChunkedPrefillScheduler(8192, chunk_size=512),
    "fused, token budget 512": ChunkedPrefillScheduler(max_num_batched_tokens=512),
}

print("                          TTFT chat      TTFT documents    gap between tokens   output")
print("ms                        p50     p99    p50      p99      p99       worst      tokens/s")
for name, policy in policies.items():
    told = summarize(simulate(bundled_trace(), policy, prices, cache))
    chat, documents = told["fairness"]["clients"]
    print(
        f"{name:23}",
        f"{chat['ttft_ms']['p50']:6.0f}  {chat['ttft_ms']['p99']:6.0f}",
        f"{documents['ttft_ms']['p50']:6.0f}   {documents['ttft_ms']['p99']:6.0f}",
        f"{told['itl_ms']['p99']:8.0f}    {told['itl_ms']['max']:8.0f}",
        f"{told['output_throughput']:12,.0f}",
    )
