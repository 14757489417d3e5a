"""`BlockRun`: consecutive KV blocks of one content, which are held and freed together."""

from __future__ import annotations

NO_CONTENT = 0
"""The key of blocks whose content nobody can ask for."""


class BlockRun:
    """As many blocks as were computed, hit or freed together: of a prompt there are few.

    first_key: what its first block holds; every further block holds the next key.
    blocks: how many. refs: holders of each of them.
    rest: what was split off its end since somebody took hold of it.
    older, newer: its neighbours in the LRU queue, while nobody holds it.
    """

    __slots__ = ("blocks", "first_key", "newer", "older", "refs", "rest")

    def __init__(self, first_key: int, blocks: int, refs: int) -> None:
        self.first_key = first_key
        self.blocks = blocks
        self.refs = refs
        self.rest: BlockRun | None = None
        self.older: BlockRun | None = None
        self.newer: BlockRun | None = None

    def enqueue(self, newer: BlockRun) -> None:
        """Into the LRU queue, just before this one."""
        older = newer.older
        assert older is not None
        self.older, self.newer = older, newer
        older.newer = newer.older = self

    def dequeue(self) -> None:
        """Out of the LRU queue."""
        older, newer = self.older, self.newer
        assert older is not None
        assert newer is not None
        older.newer, newer.older = newer, older
        self.older = self.newer = None


Held = list[tuple[BlockRun, int]]
"""Runs that somebody holds or has found, each with how many blocks of it and its rest."""


def runs_of(held: Held) -> list[BlockRun]:
    """The runs as they are split now."""
    runs: list[BlockRun] = []
    for run, blocks in held:
        runs.append(run)
        blocks -= run.blocks
        while blocks > 0:
            rest = run.rest
            assert rest is not None, (run.first_key, blocks)
            run = rest
            runs.append(run)
            blocks -= run.blocks
    return runs
