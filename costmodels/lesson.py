"""`LessonCostModel`: the round numbers of the worked example (`runway lesson`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.plan import StepShape

from .pricing import whole_ns
from .table import CostTable, hand_written

DECODE_MS = 8.0
CHUNK_MS, CHUNK_TOKENS = 10.0, 256
PREFILL_NS_PER_TOKEN = CHUNK_MS * 1e6 / CHUNK_TOKENS
"""39,062.5: a 256-token chunk takes 10 ms, a whole 2,048-token prompt 80 ms."""


class LessonCostModel:
    """8 ms if anything decodes, plus 10/256 ms per prompt token; a fused step pays both.

    252 prompt tokens beside some decodes: 8 + 252 x 10 / 256 = 17.84375 ms.

    >>> LessonCostModel().step_ns(StepShape(((252, 0),), 4, 400))
    17843750
    """

    __slots__ = ("needs_longest_context", "stamp", "table")

    def __init__(self, *, table: CostTable | None = None) -> None:
        description = "the lesson's round numbers: 8 ms to decode, 10 ms per 256 prompt tokens"
        self.table = table or hand_written("lesson", description, {})
        self.stamp = self.table.stamp
        self.needs_longest_context = False

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, nanoseconds, at least 1."""
        price = DECODE_MS * 1e6 if shape.decode_seqs else 0.0
        if shape.chunks:
            price += PREFILL_NS_PER_TOKEN * shape.prefill_tokens
        return whole_ns(price)

    def explain(self, shape: StepShape) -> list[tuple[str, float]]:
        """(term, milliseconds) of a step; their sum is its price, to the nanosecond."""
        tokens = shape.prefill_tokens
        return [
            (f"prefill of {tokens} tokens", tokens * CHUNK_MS / CHUNK_TOKENS),
            ("decode", DECODE_MS if shape.decode_seqs else 0.0),
        ]

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price `steps` consecutive decode-only steps: all the same."""
        return np.full(steps, self.step_ns(shape), dtype=np.int64)
