"""Which steps are timed: a grid to build the table from, and random steps that only judge it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

MIXED_CHUNK = 16
"""The chunk that is timed beside decodes: what mixing adds is paid once, whatever the chunk."""
EVERY_BATCH_TO = 16
TILE = 128
FINE_TOKENS = 512
HELD_OUT_SHARE = 0.15
HOST_SHARE = 0.25


class Shape(NamedTuple):
    """A step: one prompt chunk after `past` cached tokens (or none: 0, 0), and decodes, each with
    `decode_context` tokens in the cache.
    """

    chunk: int
    past: int
    decode_seqs: int
    decode_context: int

    @property
    def tokens(self) -> int:
        """Rows of its GEMMs."""
        return self.chunk + self.decode_seqs

    @property
    def sequences(self) -> int:
        """Rows that get logits."""
        return self.decode_seqs + (self.chunk > 0)

    @property
    def width(self) -> int:
        """Tokens a cache slot must hold after the step."""
        decoding = self.decode_context + 1 if self.decode_seqs else 0
        return max(self.past + self.chunk, decoding)


class Limits(NamedTuple):
    """The largest step to time. fine: as dense as a GPU's tiles need, else as a CPU needs."""

    max_tokens: int
    max_seqs: int
    max_context: int
    cache_tokens: int
    fine: bool = False

    def hold(self, shape: Shape) -> bool:
        """Does the step fit?"""
        return (
            shape.tokens <= self.max_tokens
            and shape.decode_seqs <= self.max_seqs
            and shape.width <= self.max_context
            and shape.sequences * shape.width <= self.cache_tokens
        )


def grid_of(limits: Limits) -> list[Shape]:
    """The steps that a table is built from, ascending.

    >>> len(grid_of(Limits(512, 8, 1024, 8192)))
    73
    """
    longest = limits.max_context - 1
    tokens = token_counts(limits)
    # A row of the attention table has a past, or none of its points says what a past costs.
    rows = [n for n in tokens if n in (1, tokens[-1]) or (n >= MIXED_CHUNK and n & (n - 1) == 0)]
    contexts = [c for c in (16, 256, 1024, 4096, 16384, 65536) if c < longest] + [longest]
    pasts = [c for c in contexts if c >= 256 or c == longest]
    seqs = token_ladder(limits.max_seqs)
    shapes = {Shape(n, 0, 0, 0) for n in tokens}
    shapes |= {Shape(n, min(c, longest + 1 - n), 0, 0) for n in rows for c in pasts}
    shapes |= {Shape(0, 0, n, c) for n in seqs for c in contexts}
    # GEMMs of few rows go up and down from one row to the next: every small batch is timed.
    small = range(1, min(limits.max_seqs, EVERY_BATCH_TO) + 1)
    shapes |= {Shape(0, 0, n, contexts[len(contexts) // 2]) for n in small}
    beside = (seqs[0], seqs[len(seqs) // 2], seqs[-1])
    ends = (contexts[0], contexts[len(contexts) // 2], contexts[-1])
    shapes |= {Shape(MIXED_CHUNK, 0, n, c) for n in beside for c in ends}
    return sorted(shape for shape in shapes if limits.hold(shape) and shape.past >= 0)


def token_counts(limits: Limits) -> list[int]:
    """Token counts of prompt chunks: round ones twice per doubling, and an odd one between each.

    Kernels like round counts better, and most steps are not round. If fine, also where a tile may
    begin.

    >>> token_counts(Limits(100, 8, 1024, 8192))
    [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 21, 24, 29, 32, 41, 48, 57, 64, 81, 96, 100]
    """
    top = min(limits.max_tokens, limits.max_context)
    counts = {*token_ladder(top)}
    counts |= {(low + high) // 2 | 1 for low, high in pairwise(sorted(counts)) if high < top}
    if limits.fine:
        counts |= {*range(1, 17), *range(24, 129, 8), *range(144, FINE_TOKENS + 1, 16)}
        counts |= {edge + 1 for edge in range(TILE, FINE_TOKENS + 1, TILE)}
        middle = (FINE_TOKENS * 1.25**i for i in range(1, 40))
        edges = {TILE * round(count / TILE) for count in middle}
        counts |= edges | {edge + 1 for edge in edges}
    return sorted(count for count in counts if count <= top)


def held_out_of(limits: Limits, grid: list[Shape], seed: int) -> list[Shape]:
    """Random steps beside the grid, so many that they are 15 % of all: decodes, prompts, mixed.

    Log-uniform within what the grid spans; never a step of the grid.
    """
    rng = np.random.default_rng(seed)
    wanted = math.ceil(len(grid) * HELD_OUT_SHARE / (1 - HELD_OUT_SHARE))
    found: list[Shape] = []
    while len(found) < wanted:
        decodes, prompts = (True, False), (False, True)
        has_decodes, has_prompt = (decodes, prompts, (True, True))[len(found) % 3]
        seqs = _between(rng, 1, limits.max_seqs) if has_decodes else 0
        context = _between(rng, 16, limits.max_context - 1) if has_decodes else 0
        chunk = _between(rng, 1, min(limits.max_tokens, limits.max_context)) if has_prompt else 0
        past = _between(rng, 1, limits.max_context) - 1 if has_prompt else 0
        shape = Shape(chunk, past, seqs, context)
        if limits.hold(shape) and shape not in grid and shape not in found:
            found.append(shape)
    return found


def host_steps(grid: list[Shape], seed: int) -> list[Shape]:
    """A quarter of the grid, at random: timed end to end too, for the host's time per step."""
    order = np.random.default_rng(seed + 1).permutation(len(grid))
    return sorted(grid[i] for i in order[: math.ceil(HOST_SHARE * len(grid))].tolist())


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def token_ladder(top: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12 … top: every power of two and its half more.

    >>> token_ladder(10)
    [1, 2, 3, 4, 6, 8, 10]
    """
    powers = (1 << i for i in range(top.bit_length()))
    steps = {count for power in powers for count in (power, power * 3 // 2)}
    return sorted({count for count in steps if count < top} | {top})
