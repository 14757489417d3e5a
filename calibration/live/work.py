"""`StepWork`: who is in a step, and how far each of them is; `Watched`: a scheduler that tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from simulator.errors import ConfigError
from simulator.plan import Decode, Plan
from simulator.sequence import Sequence
from simulator.view import EngineView, Scheduler


class ChunkWork(NamedTuple):
    """Prompt tokens of one sequence. padded: tokens computed for it, `new` unless batches pad."""

    sequence: Sequence
    past: int
    new: int
    padded: int


class StepWork(NamedTuple):
    """A plan in full.

    now_ns: the clock at the planning. decodes: (sequence, tokens in the cache), in admission
    order. idle: the same of finished members whose slots a static batch still computes. chunks: in
    the order of the plan. running: everybody who keeps what is in the cache, this step's included.
    """

    now_ns: int
    decodes: tuple[tuple[Sequence, int], ...]
    idle: tuple[tuple[Sequence, int], ...]
    chunks: tuple[ChunkWork, ...]
    running: frozenset[Sequence]

    @property
    def roster(self) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Who is in the step: trace rows that decode, and (row, tokens) of every chunk."""
        chunks = tuple((chunk.sequence.row, chunk.new) for chunk in self.chunks)
        return tuple(sequence.row for sequence, _ in self.decodes), chunks


class Watched:
    """A scheduler whose plans are written down as `StepWork`.

    before: called with the engine's clock before each planning. work: of every step so far. All
    that engines ask of a policy besides `plan` is the policy's own.
    """

    def __init__(
        self, scheduler: Scheduler, before: Callable[[int], object] = lambda now_ns: None
    ) -> None:
        self._scheduler = scheduler
        self._before = before
        self.work: list[StepWork] = []

    def __getattr__(self, name: str) -> Any:  # Any: whatever the policy has under that name
        return getattr(self._scheduler, name)

    def plan(self, view: EngineView) -> Plan:
        """The policy's plan. Raises ConfigError for one that comes in parts."""
        self._before(view.now_ns)
        plan = self._scheduler.plan(view)
        if plan.more:
            raise ConfigError(
                f"{type(self._scheduler).__name__} plans a step in parts (Plan.more), which only "
                "prefix caching needs: a live run has none"
            )
        work = work_of(plan, view)
        if work.decodes or work.chunks:
            self.work.append(work)
        return plan


def work_of(plan: Plan, view: EngineView) -> StepWork:
    """What a plan means for each sequence, before the engine applies it."""
    pool, gone = view.decoding, frozenset(plan.preempt)
    members: tuple[Sequence, ...] = ()
    if plan.decode is Decode.ALL:
        members = tuple(sequence for sequence in pool if sequence not in gone)
    elif isinstance(plan.decode, tuple):
        members = plan.decode
    chunks = tuple(
        ChunkWork(s, s.computed_tokens, new, plan.padded_prefill_tokens or new)
        for s, new in plan.prefill
    )
    idle: tuple[tuple[Sequence, int], ...] = ()
    if members and pool.padded_seqs:
        done = (s for s in view.running if s not in pool and s not in view.prefilling)
        idle = tuple((s, s.computed_tokens) for s in done)
    staying = (frozenset(view.running) - gone) | {chunk.sequence for chunk in chunks}
    decodes = tuple((sequence, pool.context_of(sequence)) for sequence in members)
    return StepWork(view.now_ns, decodes, idle, chunks, staying)
