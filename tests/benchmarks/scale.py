"""A million requests in one process: generated, served, summarised."""

from __future__ import annotations

import json
import sys

from costmodels import load_cost_model
from simulator import ChunkedPrefillScheduler, KVCache, simulate
from simulator.metrics import summarize
from workloads import generate

from .loads import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, OUTPUT_TOKENS, PROMPT_TOKENS
from .processes import run
from .report import write, write_row

REQUESTS, RATE = 1_000_000, 8.0


def measure(requests: int = REQUESTS) -> None:
    """Write wall seconds and peak memory of the whole process, and of the event loop in it."""
    write(f"{requests:,} requests at {RATE:g} req/s, bundled cost model (limits: 40 s, 1.5 GB)")
    write_row(["", "wall s", "CPU s", "peak GB", "loop s", "steps"])
    finished = run([sys.executable, "-m", "tests.benchmarks.scale", str(requests)])
    loop = json.loads(finished.output)
    cells = [f"{finished.wall_s:.1f}", f"{finished.cpu_s:.1f}", f"{finished.peak_gb:.2f}"]
    write_row(["process", *cells, f"{loop['wall_s']:.1f}", loop["steps"]])


def _serve(requests: int) -> dict[str, float]:
    """The whole job, for the process that `measure` starts."""
    prompt, output = f"fixed:{PROMPT_TOKENS}", f"fixed:{OUTPUT_TOKENS}"
    trace = generate(requests=requests, rate=RATE, prompt=prompt, output=output)
    model = load_cost_model()
    kv = model.table.kv
    assert kv is not None, "the bundled default table has a KV capacity"
    scheduler = ChunkedPrefillScheduler(MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS)
    result = simulate(trace, scheduler, model, KVCache(kv.blocks, kv.block_size))
    summary = summarize(result)
    assert summary["finished"] == requests, summary["finished"]
    return {"wall_s": result.wall_s, "steps": len(result.steps)}


if __name__ == "__main__":
    write(json.dumps(_serve(int(sys.argv[1]))))
