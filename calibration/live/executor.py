"""`Executor`: computes planned steps on a real decoder: its KV cache, its tokens, its sampler."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import replace

import numpy as np
import torch

from calibration.batch import Chunk
from calibration.kernels import Decoder
from simulator.errors import SimulatorError
from simulator.sequence import Sequence
from simulator.trace import Trace

from .slots import Move, Slots
from .work import StepWork


class Executor:
    """Serves one trace at a time on a decoder.

    texts: trace row -> its tokens so far, a random prompt and what the model answered. It keeps
    its own count of what is in the cache, and refuses a plan that says otherwise.

    slots: sequences that may run at once; width: tokens each may have.
    """

    def __init__(self, decoder: Decoder, *, slots: int, width: int) -> None:
        self._decoder = decoder
        self._count, self.width = slots, width
        self._caches = [decoder.cache(layer, slots, width) for layer in range(len(decoder.layers))]
        self._slots = Slots(slots)
        self._stored: dict[Sequence, int] = {}
        self.texts: dict[int, list[int]] = {}

    def begin(self, trace: Trace, seed: int) -> None:
        """Forget what was served; random prompts for the requests of a trace."""
        rng = np.random.default_rng(seed)
        self._slots, self._stored = Slots(self._count), {}
        vocabulary = self._decoder.sizes.vocabulary
        self.texts = {
            row: rng.integers(vocabulary, size=int(tokens)).tolist()
            for row, tokens in enumerate(trace.prompt_tokens)
        }

    @torch.inference_mode()
    def warm_up(self, tokens: int) -> None:
        """Compute the largest prompt chunk and decode batch, so that no request pays for first use.

        tokens: the token budget of a step.
        """
        chunk = min(tokens, self.width - 1)
        alone = self._decoder.batch([Chunk(self._count - 1, 0, chunk)], [])
        decodes = self._decoder.batch([], [self.width - 1] * self._count)
        for batch in (alone, decodes) * 2:
            self._decoder.step(batch, self._caches).tolist()

    @torch.inference_mode()
    def run(self, work: StepWork) -> None:
        """Compute a step; its tokens become part of the texts."""
        slots, stored = self._slots, self._stored
        slots.release_all_but(work.running)
        for sequence, context in work.decodes:
            self._check(sequence, context, stored.get(sequence, 0))
            self._check(sequence, context, len(self.texts[sequence.row]) - 1)
        contexts = dict((*work.decodes, *work.idle))
        self._move_all(slots.gather(contexts))
        rows = sorted(contexts, key=slots.slot_of.__getitem__)
        fed = [self.texts[s.row][-1] for s in rows]
        chunks, ends = [], list(range(len(rows)))
        for sequence, past, new, padded in work.chunks:
            self._check(sequence, past, stored.get(sequence, 0) if past else 0)
            chunks.append(Chunk(slots.take(sequence), past, padded))
            ends.append(len(fed) + new - 1)
            fed += self.texts[sequence.row][past : past + new] + [0] * (padded - new)
        batch = self._decoder.batch(chunks, [contexts[s] for s in rows], fed)
        if any(chunk.padded > chunk.new for chunk in work.chunks):
            batch = replace(batch, logit_rows=torch.tensor(ends, device=self._decoder.device))
        sampled: list[int] = self._decoder.step(batch, self._caches).tolist()
        self._keep(work, rows, sampled)

    def _keep(self, work: StepWork, rows: Many[Sequence], sampled: list[int]) -> None:
        """Tokens of the decodes, and of the prompts that are complete now."""
        decoding = {sequence for sequence, _ in work.decodes}
        for sequence, token in zip(rows, sampled, strict=False):
            if sequence in decoding:
                self.texts[sequence.row].append(token)
                self._stored[sequence] += 1
        for chunk, token in zip(work.chunks, sampled[len(rows) :], strict=True):
            end = self._stored[chunk.sequence] = chunk.past + chunk.new
            if end == len(self.texts[chunk.sequence.row]):
                self.texts[chunk.sequence.row].append(token)

    def _check(self, sequence: Sequence, planned: int, stored: int) -> None:
        if planned != stored:
            raise SimulatorError(
                f"the plan says {planned} tokens of request {sequence.row} are in the KV cache, "
                f"the decoder has {stored}"
            )

    def _move_all(self, moves: Many[Move]) -> None:
        if not moves:
            return
        held = {slot: self._stored[sequence] for sequence, slot in self._slots.slot_of.items()}
        for source, target, swaps in moves:
            tokens = max(held[target], held[source] if swaps else 0)
            for half in (half for halves in self._caches for half in halves):
                kept = half[target, :, :tokens].clone() if swaps else None
                half[target, :, :tokens] = half[source, :, :tokens]
                if kept is not None:
                    half[source, :, :tokens] = kept
