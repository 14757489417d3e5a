"""`Keys`: the keys of a prompt's blocks, as ranges; and those of hash ids.

Two contents have consecutive keys only if the second one follows the first: so a range is a stretch
of a prompt, and blocks that hold one are a `BlockRun`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence as Rows

from .block_run import NO_CONTENT
from .errors import ConfigError


class Keys:
    """The keys of a prompt's leading blocks, as ranges.

    firsts: first key of each range. stops: blocks up to its end, counted from the prompt's start.
    """

    __slots__ = ("firsts", "stops")

    def __init__(self, firsts: list[int], stops: list[int]) -> None:
        self.firsts = firsts
        self.stops = stops

    def __len__(self) -> int:
        return self.stops[-1] if self.stops else 0

    def head(self, blocks: int) -> Keys:
        """Those of the first so many blocks, if there are as many."""
        if blocks >= len(self):
            return self
        ranges = bisect_left(self.stops, blocks) + 1 if blocks else 0
        head = Keys(self.firsts[:ranges], self.stops[:ranges])
        if ranges:
            head.stops[-1] = blocks
        return head

    def then(self, keys: range) -> Keys:
        """Followed by these."""
        if not keys:
            return self
        return Keys([*self.firsts, keys.start], [*self.stops, len(self) + len(keys)])


NO_KEYS = Keys([], [])

FIRST_KEY = NO_CONTENT + 1


def keys_of_hashes(
    hashes: Rows[tuple[int, ...]], hash_tokens: int, block_size: int
) -> tuple[list[Keys], int]:
    """Per row the keys of the blocks that its hash ids cover, and the first key that is unused.

    An id covers several blocks, or a block several ids. It stands for its own tokens behind those
    of the ids before it, whether or not the trace's ids are chained themselves.

    Raises:
        ConfigError: the granularity of the ids and the block size do not divide each other.
    """
    larger, smaller = sorted((hash_tokens, block_size), reverse=True)
    if larger % smaller:
        raise ConfigError(
            f"block_size {block_size} and the trace's {hash_tokens}-token hash blocks do "
            "not divide each other: choose a block_size that divides them"
        )
    blocks = max(1, hash_tokens // block_size)
    ids_each = max(1, block_size // hash_tokens)
    known: dict[tuple[int, object], int] = {}
    used = FIRST_KEY
    rows: list[Keys] = []
    for ids in hashes:
        parts: Rows[object] = ids
        if ids_each > 1:
            whole = len(ids) - len(ids) % ids_each
            parts = [ids[i : i + ids_each] for i in range(0, whole, ids_each)]
        firsts: list[int] = []
        stops: list[int] = []
        stop, end = 0, NO_CONTENT
        for part in parts:
            place = (end, part)
            key = known.get(place)
            if key is None:
                key = used if used == end else used + 1
                known[place] = key
                used = key + blocks
            stop += blocks
            if key == end:
                stops[-1] = stop
            else:
                firsts.append(key)
                stops.append(stop)
            end = key + blocks
        rows.append(Keys(firsts, stops))
    return rows, used + 1
