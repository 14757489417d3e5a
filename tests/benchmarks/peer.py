"""NVIDIA DynoSim, the peer of the speed comparison, if it is installed.

    python -m venv PEER
    PEER/bin/pip install ai-dynamo-runtime==1.4.1 msgspec numpy pandas pyyaml pyzmq zstandard \
        "transformers<5" aiconfigurator-core
    PEER/bin/pip install --no-deps ai-dynamo==1.4.1
    RUNWAY_PEER_PYTHON=PEER/bin/python make bench
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, islice, repeat
from pathlib import Path

from simulator import Trace
from simulator.units import NS_PER_MS

from .loads import (
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    REQUESTS,
    Load,
)
from .prices import BLOCK_SIZE, BLOCKS
from .processes import run

PYTHON = os.environ.get("RUNWAY_PEER_PYTHON")
HASH_TOKENS = 512


@dataclass(frozen=True, slots=True)
class PeerRun:
    """wall_s: what it prints as its wall time; mean TTFT and TPOT of its requests."""

    wall_s: float
    ttft_ms: float
    tpot_ms: float


def replay(load: Load, *, prefix_caching: bool) -> PeerRun:
    """One run of the peer on a load, in a process of its own.

    Raises:
        RuntimeError: it failed, or printed no wall time.
    """
    limits = {
        "block_size": BLOCK_SIZE,
        "num_gpu_blocks": BLOCKS,
        "max_num_seqs": MAX_NUM_SEQS,
        "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
        "enable_prefix_caching": prefix_caching,
    }
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [str(PYTHON), "-m", "dynamo.replay", *_workload(load, Path(folder))]
        command += ["--num-workers", "1", "--replay-mode", "offline"]
        command += ["--extra-engine-args", json.dumps(limits), "--report-json", str(report)]
        printed = run(command, cwd=folder).output
        means = json.loads(report.read_text(encoding="utf-8"))
    found = re.search(r"Wall Time \(ms\): ([\d,.]+)", printed)
    if found is None:
        raise RuntimeError(f"{' '.join(command)} printed no wall time:\n{printed[-2000:]}")
    wall_s = float(found[1].replace(",", "")) / 1e3
    return PeerRun(wall_s, means["mean_ttft_ms"], means["mean_tpot_ms"])


def _workload(load: Load, folder: Path) -> list[str]:
    if isinstance(load.source, Path):
        return [str(write_mooncake(load.trace(), folder / "trace.jsonl"))]
    return [
        *("--input-tokens", str(PROMPT_TOKENS), "--output-tokens", str(OUTPUT_TOKENS)),
        *("--request-count", str(REQUESTS), "--request-rate", str(load.source)),
    ]


def write_mooncake(trace: Trace, path: Path) -> Path:
    """The trace in the Mooncake format; without hash ids no prefix is ever shared."""
    unused = count()
    hashes: Iterable[tuple[int, ...] | None] = trace.block_hashes or repeat(None)
    assert trace.hash_block_tokens in (None, HASH_TOKENS), trace.hash_block_tokens
    columns = (
        trace.arrival_ns.tolist(),
        trace.prompt_tokens.tolist(),
        trace.output_tokens.tolist(),
    )
    with path.open("w", encoding="utf-8") as lines:
        for arrival_ns, prompt_tokens, output_tokens, ids in zip(*columns, hashes, strict=False):
            row = {
                "timestamp": arrival_ns / NS_PER_MS,
                "input_length": prompt_tokens,
                "output_length": output_tokens,
                "hash_ids": ids or list(islice(unused, -(-prompt_tokens // HASH_TOKENS))),
            }
            lines.write(json.dumps(row) + "\n")
    return path
