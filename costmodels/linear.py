"""`LinearCostModel`: seven terms that price a step of a real engine well.

    step                                                         launch, weights read
    + prefill per token x P                                      GEMMs of the prompt
    + attention per token pair x sum of new x (past + new / 2)   attention of the prompt
    + prefill step, if P > 0                                     the other code path
    + decode per sequence x seqs
    + decode per context token x context                         KV cache read
    + longest context per token x longest x min(1, seqs / full)  the slowest of unequal contexts

Every coefficient is >= 0, so a price never falls when a step gets more work.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.plan import StepShape

from .pricing import EXACT_BELOW_NS, checked, leap_prices_ns, on_grid, whole_ns
from .table import CostTable, hand_written

MAX_FULL_AT = 65_536


class LinearCostModel:
    """A step's price as a sum of terms; milliseconds in, nanoseconds out. Absent terms are 0.

    longest_context_full_at_sequences: from this many sequences on, the longest context counts
    in full.

    One 4-token chunk at 10 ms a step and 1 ms a token:

    >>> LinearCostModel(step_ms=10, prefill_ms_per_token=1).step_ns(StepShape(((4, 0),), 0, 0))
    14000000

    Raises ConfigError for a negative or non-finite coefficient, or if all are 0.
    """

    __slots__ = (
        *("_attention_ns", "_context_ns", "_longest_ns", "_longest_ns_at", "_prefill_step_ns"),
        *("_sequence_ns", "_step_ns", "_token_ns", "needs_longest_context", "stamp", "table"),
    )

    def __init__(
        self,
        *,
        step_ms: float = 0.0,
        prefill_ms_per_token: float = 0.0,
        attention_ms_per_token_pair: float = 0.0,
        prefill_step_ms: float = 0.0,
        decode_ms_per_sequence: float = 0.0,
        decode_ms_per_context_token: float = 0.0,
        longest_context_ms_per_token: float = 0.0,
        longest_context_full_at_sequences: float = 1.0,
        table: CostTable | None = None,
    ) -> None:
        given = checked(
            {
                "step_ms": step_ms,
                "prefill_ms_per_token": prefill_ms_per_token,
                "attention_ms_per_token_pair": attention_ms_per_token_pair,
                "prefill_step_ms": prefill_step_ms,
                "decode_ms_per_sequence": decode_ms_per_sequence,
                "decode_ms_per_context_token": decode_ms_per_context_token,
                "longest_context_ms_per_token": longest_context_ms_per_token,
            }
        )
        full_at = longest_context_full_at_sequences
        if not any(given.values()):
            raise ConfigError("every coefficient is 0: a step must cost something")
        self._token_ns = prefill_ms_per_token * 1e6
        self._attention_ns = attention_ms_per_token_pair * 1e6
        self._prefill_step_ns = prefill_step_ms * 1e6
        self._step_ns = on_grid(step_ms * 1e6)
        self._sequence_ns = on_grid(decode_ms_per_sequence * 1e6)
        self._context_ns = on_grid(decode_ms_per_context_token * 1e6)
        self._longest_ns = on_grid(longest_context_ms_per_token * 1e6)
        self._longest_ns_at = _shares(self._longest_ns, full_at)
        self.needs_longest_context = self._longest_ns > 0
        parameters = {**given, "longest_context_full_at_sequences": float(full_at)}
        self.table = table or hand_written("linear", "linear step prices", dict(parameters))
        self.stamp = self.table.stamp

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, nanoseconds, at least 1."""
        chunks, seqs, context, longest = shape
        price = self._step_ns + seqs * self._sequence_ns + context * self._context_ns
        if self.needs_longest_context:
            price += longest * self._longest_ns_of(seqs)
        if chunks:
            price += self._prefill_ns(chunks)
        return whole_ns(price)

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price `steps` consecutive decode-only steps; int64, shape (steps,), each at least 1."""
        _, seqs, context, longest = shape
        first = self._step_ns + seqs * self._sequence_ns + context * self._context_ns
        slope = seqs * self._context_ns
        if self.needs_longest_context:
            longest_ns = self._longest_ns_of(seqs)
            first += longest * longest_ns
            slope += longest_ns
        if first + steps * slope >= EXACT_BELOW_NS:
            return np.array([self.step_ns(shape.after(k)) for k in range(steps)], dtype=np.int64)
        return leap_prices_ns(first, slope, steps)

    def _longest_ns_of(self, seqs: int) -> float:
        shares = self._longest_ns_at
        return shares[seqs] if seqs < len(shares) else self._longest_ns

    def _prefill_ns(self, chunks: tuple[tuple[int, int], ...]) -> float:
        tokens = 0
        pairs = 0.0
        for new, past in chunks:
            tokens += new
            pairs += new * (past + 0.5 * new)
        return self._prefill_step_ns + self._token_ns * tokens + self._attention_ns * pairs


def _shares(longest_ns: float, full_at: float) -> tuple[float, ...]:
    """The longest context's price per token beside 0, 1, … sequences, up to its full price."""
    if not 1 <= full_at <= MAX_FULL_AT:
        raise ConfigError(
            f"longest_context_full_at_sequences is {full_at}: must be 1 … {MAX_FULL_AT}"
        )
    return tuple(on_grid(longest_ns * (seqs / full_at)) for seqs in range(math.ceil(full_at)))
