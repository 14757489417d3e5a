"""`BlockStore`: which KV block holds what, who can still find it, and which one is taken next.

Source: vLLM 0.33 `v1/core/block_pool.py`: free blocks without content are taken first, then the
least recently used; a free block keeps its content, and can be found, until it is taken. Two blocks
may hold the same content (twins): the first that has it is found.

All in whole arrays: a call costs a few array operations, however many blocks it is about.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .prefix_keys import NO_CONTENT, Keys

Blocks = NDArray[np.int64]
NOBODY = -1


class BlockStore:
    """Blocks 0 ... blocks - 1, all free and without content at first.

    refs: holders of each block. changes: counts what may change the answer of `find`.
    """

    __slots__ = (
        "_bare",
        "_bare_top",
        "_block_of",
        "_head",
        "_key_of",
        "_place",
        "_places",
        "_queue",
        "_tail",
        "_twins",
        "changes",
        "refs",
    )

    def __init__(self, blocks: int, keys: int) -> None:
        self.refs = np.zeros(blocks, dtype=np.int64)
        self.changes = 0
        self._bare = np.arange(blocks)
        self._bare_top = blocks
        self._key_of = np.full(blocks, NOBODY, dtype=np.int64)
        self._block_of = np.full(max(1024, keys), NOBODY, dtype=np.int64)
        self._queue = np.empty(2 * blocks + 1024, dtype=np.int64)
        self._place = np.full(blocks, NOBODY, dtype=np.int64)
        self._places = np.arange(len(self._queue))
        self._head = self._tail = 0
        self._twins: dict[int, list[int]] = {}

    def make_room(self, keys: int) -> None:
        """So many keys have been given out."""
        if keys > len(self._block_of):
            grown = np.full(2 * keys, NOBODY, dtype=np.int64)
            grown[: len(self._block_of)] = self._block_of
            self._block_of = grown

    def find(self, keys: Keys) -> Blocks:
        """The blocks that hold the leading contents, up to the first that none holds."""
        if not len(keys):
            return keys
        found = self._block_of[keys]
        missing = found < 0
        first = int(missing.argmax())
        return found[:first] if missing[first] else found

    def hold(self, found: Blocks) -> None:
        """One holder more; those that nobody held are free no longer."""
        self.changes += 1
        self._place[found[self.refs[found] == 0]] = NOBODY
        self.refs[found] += 1

    def take(self, blocks: int) -> Blocks:
        """Free blocks without content, then the least recently used."""
        bare = min(blocks, self._bare_top)
        self._bare_top -= bare
        taken = self._bare[self._bare_top : self._bare_top + bare]
        if bare == blocks:
            return taken
        victims = self._oldest(blocks - bare)
        keys = self._key_of[victims]
        self.changes += 1
        self._block_of[keys] = NOBODY
        if self._twins:
            self._keep_twins(keys.tolist(), victims.tolist())
        return np.concatenate((taken, victims)) if bare else victims

    def give_back(self, held: Blocks, bare: int) -> int:
        """One holder less, in this order, the first `bare` without content; how many got free."""
        self.changes += 1
        refs = self.refs[held] - 1
        self.refs[held] = refs
        self._bare[self._bare_top : self._bare_top + bare] = held[:bare]
        self._bare_top += bare
        idle = held[bare:][refs[bare:] == 0]
        self._append(idle)
        return bare + len(idle)

    def enter(self, keys: Keys, blocks: Blocks) -> None:
        """These blocks hold these contents now, and can be found."""
        self.changes += 1
        self._key_of[blocks] = keys
        first = self._block_of[keys]
        taken = first >= 0
        if np.count_nonzero(taken):
            twins = (column[taken].tolist() for column in (keys, first, blocks))
            for key, one, other in zip(*twins, strict=True):
                self._twins.setdefault(key, [one]).append(other)
            keys, blocks = keys[~taken], blocks[~taken]
        self._block_of[keys] = blocks

    def fill(self, blocks: Blocks) -> None:
        """These hold something that nobody can ask for: content all the same."""
        self._key_of[blocks] = NO_CONTENT

    def empty(self, keys: range) -> None:
        """Nobody can ask for these contents again; their blocks keep their place in the queue."""
        blocks = self._block_of[keys.start : keys.stop]
        self._key_of[blocks[blocks >= 0]] = NO_CONTENT
        blocks[:] = NOBODY
        if self._twins:
            for key in keys:
                self._key_of[self._twins.pop(key, [])] = NO_CONTENT

    def _oldest(self, blocks: int) -> Blocks:
        """The least recently used free blocks; entries of those that were hit are skipped."""
        found: list[Blocks] = []
        missing = blocks
        while missing:
            start, stop = self._head, min(self._tail, self._head + missing)
            window = self._queue[start:stop]
            valid = self._place[window] == self._places[start:stop]
            self._head = stop
            found.append(window if np.count_nonzero(valid) == stop - start else window[valid])
            missing -= len(found[-1])
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _keep_twins(self, keys: list[int], victims: list[int]) -> None:
        """A content whose first block is gone is found in the next one that has it."""
        shared = [
            (key, block) for key, block in zip(keys, victims, strict=True) if key in self._twins
        ]
        for key, block in shared:
            holders = self._twins.get(key)
            if holders is None:
                self._block_of[key] = NOBODY
                continue
            holders.remove(block)
            self._block_of[key] = holders[0]
            if len(holders) == 1:
                del self._twins[key]

    def _append(self, blocks: Blocks) -> None:
        """To the end of the LRU queue; what was hit since leaves holes, closed when it is full."""
        if self._tail + len(blocks) > len(self._queue):
            entries = self._queue[self._head : self._tail]
            entries = entries[self._place[entries] == self._places[self._head : self._tail]]
            self._head, self._tail = 0, len(entries)
            self._queue[: self._tail] = entries
            self._place[entries] = self._places[: self._tail]
        self._queue[self._tail : self._tail + len(blocks)] = blocks
        self._place[blocks] = self._places[self._tail : self._tail + len(blocks)]
        self._tail += len(blocks)
