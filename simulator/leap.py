"""How many identical steps may be taken at once, and what they cost.

The only file that knows how to leap. A leap never changes what happens, only how often the
scheduler and the event queue are asked: cut it anywhere and the rest of it is planned again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cost_model import CostModel
from .decode_pool import DecodePool
from .errors import SimulatorError
from .plan import Holds, StepShape

LONGEST_LEAP = 1 << 14
"""Steps in one leap at most, so that its arrays stay small."""


class Priced(NamedTuple):
    """Steps with their durations: one int, or an array for several; ns."""

    steps: int
    durations: int | NDArray[np.int64]
    total_ns: int
    last_ns: int

    def ended_by(self, limit_ns: int) -> tuple[Priced, bool]:
        """(the steps that end within `limit_ns` of the start, False), or (itself, True) if none."""
        if self.total_ns <= limit_ns:
            return self, False
        if isinstance(self.durations, int):
            return self, True
        ends = self.durations.cumsum()
        steps = int(ends.searchsorted(limit_ns, side="right"))
        if steps == 0:
            return self, True
        kept = self.durations[:steps]
        return Priced(steps, kept, int(ends[steps - 1]), int(kept[-1])), False


def steps_at_once(holds: Holds, pool: DecodePool, free_blocks: int, limit: int) -> int:
    """Steps until the next finish or block shortage; at most `limit`, and 1 unless it holds."""
    if limit == 1 or holds is Holds.ONE_STEP:
        return 1
    steps = min(pool._steps_to_finish(), limit)
    return pool.steps_that_fit(free_blocks, steps) if steps > 1 else 1


def price(
    cost_model: CostModel, shape: StepShape, steps: int, cut_ns: int | None, depth: int
) -> Priced:
    """Price up to `steps` steps; a leap ends with the step that an arrival cuts it at.

    cut_ns: when, after the start, a request arrives that ends the leap; None: none does.
    depth: steps planned ahead. Sync, the arrival is seen by the plan after the step it falls in;
    async (2), that plan is already made, so one step more belongs to the leap.

    Prices grow with context, so the first one bounds how many steps can matter before the cut. A
    model whose prices fall would only make the leap shorter, never wrong.
    """
    first_ns = cost_model.step_ns(shape)
    if first_ns <= 0:
        raise SimulatorError(
            f"{type(cost_model).__name__} priced {shape} at {first_ns} ns: a step must take time"
        )
    if steps > 1 and cut_ns is not None:
        steps = min(steps, cut_ns // first_ns + depth) if cut_ns > 0 else 1
    if steps <= 1:
        return Priced(1, first_ns, first_ns, first_ns)
    durations = cost_model.leap_ns(shape, steps)
    ends = durations.cumsum()
    if cut_ns is not None and int(ends[-1]) > cut_ns:
        steps = min(steps, int(ends.searchsorted(cut_ns)) + depth)
        durations = durations[:steps]
    return Priced(steps, durations, int(ends[steps - 1]), int(durations[-1]))
