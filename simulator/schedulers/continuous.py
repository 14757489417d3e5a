"""Continuous (in-flight) batching: sequences join and leave between steps; whole prompts go first.

Source: Orca (Yu et al., OSDI 2022, section 4.1, iteration-level scheduling) with the prompt-first
order of vLLM v0: as long as a waiting prompt fits, a step computes prompts and decodes wait.
"""

from __future__ import annotations

from simulator.plan import ALL, NONE, ONE_STEP, WHILE_ALONE, Plan
from simulator.view import EngineView

from .limits import checked_limits
from .room import (
    KEEP_DECODING,
    UNLIMITED,
    Room,
    admissions,
    holding,
    serve_decodes,
)


class ContinuousScheduler:
    """Whole prompts first, decodes wait; between prompts everybody decodes.

    max_num_batched_tokens: prompt tokens a step may process; None: no limit. A longer prompt is
    not cut: it runs in a step of its own (vLLM v0 would have refused to start with such a limit).
    max_num_seqs: sequences that may run at once.

    Raises:
        ConfigError: a limit below 1, or a budget below `max_num_seqs`.
    """

    name = "continuous"

    def __init__(self, max_num_batched_tokens: int | None = 2048, max_num_seqs: int = 128) -> None:
        budget, seqs, _ = checked_limits(max_num_batched_tokens, max_num_seqs, None)
        self.max_num_batched_tokens, self.max_num_seqs = budget, seqs
        self._budget = budget or UNLIMITED

    def plan(self, view: EngineView) -> Plan:
        """Prompts if any can be admitted, else everybody decodes."""
        seats = self.max_num_seqs - len(view.running)
        if view.planned_tokens is not None or (view.waiting and seats > 0):
            room = Room(self._budget - (view.planned_tokens or 0), view.kv.free_blocks, seats)
            chunks, more = admissions(view, room, UNLIMITED, whole=True)
            if chunks or more or view.planned_tokens is not None:
                holds = WHILE_ALONE if chunks or more else ONE_STEP
                return Plan(NONE, chunks, (), holds, more=more)
        room = Room(UNLIMITED, view.kv.free_blocks, seats)
        decode = serve_decodes(view, room)
        if room.evicted:
            return Plan(decode, (), tuple(room.evicted))
        if decode is ALL:
            return KEEP_DECODING[holding(view, room)]
        return Plan(decode, holds=holding(view, room))
