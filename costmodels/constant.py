"""`ConstantCostModel`: one price for prompts, one for decodes, whatever their size. For tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.plan import StepShape

from .pricing import checked, whole_ns
from .table import CostTable, hand_written


class ConstantCostModel:
    """A step with prompt tokens costs prefill_ms, with decodes decode_ms, with both the sum.

    >>> model = ConstantCostModel(prefill_ms=80.0, decode_ms=8.0)
    >>> model.step_ns(StepShape(((2048, 0),), 4, 400))
    88000000
    """

    __slots__ = ("_price_ns", "needs_longest_context", "stamp", "table")

    def __init__(
        self, prefill_ms: float, decode_ms: float, *, table: CostTable | None = None
    ) -> None:
        given = checked({"prefill_ms": prefill_ms, "decode_ms": decode_ms})
        self.table = table or hand_written("constant", "constant step prices", dict(given))
        self.stamp = self.table.stamp
        self.needs_longest_context = False
        prefill_ns, decode_ns = given["prefill_ms"] * 1e6, given["decode_ms"] * 1e6
        prices = (0.0, decode_ns, prefill_ns, prefill_ns + decode_ns)
        self._price_ns = tuple(whole_ns(price) for price in prices)

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, nanoseconds, at least 1."""
        return self._price_ns[2 * bool(shape[0]) + bool(shape[1])]

    def explain(self, shape: StepShape) -> list[tuple[str, float]]:
        """(term, milliseconds) of a step; their sum is its price, to the nanosecond."""
        _, decode_ns, prefill_ns, _ = self._price_ns
        prefill_ms = prefill_ns / 1e6 if shape.chunks else 0.0
        return [("prefill", prefill_ms), ("decode", decode_ns / 1e6 if shape.decode_seqs else 0.0)]

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price `steps` consecutive decode-only steps: all the same."""
        return np.full(steps, self.step_ns(shape), dtype=np.int64)
