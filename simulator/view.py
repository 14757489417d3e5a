"""`EngineView`: all that a scheduler may see. `Scheduler`: what a policy has to be."""

from __future__ import annotations

from typing import Protocol

from .decode_pool import DecodePool
from .kv_cache import KVCache
from .plan import IDLE, Plan
from .queues import WaitingQueue
from .sequence import Sequence


class EngineView:
    """The engine's state at a planning instant. Read it, do not change it.

    now_ns: the clock. waiting: not admitted, head first (preempted ones in front, unless the
    policy orders the queue itself). prefilling: admitted, prompt unfinished, in admission order.
    running: everybody who holds a seat, in admission order. decoding: the pool (`len`,
    `context_tokens`, `growth_blocks`; and, slowly, its members). kv: `free_blocks`, `blocks_for`,
    `cached_tokens`. previous: the last plan that was not empty. planned_tokens: tokens in the parts
    of this step that are already applied (`Plan.more`), None for a new step. load_ended: no
    request will arrive before one of those in the system ends. slow_path: take no short cuts.
    """

    __slots__ = (
        "decoding",
        "kv",
        "load_ended",
        "now_ns",
        "planned_tokens",
        "prefilling",
        "previous",
        "running",
        "slow_path",
        "waiting",
    )

    def __init__(
        self, kv: KVCache, decoding: DecodePool, waiting: WaitingQueue, *, slow_path: bool
    ) -> None:
        self.now_ns = 0
        self.waiting = waiting
        self.prefilling: dict[Sequence, None] = {}
        self.running: dict[Sequence, None] = {}
        self.decoding = decoding
        self.kv = kv
        self.previous: Plan = IDLE
        self.planned_tokens: int | None = None
        self.load_ended = False
        self.slow_path = slow_path

    def blocks_of(self, sequence: Sequence) -> int:
        """KV blocks a running sequence holds."""
        if sequence in self.decoding:
            return self.kv.blocks_for(self.decoding.context_of(sequence))
        return sequence._blocks


class Scheduler(Protocol):
    """A policy: one method.

    Optional attributes the engine honours: `step_token_limit` (int or None: a plan with more
    tokens is refused), `queue_key` (a function of a sequence: the order of the waiting queue,
    smallest first), `holds_slots_until_batch_end` (finished members keep seat and blocks until
    everybody is done), `delivers_at_batch_end` (their tokens reach the client only then),
    `bind_prices` (a method that `simulate` calls before the run with the cost model).
    """

    def plan(self, view: EngineView) -> Plan:
        """Choose the next step. Reads only; the engine applies the plan.

        A plan that depends on `now_ns`, on a step count or on chance must hold `ONE_STEP`.
        """
