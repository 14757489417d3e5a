"""Chunked prefill: one step carries everybody's decode and, in what is left, prompt chunks.

Source: Sarathi-Serve (Agrawal et al., OSDI 2024, section 4.2, stall-free batching), with the
limits of vLLM: P prompt tokens + D decode tokens <= `max_num_batched_tokens`.
"""

from __future__ import annotations

from simulator.plan import ALL, NONE, ONE_STEP, WHILE_ALONE, Plan
from simulator.view import EngineView

from .limits import StepLimits
from .room import (
    KEEP_DECODING,
    Room,
    admissions,
    at_a_glance,
    continue_prompts,
    holding,
    serve_decodes,
    with_chunks,
)


class ChunkedPrefillScheduler(StepLimits):
    """Decodes first; prompt chunks share what is left of the step's token budget.

    max_num_batched_tokens: tokens a step may process, decodes included; None: no limit.
    max_num_seqs: sequences that may run at once.
    chunk_size: most prompt tokens one request gets in one step (vLLM's
    `long_prefill_token_threshold`); None: only the budget cuts.

    Raises:
        ConfigError: a limit below 1, or a budget below `max_num_seqs`.
    """

    name = "chunked"

    def __init__(
        self,
        max_num_batched_tokens: int | None = 2048,
        max_num_seqs: int = 128,
        chunk_size: int | None = None,
    ) -> None:
        super().__init__(max_num_batched_tokens, max_num_seqs, chunk_size)

    def plan(self, view: EngineView) -> Plan:
        """Everybody decodes; running prompts go on; new ones are admitted."""
        seats = self.max_num_seqs - len(view.running)
        plan = at_a_glance(view, self._budget, seats, self._chunk)
        if plan is not None:
            return plan
        room = Room(self._budget - (view.planned_tokens or 0), view.kv.free_blocks, seats)
        if view.planned_tokens is not None:
            chunks, more = admissions(view, room, self._chunk)
            return Plan(NONE, chunks, more=more)
        decode, more = serve_decodes(view, room), False
        chunks = continue_prompts(view, room, self._chunk) if view.prefilling else ()
        if view.waiting and room.seats > 0 and room.tokens > 0:
            admitted, more = admissions(view, room, self._chunk)
            chunks += admitted
        if more or room.evicted:
            holds = WHILE_ALONE if more else ONE_STEP
            return Plan(decode, chunks, room.evicted, holds, more=more)
        if chunks:
            return with_chunks(decode, chunks)
        if decode is ALL:
            return KEEP_DECODING[holding(view, room)]
        return Plan(decode, holds=holding(view, room))
