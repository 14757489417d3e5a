"""Alternating: a prompt step, then a decode step, then a prompt step …; never both in one.

The schedule of the classic chunked-prefill lesson (P1 D P2 D …): the same cadence for running
streams as fusing, without a kernel that mixes both. It shows what fusing buys and costs.
"""

from __future__ import annotations

from simulator.plan import ALL, NONE, Plan
from simulator.view import EngineView

from .limits import StepLimits
from .room import (
    KEEP_DECODING,
    Chunks,
    Room,
    admissions,
    continue_prompts,
    holding,
    serve_decodes,
)


class AlternatingScheduler(StepLimits):
    """A chunk step, then a decode step, as long as there are both prompts and decodes.

    max_num_batched_tokens: tokens a step may process; None: no limit.
    max_num_seqs: sequences that may run at once.
    chunk_size: most prompt tokens one request gets in one step; None: only the budget cuts.

    Raises:
        ConfigError: a limit below 1, or a budget below `max_num_seqs`.
    """

    name = "alternating"

    def __init__(
        self,
        max_num_batched_tokens: int | None = 2048,
        max_num_seqs: int = 128,
        chunk_size: int | None = None,
    ) -> None:
        super().__init__(max_num_batched_tokens, max_num_seqs, chunk_size)

    def plan(self, view: EngineView) -> Plan:
        """Prompts if the last step decoded (or nobody decodes), else decodes."""
        if view.planned_tokens is not None:
            return self._prompts(view)
        if not len(view.decoding) or not view.previous.prefill:
            prompts = self._prompts(view)
            if prompts.prefill or prompts.more or prompts.preempt:
                return prompts
        seats = self.max_num_seqs - len(view.running)
        room = Room(self._budget, view.kv.free_blocks, seats)
        decode = serve_decodes(view, room)
        if room.evicted or view.previous.prefill:
            return Plan(decode, (), tuple(room.evicted))
        if decode is ALL:
            return KEEP_DECODING[holding(view, room)]
        return Plan(decode, holds=holding(view, room))

    def _prompts(self, view: EngineView) -> Plan:
        seats = self.max_num_seqs - len(view.running)
        room = Room(self._budget - (view.planned_tokens or 0), view.kv.free_blocks, seats)
        chunks: Chunks = ()
        more = False
        if view.prefilling and view.planned_tokens is None:
            chunks = continue_prompts(view, room, self._chunk)
        if view.waiting:
            admitted, more = admissions(view, room, self._chunk)
            chunks += admitted
        return Plan(NONE, chunks, tuple(room.evicted), more=more)
