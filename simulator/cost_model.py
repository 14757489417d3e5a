"""The `CostModel` protocol. It lives here because its consumer, the engine, owns it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .plan import StepShape


@runtime_checkable
class CostModel(Protocol):
    """Prices steps in integer nanoseconds.

    The two methods must agree bit for bit: element k of `leap_ns(shape, n)` equals
    `step_ns(shape.after(k))`. Arithmetic with only + - * / and comparisons on Python floats and
    on float64 arrays gives the same bits; `**`, dot products and reordered sums do not.

    A model whose decode prices lie on a straight line may also have
    `line(shape) -> (first, slope) | None`, two integers such that `step_ns(shape.after(k))` equals
    `(first + k * slope) >> 16`; a leap is then summed in closed form, without an array. None: not
    for this shape. A model that keeps count of what it prices may have `uncounted()`, which gives
    the same prices to a policy that only asks.

    A model may have `pause_saving_ns(shape, pause_ns)`: nanoseconds, below the price, that a step
    with prompts saves if the last such step ended `pause_ns` before it starts (GPU boost clocks).
    """

    needs_longest_context: bool
    """True if `StepShape.longest_context` must be filled in (it costs the engine a heap)."""

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, nanoseconds, > 0."""

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price `steps` consecutive decode-only steps; shape (steps,), nanoseconds, each > 0."""
