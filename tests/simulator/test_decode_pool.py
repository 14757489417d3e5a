"""`DecodePool` against a list that is walked: aggregates are what they sum up."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simulator import Sequence
from simulator.decode_pool import DecodePool
from simulator.step_log import TokenLog
from tests.strategies import steady


def sequence(row: int, context: int, left: int) -> Sequence:
    """A sequence with its prompt computed and its first token produced."""
    made = Sequence(row, 0, context, left + 1)
    made.computed_tokens, made._produced_tokens, made._order = context, 1, row
    return made


class PoolAgainstAWalk(RuleBasedStateMachine):
    """`members` maps each sequence to [context, tokens left]; everything is recounted from it."""

    @initialize(block_size=st.sampled_from([1, 2, 3, 4, 16]))
    def start(self, block_size: int) -> None:
        self.block_size = block_size
        self.tokens = TokenLog()
        self.pool = DecodePool(block_size, self.tokens, track_longest=True)
        self.members: dict[Sequence, list[int]] = {}
        self.slots: list[int] = []
        self.made = 0
        self.produced: dict[int, list[int]] = {}

    @rule(context=st.integers(1, 40), left=st.integers(1, 20))
    def join(self, context: int, left: int) -> None:
        joining = sequence(self.made, context, left)
        self.made += 1
        self.members[joining] = [context, left]
        self.pool.join(joining)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        leaving = data.draw(st.sampled_from(list(self.members)))
        context, left = self.members.pop(leaving)
        self.pool.leave(leaving)
        assert leaving.computed_tokens == context
        assert leaving._produced_tokens == leaving._output_tokens - left
        assert leaving._blocks == -(-context // self.block_size)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def step_without_some(self, data: st.DataObject) -> None:
        out = data.draw(st.sets(st.sampled_from(list(self.members))))
        if len(out) == len(self.members):
            return
        growth = sum(self.members[s][0] % self.block_size == 0 for s in self.members.keys() - out)
        for resting in out:
            self.pool.hold_back(resting)
        assert self.pool.growth_of(1) == self.pool.growth_blocks == growth
        self._advance(1, resting=out)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leap(self, data: st.DataObject) -> None:
        until_finish = min(left for _, left in self.members.values())
        assert self.pool.steps_ahead(1000, limit=1000) == until_finish
        self._advance(data.draw(st.integers(1, until_finish)))

    def _advance(self, steps: int, resting: set[Sequence] = frozenset()) -> None:
        first = self.pool.step
        done = self.pool.advance(steps)
        for member, counts in self.members.items():
            if member not in resting:
                counts[0] += steps
                counts[1] -= steps
                ran = range(first + 1, first + steps + 1)
                self.produced.setdefault(member.row, []).extend(ran)
        ended = [member for member, (_, left) in self.members.items() if left == 0]
        assert sorted(done, key=lambda s: s._order) == ended
        for member in ended:
            del self.members[member]
        self.slots = [context + steps for context in self.slots]

    @precondition(lambda self: not self.members and self.made)
    @rule(context=st.integers(1, 60))
    def keep_slot(self, context: int) -> None:
        finished = sequence(self.made, context, 1)
        self.made += 1
        self.pool.keep_slot(finished)
        self.slots.append(context)

    @rule()
    def drop_slots(self) -> None:
        if not self.members:
            self.pool.drop_slots()
            self.slots.clear()

    @invariant()
    def aggregates_are_the_sums(self) -> None:
        pool, contexts = self.pool, [context for context, _ in self.members.values()]
        assert len(pool) == len(contexts)
        assert list(pool) == sorted(self.members, key=lambda member: member._order)
        assert pool.context_tokens == sum(contexts)
        assert pool.padded_seqs == len(self.slots)
        assert pool.padded_context_tokens == sum(self.slots)
        assert pool.longest_context() == max(contexts + self.slots, default=0)
        for member, (context, _) in self.members.items():
            assert pool.context_of(member) == context
            assert pool.needs_block(member) == (context % self.block_size == 0)
        growth = [self._growth(contexts, steps) for steps in range(40)]
        assert pool.growth_blocks == growth[1]
        assert [pool.growth_of(steps) for steps in range(1, 40)] == growth[1:]
        for free in (0, 1, 2, 5, 17):
            fitting = max(steps for steps in range(40) if growth[steps] <= free)
            if self.members:
                until_finish = min(left for _, left in self.members.values())
                assert pool.steps_ahead(free, 39) == min(fitting, until_finish)

    def _growth(self, contexts: list[int], steps: int) -> int:
        size = self.block_size
        return sum(-(-(context + steps) // size) - -(-context // size) for context in contexts)

    def teardown(self) -> None:
        """Logged spans are the steps in which each member produced a token."""
        if not hasattr(self, "pool"):
            return
        self.pool.close_spans()
        spans: dict[int, list[int]] = {}
        for row, first, last, _ in zip(*self.tokens.columns(), strict=True):
            spans.setdefault(int(row), []).extend(range(first + 1, last + 1))
        assert spans == self.produced


class TestPoolAgainstAWalk(PoolAgainstAWalk.TestCase):
    settings = steady(80)


def test_members_that_end_in_the_same_step_leave_in_admission_order() -> None:
    pool = DecodePool(4, TokenLog(), track_longest=False)
    members = [sequence(row, context=3, left=2) for row in (2, 0, 1)]
    for member in members:
        pool.join(member)

    assert [member.row for member in pool.advance(2)] == [0, 1, 2]
    assert len(pool) == 0
