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
from mypy_extensions import mypyc_attr
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.plan import StepShape

from .lines import BITS, HALF, MAX_FULL_AT, ONE_NS, fixed, prices_along, straight
from .pricing import checked
from .table import CostTable, hand_written


@mypyc_attr(allow_interpreted_subclasses=True)
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
        "_context",
        "_half_pair",
        "_longest",
        "_longest_at",
        "_prefill_step",
        "_sequence",
        "_step",
        "_token",
        "needs_longest_context",
        "stamp",
        "table",
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
        self._token = fixed(prefill_ms_per_token)
        self._half_pair = fixed(attention_ms_per_token_pair / 2)
        self._prefill_step = fixed(prefill_step_ms)
        self._step = fixed(step_ms) + HALF
        self._sequence = fixed(decode_ms_per_sequence)
        self._context = fixed(decode_ms_per_context_token)
        self._longest = fixed(longest_context_ms_per_token)
        self._longest_at = _shares(self._longest, full_at)
        self.needs_longest_context = self._longest > 0
        parameters = {**given, "longest_context_full_at_sequences": float(full_at)}
        self.table = table or hand_written("linear", "linear step prices", dict(parameters))
        self.stamp = self.table.stamp

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, to the nearest nanosecond (halves up), at least 1."""
        chunks, seqs, context, longest = shape
        price = self._step + seqs * self._sequence + context * self._context
        if self.needs_longest_context:
            price += longest * self._longest_of(seqs)
        if chunks:
            price += self._prefill_step
            for new, past in chunks:
                price += new * (self._token + self._half_pair * (2 * past + new))
        return price >> BITS or 1

    def explain(self, shape: StepShape) -> list[tuple[str, float]]:
        """(term, milliseconds) of a step; their sum is its price, to the nanosecond."""
        chunks, seqs, context, longest = shape
        prompt = shape.prefill_tokens
        pairs = sum(new * (2 * past + new) for new, past in chunks)
        terms = [
            ("step", self._step - HALF),
            ("prefill step", self._prefill_step if chunks else 0),
            (f"prefill of {prompt} tokens", prompt * self._token),
            (f"attention of {pairs / 2:g} token pairs", pairs * self._half_pair),
            (f"decode of {seqs} sequences", seqs * self._sequence),
            (f"decode context of {context} tokens", context * self._context),
        ]
        if self.needs_longest_context:
            each = self._longest_of(seqs)
            terms.append((f"longest context of {longest} tokens", longest * each))
        return [(term, price / ONE_NS / 1e6) for term, price in terms]

    def line(self, shape: StepShape) -> tuple[int, int] | None:
        """(first, slope): k steps later, a decode-only step costs (first + k x slope) >> 16 ns.

        None for a step under 1 ns, whose price is lifted and so no straight line.
        """
        return straight(*self._line(shape))

    def _line(self, shape: StepShape) -> tuple[int, int]:
        _, seqs, context, longest = shape
        first = self._step + seqs * self._sequence + context * self._context
        slope = seqs * self._context
        if self.needs_longest_context:
            each = self._longest_of(seqs)
            first += longest * each
            slope += each
        return first, slope

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price `steps` consecutive decode-only steps; int64, shape (steps,), each at least 1."""
        return prices_along(*self._line(shape), steps)

    def _longest_of(self, seqs: int) -> int:
        shares = self._longest_at
        return shares[seqs] if seqs < len(shares) else self._longest


def _shares(longest_ns: float, full_at: float) -> tuple[int, ...]:
    """The longest context's price per token beside 0, 1, … sequences, up to its full price."""
    if not 1 <= full_at <= MAX_FULL_AT:
        raise ConfigError(
            f"longest_context_full_at_sequences is {full_at}: must be 1 … {MAX_FULL_AT}"
        )
    return tuple(round(longest_ns * (seqs / full_at)) for seqs in range(math.ceil(full_at)))
