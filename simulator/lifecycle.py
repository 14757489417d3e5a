"""`Lifecycle`: how a sequence moves: waiting, prefilling, decoding, evicted, ended.

Owns every change of queues, pool, cache and request columns; the engine decides when.
"""

from __future__ import annotations

from .decode_pool import DecodePool
from .feed import ArrivalFeed
from .kv_cache import KVCache
from .plan import Plan
from .request import Sequence
from .request_log import RequestColumns
from .step_log import TokenLog
from .view import EngineView


class Lifecycle:
    """The transitions of sequences, each with its bookkeeping.

    holds_slots: finished members keep seat and blocks until the batch ends (static batching).
    delivers_at_end: and their tokens reach the client only then.
    """

    __slots__ = (
        "_admissions",
        "_feed",
        "_holds_slots",
        "_kv",
        "_pool",
        "_slots",
        "_tokens",
        "_view",
        "delivers_at_end",
        "ended",
        "requests",
    )

    def __init__(
        self,
        view: EngineView,
        feed: ArrivalFeed,
        requests: RequestColumns,
        tokens: TokenLog,
        *,
        holds_slots: bool,
        delivers_at_end: bool,
    ) -> None:
        self.requests = requests
        self.ended = 0
        self._view = view
        self._kv: KVCache = view.kv
        self._pool: DecodePool = view.decoding
        self._feed = feed
        self._tokens = tokens
        self._holds_slots = holds_slots
        self.delivers_at_end = delivers_at_end
        self._slots: list[Sequence] = []
        self._admissions = 0

    def arrive(self, sequence: Sequence, rejection: str | None, now_ns: int) -> None:
        """Into the queue, or turned away."""
        if rejection is None:
            self._view.waiting[sequence] = None
            return
        self.requests.reject(sequence, rejection)
        self._left(now_ns)

    def compute_prompts(self, plan: Plan, start_ns: int, duration_ns: int) -> list[Sequence]:
        """Give every chunk its blocks; returns the sequences whose prompt is then complete."""
        view, kv = self._view, self._kv
        completed: list[Sequence] = []
        for sequence, new in plan.prefill:
            if sequence in view.waiting:
                self._admit(sequence, start_ns)
            reached = min(sequence.prompt_tokens, sequence.computed_tokens + new)
            first_time = max(0, reached - sequence._prefilled_tokens)
            sequence._prefilled_tokens += first_time
            sequence._recomputed_tokens += new - first_time
            sequence._active_ns += duration_ns
            sequence.computed_tokens += new
            blocks = kv.blocks_for(sequence.computed_tokens)
            kv.take(blocks - sequence._blocks)
            sequence._blocks = blocks
            if sequence.computed_tokens == sequence.known_tokens:
                del view.prefilling[sequence]
                completed.append(sequence)
        return completed

    def _admit(self, sequence: Sequence, start_ns: int) -> None:
        view = self._view
        del view.waiting[sequence]
        view.running[sequence] = None
        view.prefilling[sequence] = None
        sequence._order = self._admissions
        self._admissions += 1
        if sequence._first_start_ns is None:
            sequence._first_start_ns = start_ns
        if sequence._eviction is not None:
            self.requests.resume(sequence._eviction, start_ns)
            sequence._eviction = None

    def end_prompt(self, sequence: Sequence, entry: int, finishing: list[Sequence]) -> None:
        """The step that completes the prompt produces a token; the next one is a decode."""
        sequence._produced_tokens += 1
        self._tokens.prompt_token(sequence.row, entry)
        if sequence._produced_tokens == sequence._output_tokens:
            finishing.append(sequence)
        else:
            self._pool.join(sequence)

    def evict(self, sequence: Sequence, now_ns: int) -> None:
        """Preemption by recompute: blocks are freed, outputs kept, first in the queue again.

        Source: vLLM V1 `Scheduler._preempt_request`.
        """
        view = self._view
        if sequence in self._pool:
            self._pool.leave(sequence)
        else:
            del view.prefilling[sequence]
        del view.running[sequence]
        self._kv.give(sequence._blocks)
        lost = sequence.computed_tokens
        sequence._eviction = self.requests.evict(sequence, now_ns, lost)
        sequence._lost_tokens += lost
        sequence._blocks = 0
        sequence.computed_tokens = 0
        sequence.preemptions += 1
        sequence.known_tokens = sequence.prompt_tokens + sequence._produced_tokens
        view.waiting[sequence] = None
        view.waiting.move_to_end(sequence, last=False)
        self._end_batch_if_done(now_ns)

    def deliver(self, completed: list[Sequence], finishing: list[Sequence], end_ns: int) -> None:
        """A step ended: first tokens appear, and those with their last token leave."""
        for sequence in completed:
            if sequence._first_token_ns is None:
                sequence._first_token_ns = end_ns
        for sequence in finishing:
            if self._holds_slots:
                self._slots.append(sequence)
                self._pool.keep_slot(sequence)
            else:
                del self._view.running[sequence]
                self._kv.give(sequence._blocks)
            if not self.delivers_at_end:
                self._finish(sequence, end_ns)
        self._end_batch_if_done(end_ns)

    def _end_batch_if_done(self, end_ns: int) -> None:
        if not self._slots or len(self._slots) < len(self._view.running):
            return
        for sequence in self._slots:
            del self._view.running[sequence]
            self._kv.give(sequence._blocks)
            if self.delivers_at_end:
                sequence._first_token_ns = end_ns
                self._finish(sequence, end_ns)
        self._slots.clear()
        self._pool.drop_slots()

    def _finish(self, sequence: Sequence, end_ns: int) -> None:
        self.requests.finish(sequence, end_ns)
        self._left(end_ns)

    def _left(self, now_ns: int) -> None:
        self.ended += 1
        self._feed.ended(now_ns)

    def stop(self) -> None:
        """The run ended: write down what is still in the system."""
        self._pool.close_spans()
        for sequence in (*self._view.running, *self._view.waiting):
            if self.requests.is_open(sequence):
                self.requests.leave_unfinished(sequence)
