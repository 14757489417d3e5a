"""Earliest deadline first: every class of requests has its own limits of TTFT and TPOT.

Source: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
Environment" (JACM 1973), on tokens: the first is due a TTFT after arrival, the next a TPOT later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from simulator.errors import ConfigError
from simulator.plan import Decode, Holds, Plan
from simulator.sequence import Sequence
from simulator.units import NS_PER_MS
from simulator.view import EngineView

from .limits import StepLimits
from .order import generated_tokens, limit_of, overtaken, per_class
from .room import KEEP_WHILE_ALONE, Room, admissions, continue_prompts, holding, serve_decodes

Limits = Mapping[str, float] | str | float


class EdfScheduler(StepLimits):
    """The token that is due first decides a step: a stream's, then nobody's prompt is in it.

    max_num_batched_tokens, max_num_seqs, chunk_size: as `chunked`.
    ttft_ms, tpot_ms: limits by class, a mapping or "chat:500+documents:6000"; "*" is all others.
    classes: what the class of a request is, its "client" or its "priority".

    Prompts share what the budget leaves in order of their deadlines, those that wait before those
    under way if they are due sooner. Nobody is dropped, so in overload all become late together.

    Raises:
        ConfigError: a bad limit, or an unknown kind of class.
    """

    name = "edf"

    def __init__(
        self,
        max_num_batched_tokens: int | None = 2048,
        max_num_seqs: int = 128,
        chunk_size: int | None = None,
        *,
        ttft_ms: Limits = 1000.0,
        tpot_ms: Limits = 50.0,
        classes: Literal["client", "priority"] = "client",
    ) -> None:
        super().__init__(max_num_batched_tokens, max_num_seqs, chunk_size)
        if classes not in ("client", "priority"):
            raise ConfigError(f"classes is {classes!r}, must be client or priority")
        self.ttft_ms, self.tpot_ms, self.classes = ttft_ms, tpot_ms, classes
        self._ttft_ms = per_class("ttft_ms", ttft_ms, 1000.0)
        self._tpot_ms = per_class("tpot_ms", tpot_ms, 50.0)
        self._run: EngineView | None = None

    def queue_key(self, sequence: Sequence) -> int:
        """When its first token is due, ns; a preempted one keeps its place."""
        return sequence.arrival_ns + self._limit_ns(self._ttft_ms, sequence)

    def plan(self, view: EngineView) -> Plan:
        """Prompts in order of deadline beside the decodes, unless a stream's token is due first."""
        if view is not self._run:
            self._run, self._had_prompts = view, False
            self._others: tuple[Sequence, ...] = ()
            self._first_ns: dict[Sequence, int] = {}
        seats = self.max_num_seqs - len(view.running)
        room = Room(self._budget - (view.planned_tokens or 0), view.kv.free_blocks, seats)
        if view.planned_tokens is not None:
            return self._rest(view, room)
        self._note_first_tokens(view)
        decode = serve_decodes(view, room)
        if room.evicted:
            return Plan(decode, (), tuple(room.evicted))
        if not (view.waiting or view.prefilling):
            return KEEP_WHILE_ALONE if decode is Decode.ALL else Plan(decode)
        if len(view.decoding) and not self._prompt_is_due_first(view):
            return Plan(decode)
        return self._with_prompts(view, room, decode)

    def _with_prompts(
        self, view: EngineView, room: Room, decode: Decode | tuple[Sequence, ...]
    ) -> Plan:
        head_ns = self.queue_key(next(iter(view.waiting))) if view.waiting else 0
        under_way = sorted(view.prefilling, key=self.queue_key)
        sooner = [s for s in under_way if not view.waiting or self.queue_key(s) <= head_ns]
        self._others = tuple(under_way[len(sooner) :])
        chunks = continue_prompts(view, room, self._chunk, sooner)
        admitted, more = admissions(view, room, self._chunk)
        chunks += admitted
        if not more:
            chunks += continue_prompts(view, room, self._chunk, self._others)
        if not (chunks or more or len(view.decoding)):  # only evicting one of them helps
            chunks = continue_prompts(view, room, self._chunk, under_way)
        self._had_prompts = bool(chunks) or more
        if chunks or more or room.evicted:
            return Plan(decode, chunks, tuple(room.evicted), more=more)
        holds = Holds.ONE_STEP if decode is not Decode.ALL else holding(view, room)
        seats = self.max_num_seqs - len(view.running)
        return overtaken(Plan(decode, holds=holds), view, seats)

    def _rest(self, view: EngineView, room: Room) -> Plan:
        """Prefix caching: admissions one by one, then the prompts that are due later."""
        chunks, _ = admissions(view, room, self._chunk)
        more = bool(chunks)
        if not more:
            chunks = continue_prompts(view, room, self._chunk, self._others)
        return Plan(Decode.NONE, chunks, more=more)

    def _note_first_tokens(self, view: EngineView) -> None:
        """Who completed a prompt in the last step has its first token now."""
        if self._had_prompts:
            known, now_ns = self._first_ns, view.now_ns
            kept = {s: known[s] for s in view.running if s in known}
            self._first_ns = {s: now_ns for s in view.decoding} | kept
            self._had_prompts = False

    def _prompt_is_due_first(self, view: EngineView) -> bool:
        waiting = [next(iter(view.waiting))] if view.waiting else []
        prompt_ns = min(self.queue_key(s) for s in (*view.prefilling, *waiting))
        return all(self._next_token_ns(view, s) >= prompt_ns for s in view.decoding)

    def _next_token_ns(self, view: EngineView, sequence: Sequence) -> int:
        """When the next token of a stream is due, from when its first one was there."""
        tpot_ns = self._limit_ns(self._tpot_ms, sequence)
        return self._first_ns[sequence] + generated_tokens(view, sequence) * tpot_ns

    def _limit_ns(self, limits: Mapping[str, float], sequence: Sequence) -> int:
        label = sequence.client if self.classes == "client" else str(sequence.priority)
        return round(limit_of(limits, label) * NS_PER_MS)
