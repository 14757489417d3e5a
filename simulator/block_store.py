"""`BlockStore`: which contents are in the KV blocks, who can still find them, which go next.

Source: vLLM 0.33 `v1/core/block_pool.py`: free blocks without content are taken first, then the
least recently used; a free block keeps its content, and can be found, until it is taken. Two blocks
may hold the same content (twins): the first that has it is found.

Which block it is matters to nobody, so only contents are kept, in runs (`BlockRun`): a call costs
as much as the runs it is about, however many blocks they have. A run is split where its blocks part
ways: where somebody holds the head of it only, or one of two twins loses its tail. Whatever holds a
content is freed before what holds the content before it, so nothing that is cached follows on
something that is not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from .block_run import NO_CONTENT, BlockRun, Held, runs_of
from .keys import Keys


class Found:
    """What the cache has of a prompt: its leading blocks.

    blocks: how many, in `runs`; idle: those that nobody holds. changes: `BlockStore.changes` then.
    """

    __slots__ = ("blocks", "changes", "idle", "runs")

    def __init__(self, runs: Held, blocks: int, idle: int, changes: int) -> None:
        self.runs = runs
        self.blocks = blocks
        self.idle = idle
        self.changes = changes


class BlockStore:
    """So many blocks, all free and without content at first.

    changes: counts what may change the answer of `find`.
    """

    __slots__ = ("_bare", "_queue", "_runs", "_twins", "changes")

    def __init__(self, blocks: int) -> None:
        self.changes = 0
        self._bare = blocks
        self._queue = queue = BlockRun(NO_CONTENT, 0, 0)
        """Not a run: the oldest free run is its `newer`, the newest one its `older`."""
        queue.older = queue.newer = queue
        self._runs: dict[int, BlockRun] = {}
        """First key -> the first run that begins with it."""
        self._twins: dict[int, deque[BlockRun]] = {}
        """First key -> all runs that hold the same, in the order they were entered, if several."""

    def find(self, keys: Keys, most: int) -> Found:
        """The leading contents, up to the first that no block holds; at most so many."""
        runs: Held = []
        blocks = idle = 0
        cached = self._runs
        for key, stop in zip(keys.firsts, keys.stops, strict=True):
            stop = stop if stop < most else most
            while blocks < stop:
                run = cached.get(key)
                if run is None:
                    return Found(runs, blocks, idle, self.changes)
                hit = run.blocks if run.blocks < stop - blocks else stop - blocks
                runs.append((run, hit))
                blocks += hit
                key += hit
                if not run.refs:
                    idle += hit
            if blocks == most:
                break
        return Found(runs, blocks, idle, self.changes)

    def hold(self, found: Held) -> None:
        """One holder more; those that nobody held are free no longer."""
        self.changes += 1
        for run, blocks in found:
            if blocks < run.blocks:
                self._split(run, blocks)
            if not run.refs:
                run.dequeue()
            run.refs += 1

    def take(self, blocks: int) -> None:
        """Free blocks without content, then the least recently used."""
        if blocks <= self._bare:
            self._bare -= blocks
            return
        blocks -= self._bare
        self._bare = 0
        queue = self._queue
        while blocks > 0:
            run = queue.newer
            assert run is not None
            assert run is not queue, f"{blocks} blocks are taken that are not free"
            taken = run.blocks if run.blocks < blocks else blocks
            blocks -= taken
            if run.first_key != NO_CONTENT:
                run = self._lose_tail(run, taken)
            run.blocks -= taken
            if not run.blocks:
                run.dequeue()

    def give_back(self, held: Held, *, bare: int, filled: int) -> int:
        """One holder less of what it found and entered; how many blocks got free.

        First come its `bare` blocks, without content, then its `filled` ones, with content that
        nobody can ask for, then the others from the last to the first.
        """
        self.changes += 1
        self._bare += bare
        queue = self._queue
        if filled:
            BlockRun(NO_CONTENT, filled, 0).enqueue(queue)
        freed = bare + filled
        for run in reversed(runs_of(held)):
            run.refs -= 1
            if not run.refs:
                freed += run.blocks
                run.rest = None
                newest = queue.older
                assert newest is not None
                if newest.first_key == run.first_key + run.blocks and self._have_no_twins(
                    run, newest
                ):
                    del self._runs[newest.first_key]
                    newest.dequeue()
                    run.blocks += newest.blocks
                run.enqueue(queue)
        return freed

    def enter(self, keys: Keys, start: int, stop: int, held: Held) -> None:
        """The blocks from `start` on hold what `keys` says; their holder has what is in `held`."""
        self.changes += 1
        index = bisect_right(keys.stops, start)
        while start < stop:
            end = keys.stops[index]
            key = keys.firsts[index] + start - (keys.stops[index - 1] if index else 0)
            blocks = (end if end < stop else stop) - start
            start += blocks
            index += 1
            while blocks:
                entered = self._enter(key, blocks, held)
                key += entered
                blocks -= entered

    def empty(self, keys: range) -> None:
        """Nobody can ask for these contents again; their blocks keep their place in the queue."""
        key = keys.start
        while key < keys.stop:
            run = self._runs.pop(key, None)
            if run is None:
                break
            key += run.blocks
            for twin in self._twins.pop(run.first_key, (run,)):
                twin.first_key = NO_CONTENT

    def _enter(self, key: int, blocks: int, held: Held) -> int:
        """At most so many blocks from this key on, entered as one run; how many."""
        first = self._runs.get(key)
        if first is None:
            if held:
                run, _ = held[-1]
                end = run.first_key + run.blocks
                if end == key and run.refs == 1 and run.first_key not in self._twins:
                    run.blocks += blocks
                    held[-1] = (run, run.blocks)
                    return blocks
            self._runs[key] = run = BlockRun(key, blocks, 1)
        else:
            if first.blocks > blocks:
                self._split(first, blocks)
            run = BlockRun(key, first.blocks, 1)
            self._twins.setdefault(key, deque((first,))).append(run)
        held.append((run, run.blocks))
        return run.blocks

    def _have_no_twins(self, run: BlockRun, other: BlockRun) -> bool:
        return run.first_key not in self._twins and other.first_key not in self._twins

    def _split(self, run: BlockRun, blocks: int) -> BlockRun:
        """Cut a run and its twins after so many blocks; returns what was cut off this one."""
        key = run.first_key + blocks
        twins = self._twins.get(run.first_key)
        if twins is None:
            self._runs[key] = tail = _cut(run, blocks)
            return tail
        tails = self._twins[key] = deque([_cut(twin, blocks) for twin in twins])
        self._runs[key] = tails[0]
        return tails[twins.index(run)]

    def _lose_tail(self, run: BlockRun, blocks: int) -> BlockRun:
        """The last so many blocks of a run are to be overwritten; returns the run they are in."""
        self.changes += 1
        key = run.first_key
        if key not in self._twins:
            if blocks == run.blocks:
                del self._runs[key]
            return run
        if blocks < run.blocks:
            run = self._split(run, run.blocks - blocks)
            key = run.first_key
        twins = self._twins[key]
        if twins[0] is run:
            twins.popleft()
            self._runs[key] = twins[0]
        else:
            twins.remove(run)
        if len(twins) == 1:
            del self._twins[key]
        return run


def _cut(run: BlockRun, blocks: int) -> BlockRun:
    tail = BlockRun(run.first_key + blocks, run.blocks - blocks, run.refs)
    run.blocks = blocks
    if run.refs:
        tail.rest, run.rest = run.rest, tail
    else:
        tail.enqueue(run)  # it is taken before its head
    return tail
