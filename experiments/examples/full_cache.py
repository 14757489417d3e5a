"""What a small KV cache does: admission waits, then sequences are preempted and recomputed."""

# ruff: noqa: T201 - a program that prints

from costmodels import load_cost_model
from simulator import ChunkedPrefillScheduler, KVCache, simulate
from simulator.metrics import summarize
from workloads import generate

prices = load_cost_model("b300-qwen3-32b-tp2")
trace = generate(requests=300, rate=12, prompt="uniform:200:800", output="fixed:400", seed=1)

print("KV blocks  preemptions  recomputed  queueing p99  worst gap  requests/s")
for blocks in (6000, 2500, 2000, 1500):
    told = summarize(simulate(trace, ChunkedPrefillScheduler(), prices, KVCache(blocks)))
    print(
        f"{blocks:9,}  {told['preemptions_total']:11}  {told['recompute_tax']:9.1%}",
        f"{told['queue_ms']['p99']:10,.0f} ms  {told['itl_ms']['max']:6,.0f} ms",
        f"{told['request_throughput']:10.2f}",
    )
