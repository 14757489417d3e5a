"""What the terms of the `steps` cost model multiply, step by step of a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodels.decode_batches import attention_waves
from costmodels.table import Value

from .step_log import Bools, Floats

EXPERTS = "expert_ms"
"""A term of the fit alone: the model gets it as prices of captured batches (`Form.parameters`)."""
DENSE = ("step_ms", "compute_ms_per_token", "prefill_step_ms", "continued_prompt_ms")


class StepTable(NamedTuple):
    """Steps as columns; shape (steps,) each.

    prefill_tokens; token_pairs of prompt attention; decode_seqs; decode_context_tokens;
    longest_context; continued: whether a chunk has a past; measured_ms; group: consecutive numbers,
    steps with the same one are priced together.
    """

    prefill_tokens: Floats
    token_pairs: Floats
    decode_seqs: Floats
    decode_context_tokens: Floats
    longest_context: Floats
    continued: Bools
    measured_ms: Floats
    group: NDArray[np.int64]

    def rows(self, chosen: NDArray[np.int64] | Bools) -> StepTable:
        """Some of the steps, in order."""
        return StepTable._make(column[chosen] for column in self)

    @property
    def has_prompt(self) -> Bools:
        """Steps that compute any prompt."""
        result: Bools = self.prefill_tokens > 0
        return result


class ExpertReads(NamedTuple):
    """How many experts of a layer a batch reads: each token is sent to `per_token` of them.

    Tokens that choose at random among `evenly_used` experts meet, in a batch of n, n x per_token
    at most and evenly_used x (1 - (1 - per_token / evenly_used)^n) on average. A router favours
    some experts, and texts that are alike share them: `evenly_used` is then below the number that
    the model has. ms: of reading one expert's weights in every layer; None: fitted.
    """

    evenly_used: int
    per_token: int
    ms: float | None = None

    def beyond_one(self, batch: Floats) -> Floats:
        """Experts that so many tokens read beyond those of a single one."""
        share = self.per_token / self.evenly_used
        read: Floats = self.evenly_used * (1 - (1 - share) ** np.maximum(batch, 1))
        return np.maximum(read - self.per_token, 0.0)


@dataclass(frozen=True, slots=True)
class Form:
    """Which terms a fit has, and the numbers that it does not solve for.

    knee_tokens, attention_tokens_per_pair: of the compute term. captured_tokens: of the largest
    CUDA graph; None: nothing beyond it costs extra. has_floor: and a step beyond it has a floor.
    batch_sizes: one level of decode price for each; experts: a level that follows from the experts
    a batch reads; neither: a price per sequence. padded_sizes: the captured batches, for experts
    and for the longest context. full_at, wave: how it counts (`StepsParameters`);
    both None: not at all. is_max: the larger of it and the KV read, not their sum.
    block_ms_per_token, read_ms_per_token: prices of the longest context and of all contexts, where
    they are not fitted. absent: terms that are 0.
    """

    knee_tokens: float = 0.0
    attention_tokens_per_pair: float = 0.0
    captured_tokens: int | None = None
    has_floor: bool = False
    batch_sizes: tuple[int, ...] = ()
    padded_sizes: tuple[int, ...] = ()
    experts: ExpertReads | None = None
    full_at: int | None = None
    wave: float | None = None
    is_max: bool = False
    block_ms_per_token: float | None = None
    read_ms_per_token: float | None = None
    absent: tuple[str, ...] = ()

    @property
    def fixed(self) -> dict[str, float]:
        """Prices that are not fitted, by term."""
        known = {
            "decode_ms_per_context_token": self.read_ms_per_token,
            "longest_context_ms_per_token": self.block_ms_per_token,
            EXPERTS: self.experts.ms if self.experts else None,
            **dict.fromkeys(self.absent, 0.0),
        }
        return {term: price for term, price in known.items() if price is not None}

    def without(self, term: str) -> Form:
        """The same form with a term at 0."""
        return replace(self, absent=(*self.absent, term))

    @property
    def has_longest(self) -> bool:
        """Whether the longest context counts."""
        return bool(self.full_at or self.wave)

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the columns of `columns`; levels are increments from one size to the next."""
        names = [*DENSE]
        if self.captured_tokens is not None:
            names.append("uncaptured_step_ms")
        names += [f"decode_batch_ms[{size}]" for size in self.batch_sizes[1:]]
        if self.experts:
            names.append(EXPERTS)
        elif not self.batch_sizes:
            names.append("decode_ms_per_sequence")
        names.append("decode_ms_per_context_token")
        return (*names, "longest_context_ms_per_token") if self.has_longest else tuple(names)

    def columns(self, steps: StepTable) -> Floats:
        """What each of `terms` multiplies; shape (steps, terms)."""
        tokens = steps.prefill_tokens + steps.decode_seqs
        work = tokens + self.attention_tokens_per_pair * steps.token_pairs - self.knee_tokens
        prompt = steps.has_prompt.astype(np.float64)
        parts = [np.ones(len(tokens)), np.maximum(work, 0.0), prompt, steps.continued * prompt]
        if self.captured_tokens is not None:
            parts.append(self.uncaptured(steps).astype(np.float64))
        parts += [(steps.decode_seqs > size).astype(np.float64) for size in self.batch_sizes[:-1]]
        if self.experts:
            parts.append(self._experts_read(self.experts, steps))
        elif not self.batch_sizes:
            parts.append(steps.decode_seqs)
        parts.append(steps.decode_context_tokens)
        if self.has_longest:
            parts.append(steps.longest_context * self._shares(steps.decode_seqs))
        return np.stack(parts, axis=1)

    def uncaptured(self, steps: StepTable) -> Bools:
        """Steps with prompts and more tokens than the largest CUDA graph."""
        if self.captured_tokens is None:
            return np.zeros(len(steps.group), dtype=np.bool_)
        tokens = steps.prefill_tokens + steps.decode_seqs
        result: Bools = steps.has_prompt & (tokens > self.captured_tokens)
        return result

    def parameters(self, coefficients: Mapping[str, float], floor_ms: float) -> dict[str, Value]:
        """As `StepsParameters` takes them, without terms of 0; rounded to six digits."""
        given: dict[str, Value] = {
            name: tidy(value)
            for name, value in coefficients.items()
            if value and name != EXPERTS and not name.startswith("decode_batch_ms")
        }
        if given.get("compute_ms_per_token"):
            given["knee_tokens"] = self.knee_tokens
            given["attention_tokens_per_pair"] = tidy(self.attention_tokens_per_pair)
        if floor_ms:
            given["uncaptured_floor_ms"] = tidy(floor_ms)
        if floor_ms or given.get("uncaptured_step_ms"):
            given["captured_tokens"] = self.captured_tokens
        levels = self._levels(coefficients)
        if any(levels):
            given["decode_batch_ms"] = [tidy(level) for level in levels]
        if given.get("longest_context_ms_per_token"):
            if self.is_max:
                given["decode_attention"] = "max"
            if self.wave:
                given["longest_context_sequences_per_wave"] = self.wave
            else:
                given["longest_context_full_at_sequences"] = self.full_at
        if "decode_batch_ms" in given or "longest_context_sequences_per_wave" in given:
            given["decode_batch_sizes"] = list(self.padded_sizes)
        return given

    def _levels(self, coefficients: Mapping[str, float]) -> list[float]:
        """Price of each captured batch beyond that of one sequence; [] without such prices."""
        if self.experts:
            read = self.experts.beyond_one(np.array(self.padded_sizes, dtype=np.float64))
            return list((coefficients[EXPERTS] * read).tolist())
        steps = [coefficients.get(f"decode_batch_ms[{size}]", 0.0) for size in self.batch_sizes]
        return list(np.cumsum(steps).tolist())

    def _experts_read(self, experts: ExpertReads, steps: StepTable) -> Floats:
        """Experts that the decodes read beyond those of a single one, by their captured batch."""
        found, back = np.unique(steps.decode_seqs, return_inverse=True)
        padded = np.array([self._padded(int(count)) for count in found], dtype=np.float64)
        return experts.beyond_one(padded)[back]

    def _shares(self, seqs: Floats) -> Floats:
        if self.full_at:
            return np.minimum(1.0, seqs / self.full_at)
        assert self.wave is not None
        found, back = np.unique(seqs, return_inverse=True)
        shares = [0.0]
        for count in found.tolist()[1:] if found[0] == 0 else found.tolist():
            parts, waves = attention_waves(int(count), self._padded(int(count)), self.wave)
            shares.append(waves / parts)
        return np.array(shares if found[0] == 0 else shares[1:])[back]

    def _padded(self, count: int) -> int:
        return next((size for size in self.padded_sizes if size >= count), count)


def tidy(value: float) -> float:
    """Six significant digits."""
    return float(f"{float(value):.6g}")
