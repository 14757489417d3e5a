"""The cached contents in runs, against blocks kept one by one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.block_run import Held
from simulator.block_store import BlockStore
from simulator.errors import ConfigError
from simulator.keys import NO_KEYS, Keys, keys_of_hashes
from tests.strategies import steady

BLOCKS = 20

PROMPTS = ((1, 2, 3, 4, 5), (1, 2, 3, 6, 7, 8), (1, 2, 9), (10, 11, 12, 13), (1, 14, 15, 16))
"""Hash ids of five prompts, a block an id; all but one have beginnings in common."""
OF_ITS_OWN = 3


class OneByOne:
    """The rules of `BlockStore` for single blocks, as vLLM's block pool has them."""

    def __init__(self, blocks: int) -> None:
        self.queue = list(range(blocks))
        self.content: dict[int, object] = {}
        self.refs = Counter[int]()
        self.order: list[tuple[object, int]] = []

    def find(self, contents: list[object]) -> list[int]:
        """The first block that has each, up to the first content that none has."""
        found: list[int] = []
        for content in contents:
            blocks = [block for known, block in self.order if known == content]
            if not blocks:
                break
            found.append(blocks[0])
        return found

    def hold(self, found: list[int]) -> None:
        """Free ones leave the queue."""
        for block in found:
            if block in self.queue:
                self.queue.remove(block)
            self.refs[block] += 1

    def take(self, blocks: int) -> list[int]:
        """From the queue: first those without content, then as they come."""
        taken = sorted(self.queue, key=lambda block: block in self.content)[:blocks]
        for block in taken:
            self.queue.remove(block)
            self.refs[block] = 1
            self.content.pop(block, None)
            self.order = [(known, other) for known, other in self.order if other != block]
        return taken

    def empty(self, contents: list[object]) -> None:
        """Nobody asks for these again: what holds them is content all the same."""
        self.order = [(known, block) for known, block in self.order if known not in contents]

    def enter(self, blocks: list[int], contents: list[object]) -> None:
        """They can be found, behind others with the same content."""
        for block, content in zip(blocks, contents, strict=True):
            self.content[block] = content
            self.order.append((content, block))

    def give_back(self, held: list[int]) -> int:
        """The last first; how many got free."""
        freed = 0
        for block in reversed(held):
            self.refs[block] -= 1
            if not self.refs[block]:
                self.queue.append(block)
                freed += 1
        return freed


class Holder:
    """Somebody with a prompt, in both stores."""

    def __init__(self, prompt: int, keys: Keys) -> None:
        self.keys = keys
        self.contents: list[object] = [PROMPTS[prompt][: end + 1] for end in range(len(keys))]
        self.runs: Held = []
        self.blocks: list[int] = []
        self.hashed = 0


