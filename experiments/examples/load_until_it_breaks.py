"""Goodput against load: past the knee the engine is as busy as before and serves nobody well."""

# ruff: noqa: T201 - a program that prints

from costmodels import load_cost_model
from simulator import ChunkedPrefillScheduler, KVCache, simulate
from simulator.metrics import summarize
from simulator.timings import Slo
from workloads import at_rate, bundled_trace

prices = load_cost_model("b300-qwen3-32b-tp2")
policy = ChunkedPrefillScheduler(max_num_batched_tokens=2048, chunk_size=512)
limits = Slo(ttft_ms=1000, tpot_ms=50)

print("requests/s  output tokens/s  TTFT p99  TPOT p99  goodput  saturated")
for rate in (4, 8, 12, 16):
    trace = at_rate(bundled_trace(), rate)
    told = summarize(simulate(trace, policy, prices, KVCache(105_925)), slo=limits)
    print(
        f"{rate:10}  {told['output_throughput']:15,.0f}  {told['ttft_ms']['p99']:5,.0f} ms",
        f"{told['tpot_ms']['p99']:6.0f} ms  {told['goodput_fraction']:7.0%}",
        f" {'yes' if told['saturated'] else 'no'}",
    )
