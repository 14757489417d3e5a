"""`Lifecycle`: how a sequence moves: waiting, prefilling, decoding, evicted, ended.

Owns every change of queues, pool, cache and request columns; the engine decides when.
"""

from __future__ import annotations

from .decode_pool import DecodePool
from .feed import ArrivalFeed, OpenFeed
from .kv_cache import KVCache
from .plan import Plan
from .request_log import RequestColumns
from .sequence import Sequence
from .step_log import TokenLog, piece
from .units import NEVER_NS
from .view import EngineView

Chunks = list[tuple[int, int]]


class Lifecycle:
    """The transitions of sequences, each with its bookkeeping.

    holds_slots: finished members keep seat and blocks until the batch ends (static batching).
    delivers_at_end: and their tokens reach the client only then.
    swaps: preempted sequences keep what they computed, in host memory.
    moved_blocks: blocks moved over the link for that so far, out and back.
    """

    __slots__ = (
        "_admissions",
        "_answers",
        "_feed",
        "_holds_slots",
        "_kv",
        "_pool",
        "_slots",
        "_swaps",
        "_tokens",
        "_view",
        "delivers_at_end",
        "ended",
        "moved_blocks",
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
        swaps: bool,
    ) -> None:
        self.requests = requests
        self.ended = 0
        self._view = view
        self._kv: KVCache = view.kv
        self._pool: DecodePool = view.decoding
        self._feed = feed
        self._answers = not isinstance(feed, OpenFeed)
        self._tokens = tokens
        self._holds_slots = holds_slots
        self.delivers_at_end = delivers_at_end
        self._slots: list[Sequence] = []
        self._swaps = swaps
        self.moved_blocks = 0
        self._admissions = 0

    def reject(self, sequence: Sequence, reason: str) -> None:
        """Turned away on arrival."""
        self.requests.reject(sequence, reason)
        self._kv.forget(sequence)
        self.ended += 1
        self._feed.ended(sequence.row, sequence.arrival_ns)

    def compute_prompts(self, plan: Plan, start_ns: int) -> tuple[Chunks, list[Sequence]]:
        """Give every chunk its blocks: (new, past) of each, and whose prompt is now complete."""
        view, kv, pad = self._view, self._kv, plan.padded_prefill_tokens
        prefilling, extend = view.prefilling, kv.extend
        chunks: list[tuple[int, int]] = []
        completed: list[Sequence] = []
        for sequence, new in plan.prefill:
            if sequence not in prefilling:
                self._admit(sequence, start_ns)
                prefilling[sequence] = None
            past = sequence.computed_tokens
            computed = past + new
            chunks.append((pad or new, past))
            if past == sequence._prompt_reached and computed <= sequence.prompt_tokens:
                sequence._prompt_reached = computed
                sequence._prefilled_tokens += new
            else:
                reached = min(sequence.prompt_tokens, computed)
                first_time = max(0, reached - max(past, sequence._prompt_reached))
                sequence._prompt_reached = max(reached, sequence._prompt_reached)
                sequence._prefilled_tokens += first_time
                sequence._recomputed_tokens += new - first_time
            sequence.computed_tokens = computed
            extend(sequence, computed)
            if computed == sequence.known_tokens:
                del prefilling[sequence]
                completed.append(sequence)
        return chunks, completed

    def take_back(self, plan: Plan) -> None:
        """The step would end after the stop time: its chunks were never computed."""
        for sequence, new in plan.prefill:
            again = min(new, sequence._recomputed_tokens)
            sequence._recomputed_tokens -= again
            sequence._prefilled_tokens -= new - again
            sequence.computed_tokens -= new

    def _admit(self, sequence: Sequence, start_ns: int) -> None:
        view = self._view
        view.waiting.remove(sequence)
        if self._kv.caches_prefixes:
            self._kv.admit(sequence)
        view.running[sequence] = None
        sequence._order = self._admissions
        self._admissions += 1
        if sequence._first_start_ns == NEVER_NS:
            sequence._first_start_ns = start_ns
            sequence._cached_tokens = sequence.computed_tokens
        if sequence._eviction is not None:
            found = 0 if self._swaps else sequence.computed_tokens
            self.requests.resume(sequence._eviction, start_ns, found)
            sequence._eviction = None
            if self._swaps:
                self.moved_blocks += self._kv.blocks_for(sequence.computed_tokens)

    def end_prompts(
        self, completed: list[Sequence], end_ns: int, entry: int, finishing: list[Sequence]
    ) -> None:
        """The step that completes a prompt produces a token at its end; the next is a decode."""
        for sequence in completed:
            if sequence._first_token_ns == NEVER_NS:
                sequence._first_token_ns = end_ns
            produced = sequence._produced_tokens + 1
            sequence._produced_tokens = produced
            self._tokens.add(piece(sequence.row, -1, entry, 0))
            if produced == sequence._output_tokens:
                finishing.append(sequence)
            else:
                self._pool.join(sequence)
        if len(finishing) > 1:
            # In batch order, whoever decoded or not: so are outputs processed and blocks freed.
            finishing.sort(key=_admission)

    def evict(self, sequence: Sequence, now_ns: int, withdrawn: int = 0) -> None:
        """Preemption: blocks are freed, outputs kept, back into the queue.

        What was computed is lost and recomputed on resume, or (swapping) kept in host memory.
        A step of it that is in flight (async) still delivers its token, which is part of what
        must be computed again; with its last token in flight it ends from the queue.
        withdrawn: tokens this very step had given it before.
        Source: vLLM V1 `Scheduler._preempt_request`.
        """
        view = self._view
        if sequence in self._pool:
            self._pool.leave(sequence)
        else:
            view.prefilling.pop(sequence, None)
        del view.running[sequence]
        if withdrawn:
            self._kv.extend(sequence, sequence.computed_tokens + withdrawn)
        ends_in_flight = sequence._produced_tokens == sequence._output_tokens
        keeps = self._swaps and not ends_in_flight
        if keeps:
            self.moved_blocks += sequence._blocks
        self._kv.release(sequence, sequence.computed_tokens + withdrawn, ended=False)
        lost = 0 if ends_in_flight or keeps else sequence.computed_tokens
        sequence._eviction = self.requests.evict(sequence, now_ns, lost)
        sequence._lost_tokens += lost
        if not keeps:
            sequence.computed_tokens = 0
        sequence.preemptions += 1
        sequence.known_tokens = sequence.prompt_tokens + sequence._produced_tokens
        view.waiting.put_back(sequence)
        self._end_batch_if_done(now_ns)

    def deliver(self, finishing: list[Sequence], end_ns: int) -> None:
        """A step ended: those with their last token leave."""
        if self._holds_slots:
            self._hold_slots(finishing, end_ns)
            return
        running, release, finish = self._view.running, self._kv.release, self.requests.finish
        for sequence in finishing:
            if sequence in running:
                del running[sequence]
                release(sequence, sequence.computed_tokens, ended=True)
            else:
                assert sequence._eviction is not None
                self._view.waiting.remove(sequence)
                self.requests.resume(sequence._eviction, end_ns, cached_tokens=0)
                self._kv.forget(sequence)
            finish(sequence, end_ns)
            if self._answers:
                self._feed.ended(sequence.row, end_ns)
        self.ended += len(finishing)

    def _hold_slots(self, finishing: list[Sequence], end_ns: int) -> None:
        for sequence in finishing:
            self._slots.append(sequence)
            self._pool.keep_slot(sequence)
            if not self.delivers_at_end:
                self._finish(sequence, end_ns)
        self._end_batch_if_done(end_ns)

    def _end_batch_if_done(self, end_ns: int) -> None:
        if not self._slots or len(self._slots) < len(self._view.running):
            return
        for sequence in self._slots:
            del self._view.running[sequence]
            self._kv.release(sequence, sequence.computed_tokens, ended=True)
            if self.delivers_at_end:
                sequence._first_token_ns = end_ns
                self._finish(sequence, end_ns)
        self._slots.clear()
        self._pool.drop_slots()

    def _finish(self, sequence: Sequence, end_ns: int) -> None:
        self.requests.finish(sequence, end_ns)
        self.ended += 1
        self._feed.ended(sequence.row, end_ns)

    def stop(self) -> None:
        """The run ended: write down what is still in the system."""
        self._pool.close_spans()
        ended = self.requests.ended_rows() if self._slots else ()
        for sequence in (*self._view.running, *self._view.waiting):
            if sequence.row not in ended:
                self.requests.leave_unfinished(sequence)


def _admission(sequence: Sequence) -> int:
    return sequence._order
