"""Block hashes: ids of the prompt's consecutive prefix blocks, and how many tokens a block has."""

from __future__ import annotations

import numpy as np

from simulator.errors import WorkloadError

from .cells import BadCell, Cells, Ints, cell_text

Hashes = list[tuple[int, ...]]

BLOCK_SIZES = (512, 16)
"""Tried in this order: Mooncake's traces use 512, vLLM's prefix cache 16."""


def read_hashes(cells: Cells) -> tuple[Hashes, list[BadCell]]:
    """One tuple of ids a row: a JSON list, or ids separated by spaces; empty when there is none.

    >>> read_hashes(["7 8", [1, 2], None])[0]
    [(7, 8), (1, 2), ()]
    """
    values: Hashes = []
    bad = []
    for row, cell in enumerate(cells):
        ids = _ids(cell)
        if ids is None:
            bad.append(BadCell(row, cell_text(cell), "is not a list of whole numbers"))
        values.append(ids or ())
    return values, bad


def hash_block_size(prompt_tokens: Ints, hashes: Hashes, lines: Ints, path: str) -> int:
    """Tokens per block, inferred from how many ids each prompt has.

    A prompt of p tokens has floor(p/size) ids, or ceil(p/size) if the last, partly filled
    block has one too.

    >>> hash_block_size(np.array([1030]), [(1, 2, 3)], np.array([1]), "t.jsonl")
    512

    Raises:
        WorkloadError: no block size fits every row.
    """
    rows = np.array([len(ids) > 0 for ids in hashes])
    counts = np.array([len(ids) for ids in hashes])[rows]
    prompts = prompt_tokens[rows]
    for size in BLOCK_SIZES:
        if bool(((counts == prompts // size) | (counts == -(-prompts // size))).all()):
            return size
    fits = (counts == prompts // 16) | (counts == -(-prompts // 16))
    odd = int(np.argmin(fits))
    raise WorkloadError(
        f"{path}, line {int(lines[rows][odd])}: {counts[odd]} block hashes for a prompt of "
        f"{prompts[odd]} tokens fit neither 512 nor 16 tokens a block: give hash_block_tokens"
    )


def check_hashes(prompt_tokens: Ints, hashes: Hashes, size: int, lines: Ints, path: str) -> None:
    """No row may have more blocks than its prompt fills.

    Raises:
        WorkloadError: naming the first row that has.
    """
    counts = np.array([len(ids) for ids in hashes])
    over = counts > -(-prompt_tokens // size)
    if over.any():
        row = int(np.argmax(over))
        raise WorkloadError(
            f"{path}, line {int(lines[row])}: {counts[row]} block hashes of {size} tokens exceed a "
            f"prompt of {prompt_tokens[row]} tokens: correct hash_block_tokens"
        )


def _ids(cell: object) -> tuple[int, ...] | None:
    if cell is None or cell == "":
        return ()
    try:
        ids = tuple(map(int, cell.split())) if isinstance(cell, str) else cell
    except ValueError:
        return None
    if isinstance(ids, list | tuple) and set(map(type, ids)) <= {int}:
        return tuple(ids)
    return None
