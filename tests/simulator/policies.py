"""Policies as a user would write them, from the documented interface alone."""

from __future__ import annotations

import random

from simulator import ALL, EngineView, Holds, Plan, Sequence
from simulator.units import NS_PER_MS


class RoundRobin:
    """Prompts first, whole; then at most `streams` requests decode in a step, taking turns.

    Without memory for any of those whose turn it is, the newest request is preempted.
    """

    def __init__(self, streams: int) -> None:
        self.streams = streams
        self._turn = 0
        self._served: dict[int, int] = {}

    def plan(self, view: EngineView) -> Plan:
        """An explicit tuple of those served least recently."""
        free = view.kv.free_blocks
        for sequence in view.waiting:
            if view.kv.blocks_for(sequence.known_tokens) <= free:
                return Plan(prefill=((sequence, sequence.remaining_tokens),))
        chosen: list[Sequence] = []
        by_turn = sorted(view.decoding, key=lambda sequence: self._served.get(sequence.row, 0))
        for sequence in by_turn[: self.streams]:
            need = int(view.decoding.needs_block(sequence))
            if need <= free:
                free -= need
                chosen.append(sequence)
        if by_turn and not chosen:
            return Plan(preempt=(list(view.running)[-1],))
        self._turn += 1
        self._served.update((sequence.row, self._turn) for sequence in chosen)
        return Plan(tuple(chosen))


class Whim:
    """Throws dice for everything: who decodes, who gets how much prompt, who is thrown out."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._preemptions_left = 12

    def plan(self, view: EngineView) -> Plan:
        """Anything the engine allows."""
        preempt = tuple(sequence for sequence in view.running if self._happens(0.06))
        preempt = preempt[: self._preemptions_left]
        self._preemptions_left -= len(preempt)
        free = view.kv.free_blocks + sum(view.blocks_of(sequence) for sequence in preempt)
        decode: list[Sequence] = []
        for sequence in view.decoding:
            need = int(view.decoding.needs_block(sequence))
            if sequence not in preempt and need <= free and self._happens(0.7):
                free -= need
                decode.append(sequence)
        chunks: list[tuple[Sequence, int]] = []
        for sequence in (*view.prefilling, *view.waiting):
            new = self._dice.randint(1, sequence.remaining_tokens)
            reached = view.kv.blocks_for(sequence.computed_tokens + new)
            need = reached - view.blocks_of(sequence)
            if sequence not in preempt and need <= free and self._happens(0.7):
                free -= need
                chunks.append((sequence, new))
        if not (decode or chunks or preempt):
            return self._pause(view)
        everybody = not preempt and len(decode) == len(view.decoding)
        return Plan(ALL if everybody else tuple(decode), tuple(chunks), preempt)

    def _pause(self, view: EngineView) -> Plan:
        """Nothing was chosen, or memory is stuck: wait, or throw somebody out."""
        if view.running and self._happens(0.5):
            return Plan(preempt=(self._dice.choice(list(view.running)),))
        return Plan(wake_ns=view.now_ns + NS_PER_MS)

    def _happens(self, probability: float) -> bool:
        return self._dice.random() < probability


class ShortestPromptAlone:
    """One request at a time, the one with the shortest prompt of those that wait."""

    def plan(self, view: EngineView) -> Plan:
        """While one is served an arrival only waits: its plan holds until it is done."""
        if view.running:
            return Plan(ALL, holds=Holds.UNTIL_FINISH)
        if not view.waiting:
            return Plan()
        shortest = min(view.waiting, key=lambda sequence: sequence.prompt_tokens)
        return Plan(prefill=((shortest, shortest.remaining_tokens),))
