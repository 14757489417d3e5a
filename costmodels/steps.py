"""`StepsCostModel`: a step that reads the weights until there is too much to compute.

    step                                                       launch, weights read once
    + compute per token x max(0, tokens + pairs x q - knee)    arithmetic beyond the weights' read
    + prefill step, if the step computes any prompt            the other code path
    + continued prompt, if a chunk has a past                  its attention runs once more, on it
    + uncaptured step, if beyond the captured CUDA graphs      kernels launched one by one
    + decode batch of the captured size that holds seqs        weights of more experts, padding
    + decode per sequence x seqs
    + decode per context token x context                       KV cache read
    + longest context per token x longest x share              the one thread block that works last

(or the larger of the last two, if `decode_attention` is max), and at least `uncaptured_floor_ms`
beyond the captured graphs: the host cannot launch faster.
`tokens` are prompt tokens and decodes together, `pairs` the token pairs of prompt attention, sum of
new x (past + new / 2), `q` the tokens one pair is worth, and the knee is where arithmetic overtakes
the read of the weights (Williams, Waterman and Patterson, "Roofline", CACM 2009). A straight line
through the same steps is as good on average, and 12 % off where two prompts share a step.

In a step with prompts, tokens are rounded up to whole tiles of the matrix kernels, where a tile is
given: 1,025 tokens cost what 1,152 do. After a pause in computing prompts such a step is quicker
(`BoostClock`), if the engine says how long ago the last one ended.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.plan import StepShape

from .boost import BoostClock
from .decode_batches import DecodeBatches
from .lines import BITS, HALF, ONE_NS, fixed, prices_along, straight
from .steps_parameters import Given, StepsParameters
from .table import CostTable, hand_written


class StepsCostModel:
    """A step's price as a sum of terms with a knee; milliseconds in, nanoseconds out.

    The parameters are those of `StepsParameters`; absent terms are 0.

    300 prompt tokens, 100 beyond the knee:

    >>> model = StepsCostModel(step_ms=10, compute_ms_per_token=0.05, knee_tokens=200)
    >>> [model.step_ns(StepShape(((new, 0),), 0, 0)) / 1e6 for new in (100, 300)]
    [10.0, 15.0]

    Raises ConfigError for a negative or non-finite parameter, or if a step would cost nothing.
    """

    __slots__ = (
        *("_batches", "_captured", "_compute", "_context", "_continued", "_floor", "_half_pair"),
        *("_is_max", "_knee", "_parts", "_prefill_step", "_uncaptured", "needs_longest_context"),
        *("_boost", "_tile", "stamp", "table"),
    )

    def __init__(
        self,
        *,
        table: CostTable | None = None,
        **parameters: Given,
    ) -> None:
        given = StepsParameters.checked(parameters)
        compute = given.compute_ms_per_token
        self._compute = fixed(compute)
        self._knee = fixed(compute * given.knee_tokens)
        self._half_pair = fixed(compute * given.attention_tokens_per_pair / 2)
        self._prefill_step = fixed(given.prefill_step_ms)
        self._continued = fixed(given.continued_prompt_ms)
        self._uncaptured = fixed(given.uncaptured_step_ms)
        self._floor = fixed(given.uncaptured_floor_ms) + HALF
        self._captured = given.captured_tokens
        self._tile = given.compute_tile_tokens
        self._boost = BoostClock(given.boost_saving_ms, given.boost_recovery_ms)
        self._context = fixed(given.decode_ms_per_context_token)
        self._is_max = given.decode_attention == "max"
        self._batches = DecodeBatches(given)
        self._parts: dict[int, tuple[int, int]] = {}
        self.needs_longest_context = given.longest_context_ms_per_token > 0
        self.table = table or hand_written("steps", "step prices with a knee", given.described())
        self.stamp = self.table.stamp

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, to the nearest nanosecond (halves up), at least 1."""
        chunks, seqs, context, longest = shape
        price, each = self._parts.get(seqs) or self._part(seqs)
        read, last = context * self._context, longest * each
        if not self._is_max:
            price += read + last
        else:
            price += read if read > last else last
        compute = seqs * self._compute - self._knee
        if not chunks:
            return (price + compute if compute > 0 else price) >> BITS or 1
        price += self._prefill_step
        tokens, continued = seqs, 0
        for new, past in chunks:
            tokens += new
            compute += new * (self._compute + self._half_pair * (2 * past + new))
            if past:
                continued = self._continued
        price += continued
        compute += -tokens % self._tile * self._compute
        if compute > 0:
            price += compute
        if tokens > self._captured:
            price += self._uncaptured
            if price < self._floor:
                price = self._floor
        return price >> BITS or 1

    def pause_saving_ns(self, shape: StepShape, pause_ns: int) -> int:
        """What a step with prompts saves at the boost clock, below its price; ns."""
        if not (self._boost and shape.chunks):
            return 0
        return self._boost.saving_ns(self._compute_of(shape)[1] >> BITS, pause_ns)

    def line(self, shape: StepShape) -> tuple[int, int] | None:
        """(first, slope): k steps later, a decode-only step costs (first + k x slope) >> 16 ns.

        None for a step under 1 ns, whose price is lifted, and where the larger of the two terms
        of `decode_attention` will be another one: there prices are no straight line.
        """
        line, other = self._lines(shape)
        if other is None or (line[0] >= other[0] and line[1] >= other[1]):
            return straight(*line)
        if other[0] >= line[0] and other[1] >= line[1]:
            return straight(*other)
        return None

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price `steps` consecutive decode-only steps; int64, shape (steps,), each at least 1."""
        line, other = self._lines(shape)
        prices = prices_along(*line, steps)
        if other is None:
            return prices
        larger: NDArray[np.int64] = np.maximum(prices, prices_along(*other, steps))
        return larger

    def explain(self, shape: StepShape) -> list[tuple[str, float]]:
        """(term, milliseconds) of a step; their sum is its price, to the nanosecond."""
        chunks, seqs, context, longest = shape
        pairs = sum(new * (2 * past + new) for new, past in chunks)
        tokens, compute = self._compute_of(shape)
        beyond = bool(chunks) and seqs + shape.prefill_tokens > self._captured
        batches = self._batches
        read, last = context * self._context, longest * batches.longest(seqs)
        if self._is_max:
            read, last = (read, 0) if read > last else (0, last)
        terms = [
            ("step", batches.step),
            (f"compute of {tokens} tokens, {pairs / 2:g} pairs, past the knee", compute),
            ("prefill step", self._prefill_step if chunks else 0),
            ("continued prompt", self._continued if any(past for _, past in chunks) else 0),
            ("uncaptured step", self._uncaptured if beyond else 0),
            (f"decode batch of {batches.padded(seqs)}", batches.level(seqs)),
            (f"decode of {seqs} sequences", seqs * batches.sequence),
            (f"decode context of {context} tokens", read),
            (f"longest context of {longest} tokens", last),
        ]
        missing = self._floor - HALF - sum(price for _, price in terms)
        if beyond and missing > 0:
            terms.append(("waiting for the host's launches", missing))
        optional = ("continued", "uncaptured", "decode batch")
        return [
            (term, price / ONE_NS / 1e6)
            for term, price in terms
            if price or not term.startswith(optional)
        ]

    def _compute_of(self, shape: StepShape) -> tuple[int, int]:
        """(tokens, in whole tiles beside prompts; their price beyond the knee)."""
        tokens, pairs = shape.decode_seqs, 0
        for new, past in shape.chunks:
            tokens += new
            pairs += new * (2 * past + new)
        if shape.chunks:
            tokens += -tokens % self._tile
        return tokens, max(tokens * self._compute + pairs * self._half_pair - self._knee, 0)

    def _part(self, seqs: int) -> tuple[int, int]:
        """What does not depend on contexts of a step with so many decodes, and on the longest."""
        batches = self._batches
        price = batches.step + HALF + batches.level(seqs) + seqs * batches.sequence
        part = self._parts[seqs] = (price, batches.longest(seqs))
        return part

    def _lines(self, shape: StepShape) -> tuple[tuple[int, int], tuple[int, int] | None]:
        """The line of decode-only prices; with `max` two, of which the higher counts."""
        _, seqs, context, longest = shape
        price, each = self._parts.get(seqs) or self._part(seqs)
        price += max(seqs * self._compute - self._knee, 0)
        read, slope = context * self._context, seqs * self._context
        if not self._is_max:
            return (price + read + longest * each, slope + each), None
        return (price + read, slope), (price + longest * each, each)
