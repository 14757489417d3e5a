"""The public traces, when they are on this machine (U09, U10)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulator.trace import Trace
from workloads import read_trace, spread_ties, write_trace

Shared = Callable[[str], Path]
Identical = Callable[[Trace, Trace], None]

ROOT = Path(__file__).resolve().parents[2]


def test_azure_code_trace(shared_trace: Shared) -> None:
    trace = read_trace(shared_trace("azure_llm_2023_code.csv.gz"))
    assert len(trace) == 8_819
    assert trace.arrival_ns[:2].tolist() == [0, 52_000_000]
    assert trace.prompt_tokens[:2].tolist() == [4808, 3180]
    assert trace.output_tokens[:2].tolist() == [10, 8]


def test_azure_conversation_trace(shared_trace: Shared) -> None:
    trace = read_trace(shared_trace("azure_llm_2023_conv.csv.gz"))
    assert len(trace) == trace.rows_in == 19_366
    assert trace.arrival_ns[1] == 4_314_579_000
    assert trace.arrival_ns[-1] / 1e9 == pytest.approx(3501.7, abs=0.1)
    assert trace.prompt_tokens.mean() == pytest.approx(1154.7, abs=0.1)
    assert not trace.dropped


def test_mooncake_conversation_trace(shared_trace: Shared) -> None:
    trace = read_trace(shared_trace("mooncake_fast25_conversation.jsonl.gz"))
    assert len(trace) == 12_031
    assert trace.arrival_ns[-1] == 3_536_999_000_000
    assert len(np.unique(trace.arrival_ns)) == 1_180
    assert trace.prompt_tokens.max() == 126_195
    assert trace.hash_block_tokens == 512
    assert trace.block_hashes is not None
    assert len({block for row in trace.block_hashes for block in row}) == 182_790


def test_mooncake_ties_spread_to_a_poisson_like_load(shared_trace: Shared) -> None:
    """Stamped every 3 s the gap CV is 3.03, an artefact; spread it is near 1."""
    trace = read_trace(shared_trace("mooncake_fast25_conversation.jsonl.gz"))
    gaps = np.diff(spread_ties(trace, seed=1).arrival_ns)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    "name", ["sharegpt_llama31_300_sps10.jsonl.gz", "sharegpt_qwen3_32b_300_sps10.jsonl.gz"]
)
def test_sharegpt_traces_hash_full_blocks_of_16(shared_trace: Shared, name: str) -> None:
    trace = read_trace(shared_trace(name))
    assert len(trace) == 300
    assert trace.hash_block_tokens == 16


def test_arxiv_lengths(shared_trace: Shared) -> None:
    trace = read_trace(shared_trace("arxiv_summarization_llama2_lengths.csv.gz"))
    assert len(trace) == 28_257
    assert trace.arrival_ns.max() == 0


@pytest.mark.parametrize("suffix", [".csv.gz", ".jsonl.gz", ".parquet"])
def test_a_real_trace_survives_our_own_format(
    shared_trace: Shared, tmp_path: Path, identical: Identical, suffix: str
) -> None:
    trace = read_trace(shared_trace("mooncake_fast25_synthetic.jsonl.gz"))
    write_trace(trace, tmp_path / f"t{suffix}")
    identical(read_trace(tmp_path / f"t{suffix}"), trace)


def test_reading_csv_loads_neither_pandas_nor_pyarrow() -> None:
    program = (
        "import sys; from workloads import bundled_trace; bundled_trace()\n"
        "print({'pandas', 'pyarrow', 'matplotlib', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "set()\n"
