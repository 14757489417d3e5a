"""`StepsCostModel`: a step that reads the weights until there is too much to compute.

    step                                                       launch, weights read once
    + compute per token x max(0, tokens + pairs x q - knee)    arithmetic beyond the weights' read
    + prefill step, if the step computes any prompt            the other code path
    + decode per sequence x seqs
    + decode per context token x context                       KV cache read
    + longest context per token x longest x min(1, seqs / full)

`tokens` are prompt tokens and decodes together, `pairs` the token pairs of prompt attention, sum of
new x (past + new / 2), `q` the tokens one pair is worth, and the knee is where arithmetic overtakes
the read of the weights (Williams, Waterman and Patterson, "Roofline", CACM 2009). A straight line
through the same steps is as good on average, and 12 % off where two prompts share a step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.plan import StepShape

from .lines import BITS, HALF, MAX_FULL_AT, ONE_NS, fixed, prices_along, straight
from .pricing import checked
from .table import CostTable, hand_written

"""Of the engine's fixed point: see `CostModel.line`."""


class StepsCostModel:
    """A step's price as a sum of terms with a knee; milliseconds in, nanoseconds out.

    knee_tokens: below it, tokens cost nothing beyond `step_ms`. attention_tokens_per_pair: about
    1/30,000 for a 32B model (`ModelConfig.attention_tokens_per_pair`), times 1 to 2.5 where
    attention runs at a lower share of the peak. Absent terms are 0.

    300 prompt tokens, 100 beyond the knee:

    >>> model = StepsCostModel(step_ms=10, compute_ms_per_token=0.05, knee_tokens=200)
    >>> [model.step_ns(StepShape(((new, 0),), 0, 0)) / 1e6 for new in (100, 300)]
    [10.0, 15.0]

    Raises ConfigError for a negative or non-finite parameter, or if a step would cost nothing.
    """

    __slots__ = (
        *("_compute", "_context", "_full_at", "_half_pair", "_knee", "_longest", "_prefill_step"),
        *("_sequence", "_step", "needs_longest_context", "stamp", "table"),
    )

    def __init__(
        self,
        *,
        step_ms: float,
        compute_ms_per_token: float = 0.0,
        knee_tokens: float = 0.0,
        attention_tokens_per_pair: float = 0.0,
        prefill_step_ms: float = 0.0,
        decode_ms_per_sequence: float = 0.0,
        decode_ms_per_context_token: float = 0.0,
        longest_context_ms_per_token: float = 0.0,
        longest_context_full_at_sequences: int = 1,
        table: CostTable | None = None,
    ) -> None:
        full_at = longest_context_full_at_sequences
        _check(step_ms, full_at)
        given = checked(
            {
                **{"step_ms": step_ms, "compute_ms_per_token": compute_ms_per_token},
                **{"knee_tokens": knee_tokens, "prefill_step_ms": prefill_step_ms},
                "attention_tokens_per_pair": attention_tokens_per_pair,
                "decode_ms_per_sequence": decode_ms_per_sequence,
                "decode_ms_per_context_token": decode_ms_per_context_token,
                "longest_context_ms_per_token": longest_context_ms_per_token,
            }
        )
        self._step = fixed(step_ms) + HALF
        self._compute = fixed(compute_ms_per_token)
        self._knee = fixed(compute_ms_per_token * knee_tokens)
        self._half_pair = fixed(compute_ms_per_token * attention_tokens_per_pair / 2)
        self._prefill_step = fixed(prefill_step_ms)
        self._sequence = fixed(decode_ms_per_sequence)
        self._context = fixed(decode_ms_per_context_token)
        self._longest = fixed(longest_context_ms_per_token)
        self._full_at = full_at
        self.needs_longest_context = self._longest > 0
        parameters = {**given, "longest_context_full_at_sequences": full_at}
        self.table = table or hand_written("steps", "step prices with a knee", dict(parameters))
        self.stamp = self.table.stamp

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, to the nearest nanosecond (halves up), at least 1."""
        chunks, seqs, context, longest = shape
        price = self._step + seqs * self._sequence + context * self._context
        compute = seqs * self._compute - self._knee
        if self._longest:
            price += longest * self._longest_of(seqs)
        if chunks:
            price += self._prefill_step
            for new, past in chunks:
                compute += new * (self._compute + self._half_pair * (2 * past + new))
        if compute > 0:
            price += compute
        return price >> BITS or 1

    def line(self, shape: StepShape) -> tuple[int, int] | None:
        """(first, slope): k steps later, a decode-only step costs (first + k x slope) >> 16 ns.

        None for a step under 1 ns, whose price is lifted and so no straight line.
        """
        return straight(*self._line(shape))

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price `steps` consecutive decode-only steps; int64, shape (steps,), each at least 1."""
        return prices_along(*self._line(shape), steps)

    def explain(self, shape: StepShape) -> list[tuple[str, float]]:
        """(term, milliseconds) of a step; their sum is its price, to the nanosecond."""
        chunks, seqs, context, longest = shape
        tokens = seqs + shape.prefill_tokens
        pairs = sum(new * (2 * past + new) for new, past in chunks)
        compute = tokens * self._compute + pairs * self._half_pair - self._knee
        terms = [
            ("step", self._step - HALF),
            (f"compute of {tokens} tokens, {pairs / 2:g} pairs, past the knee", max(compute, 0)),
            ("prefill step", self._prefill_step if chunks else 0),
            (f"decode of {seqs} sequences", seqs * self._sequence),
            (f"decode context of {context} tokens", context * self._context),
            (f"longest context of {longest} tokens", longest * self._longest_of(seqs)),
        ]
        return [(term, price / ONE_NS / 1e6) for term, price in terms]

    def _line(self, shape: StepShape) -> tuple[int, int]:
        _, seqs, context, longest = shape
        each = self._longest_of(seqs)
        first = self._step + seqs * self._sequence + context * self._context + longest * each
        first += max(seqs * self._compute - self._knee, 0)
        return first, seqs * self._context + each

    def _longest_of(self, seqs: int) -> int:
        return self._longest * min(seqs, self._full_at) // self._full_at


def _check(step_ms: float, full_at: int) -> None:
    if not step_ms:
        raise ConfigError("step_ms is 0: every step reads the weights, and that takes time")
    if not 1 <= full_at <= MAX_FULL_AT:
        raise ConfigError(
            f"longest_context_full_at_sequences is {full_at}: must be 1 to {MAX_FULL_AT}"
        )