class Both:
    """A `BlockStore` and single blocks, with the same holders, who do things at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store, self.single = BlockStore(BLOCKS), OneByOne(BLOCKS)
        self.keys, _ = keys_of_hashes(PROMPTS, 4, 4)
        self.holders: list[Holder] = []
        self.free = BLOCKS

    def begin(self) -> None:
        """Hit some or none of what is cached: one who hits less computes a twin."""
        prompt = self.random.randrange(len(PROMPTS))
        holder = Holder(prompt, self.keys[prompt])
        most = self.random.randint(0, len(holder.keys))
        found, alone = self.store.find(holder.keys, most), self.single.find(holder.contents[:most])
        assert found.blocks == len(alone)
        assert found.idle == sum(block in self.single.queue for block in alone)
        self.store.hold(found.runs)
        self.single.hold(alone)
        self.free -= found.idle
        holder.runs, holder.blocks, holder.hashed = found.runs, alone, found.blocks
        self.holders.append(holder)

    def grow(self, holder: Holder, blocks: int) -> None:
        """New blocks, if as many are free."""
        blocks = min(blocks, self.free)
        self.store.take(blocks)
        holder.blocks += self.single.take(blocks)
        self.free -= blocks

    def compute(self, holder: Holder) -> None:
        """A chunk of the prompt."""
        self.grow(holder, self.random.randint(0, len(holder.keys) - holder.hashed))
        start, stop = holder.hashed, min(len(holder.keys), len(holder.blocks))
        self.store.enter(holder.keys, start, stop, holder.runs)
        self.single.enter(holder.blocks[start:stop], holder.contents[start:stop])
        holder.hashed = stop

    def end(self, holder: Holder) -> None:
        """Of what has no key, some is content all the same."""
        unnamed = holder.blocks[holder.hashed :]
        filled = self.random.randint(0, len(unnamed))
        self.single.enter(unnamed[:filled], [object() for _ in range(filled)])
        freed = self.store.give_back(holder.runs, bare=len(unnamed) - filled, filled=filled)
        assert freed == self.single.give_back(holder.blocks)
        self.free += freed
        self.holders.remove(holder)

    def empty(self) -> None:
        """What `OF_ITS_OWN` has goes out of use, if nobody has it now; it may come again."""
        keys = self.keys[OF_ITS_OWN]
        if all(holder.keys is not keys for holder in self.holders):
            ids = PROMPTS[OF_ITS_OWN]
            self.store.empty(range(keys.firsts[0], keys.firsts[0] + len(keys)))
            self.single.empty([ids[: end + 1] for end in range(len(ids))])

    def step(self) -> None:
        """One thing at random; then everything cached is found in both."""
        holder = self.random.choice(self.holders) if self.holders else None
        action = self.random.choice(("begin", "compute", "compute", "grow", "end", "empty"))
        if action == "empty":
            self.empty()
        elif holder is None or (action == "begin" and len(self.holders) < 5):
            self.begin()
        elif action == "compute":
            self.compute(holder)
        elif action == "grow":
            self.grow(holder, 1)
        else:
            self.end(holder)
        for keys, ids in zip(self.keys, PROMPTS, strict=True):
            contents: list[object] = [ids[: end + 1] for end in range(len(ids))]
            alone = self.single.find(contents)
            found = self.store.find(keys, len(keys))
            assert found.blocks == len(alone)
            assert found.idle == sum(not self.single.refs[block] for block in alone)


@pytest.mark.parametrize("seed", range(10))
def test_runs_are_found_taken_and_freed_as_single_blocks_are(seed: int) -> None:
    both = Both(seed)
    for _ in range(3000):
        both.step()


def expanded(keys: Keys) -> list[int]:
    """Block by block."""
    starts = (0, *keys.stops)
    return [
        first + block
        for first, (start, stop) in zip(keys.firsts, pairwise(starts), strict=True)
        for block in range(stop - start)
    ]


@steady(200)
@given(
    hashes=st.lists(st.lists(st.integers(0, 3), max_size=8).map(tuple), min_size=1, max_size=8),
    tokens=st.sampled_from([(2, 8), (4, 4), (8, 2)]),
)
def test_keys_go_on_only_where_contents_do(
    hashes: list[tuple[int, ...]], tokens: tuple[int, int]
) -> None:
    """The same key for the same ids up to there; the next key only for what follows on it."""
    hash_tokens, block_size = tokens
    rows, unused = keys_of_hashes(hashes, hash_tokens, block_size)
    content_of: dict[int, tuple[object, ...]] = {}
    for ids, keys in zip(hashes, rows, strict=True):
        contents = [
            (ids[: -(-end // hash_tokens)], end)
            for end in range(block_size, len(ids) * hash_tokens + 1, block_size)
        ]
        assert len(keys) == len(contents)
        for key, content in zip(expanded(keys), contents, strict=True):
            assert content_of.setdefault(key, content) == content
    assert len({*content_of.values()}) == len(content_of)
    assert max(content_of, default=0) < unused
    for key, (ids, end) in content_of.items():
        following = content_of.get(key + 1)
        if following is not None:
            longer, stop = following
            assert (longer[: len(ids)], stop) == (ids, end + block_size)


def test_ids_with_something_else_before_them_are_something_else() -> None:
    """A block of (7, 8) is no hit for a prompt that begins with 8."""
    rows, _ = keys_of_hashes([(7, 8), (8,), (7, 8, 9)], 4, 4)
    assert not {*expanded(rows[0])} & {*expanded(rows[1])}
    assert expanded(rows[2].head(2)) == expanded(rows[0])


def test_heads_and_what_follows() -> None:
    keys = NO_KEYS.then(range(5, 8)).then(range(20, 22))
    assert [len(keys.head(blocks)) for blocks in range(7)] == [0, 1, 2, 3, 4, 5, 5]
    assert expanded(keys.head(4)) == [5, 6, 7, 20]
    assert len(keys.then(range(0))) == 5


def test_a_granularity_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ConfigError, match="block_size 8 and the trace's 12-token hash blocks"):
        keys_of_hashes([(1, 2)], 12, 8)
