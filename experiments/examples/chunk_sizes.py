"""What a chunk size does: the bundled workload at four sizes, from Python.

The running streams gain smoothness (ITL), the arriving prompts lose time (TTFT).
"""

# ruff: noqa: T201 - a program that prints

from experiments.config import RunConfig
from experiments.run import run_config


def main() -> None:
    """Print one line per chunk size."""
    print(f"{'chunk size':>10} {'TTFT p50':>10} {'ITL p99':>10} {'tokens/s':>10}")
    for chunk_size in (256, 512, 1024, None):
        config = RunConfig(workload="bundled", chunk_size=chunk_size, max_num_batched_tokens=8192)
        summary = run_config(config).summary
        row = (summary["ttft_ms"]["p50"], summary["itl_ms"]["p99"], summary["output_throughput"])
        print(f"{chunk_size or 'none':>10} {row[0]:10.1f} {row[1]:10.1f} {row[2]:10.1f}")


if __name__ == "__main__":
    main()
