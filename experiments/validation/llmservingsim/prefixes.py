"""Which blocks of a prompt were already computed for an earlier request.

`requests.csv` counts a prompt's leading blocks that an earlier request has too; prefix caching also
needs to know which one. A trace of the same requests with block hashes says so; it may lie in the
run's folder or in a folder `traces` beside one of the folders around it. Without one, the most
recent earlier request that is long enough is taken.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

from simulator.errors import WorkloadError
from simulator.trace import Ints
from workloads import read_trace

BLOCK_TOKENS = 16
RECENT = "shared prefixes: with the most recent earlier request that is long enough (assumed)"

Hashes = tuple[tuple[int, ...], ...]


def block_hashes(folder: Path, prompts: Ints, outputs: Ints, shared: Ints) -> tuple[Hashes, str]:
    """(ids of every prompt's full blocks, how they are known).

    prompts, outputs: tokens; shared: leading blocks found in an earlier request; shape (n,).
    """
    for path in _traces_around(folder):
        if not _begins_with(path, int(prompts[0])):
            continue
        try:
            trace = read_trace(path)
        except WorkloadError:
            continue
        if trace.block_hashes is None or trace.hash_block_tokens != BLOCK_TOKENS:
            continue
        lengths = trace.prompt_tokens, trace.output_tokens
        if all(map(np.array_equal, lengths, (prompts, outputs))):
            return trace.block_hashes, f"shared prefixes: block hashes of {path.name}"
    return _by_recency(prompts, shared), RECENT


def _traces_around(folder: Path) -> list[Path]:
    folder = folder.resolve()
    places = [folder, *(parent / "traces" for parent in folder.parents[:3])]
    return [path for place in places for path in sorted(place.glob("*.jsonl*"))]


def _begins_with(path: Path, prompt_tokens: int) -> bool:
    """Whether the first request is of that length: most traces need not be read."""
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            first = json.loads(file.readline())
    except (OSError, EOFError, ValueError):
        return False
    return isinstance(first, dict) and first.get("input_length") == prompt_tokens


def _by_recency(prompts: Ints, shared: Ints) -> Hashes:
    """Ids are new, but for those leading blocks that a request shares.

    >>> _by_recency(np.array([40, 20, 33]), np.array([0, 0, 2]))
    ((0, 1), (2,), (0, 1))
    """
    rows: list[tuple[int, ...]] = []
    used = 0
    for tokens, hits in zip((prompts // BLOCK_TOKENS).tolist(), shared.tolist(), strict=True):
        long_enough = (row for row in reversed(rows) if len(row) >= hits)
        head = next(long_enough, ())[:hits]
        rows.append((*head, *range(used, used + tokens - len(head))))
        used += tokens - len(head)
    return tuple(rows)
