"""How many identical steps may be taken at once, and what they cost.

The only file that knows how to leap. A leap never changes what happens, only how often the
scheduler and the event queue are asked: cut it anywhere and the rest of it is planned again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from operator import index
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from .cost_model import CostModel
from .errors import SimulatorError
from .plan import StepShape

BITS = 16
ONE_NS = 1 << BITS
"""Prices of a line are in units of 2**-16 ns."""

SHORT = 8
"""Sums of so few steps are quicker term by term."""

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
    first_ns = step_price(cost_model, shape)
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


def steps_until(first: int, slope: int, steps: int, cut_ns: int, depth: int) -> tuple[int, int]:
    """At most `steps` steps of a line, ended by an arrival; and their sum, ns.

    cut_ns: when, after the start, the arrival cuts; depth: steps planned ahead (see `price`).
    """
    if cut_ns <= 0:
        return 1, first >> BITS
    taken, total_ns = steps_reaching(first, slope, steps, cut_ns)
    while depth > 1 and taken < steps:
        total_ns += first + slope * taken >> BITS
        taken, depth = taken + 1, depth - 1
    return taken, total_ns


def steps_within(
    first: int, slope: int, steps: int, total_ns: int, limit_ns: int
) -> tuple[int, int]:
    """Of `steps` steps of a line that take `total_ns`, those that end by `limit_ns`; maybe none."""
    if total_ns > limit_ns:
        steps, total_ns = steps_reaching(first, slope, steps, limit_ns + 1)
        steps -= 1
        total_ns -= first + slope * steps >> BITS
    return steps, total_ns


def steps_reaching(first: int, slope: int, steps: int, cut_ns: int) -> tuple[int, int]:
    """Steps of a line until their sum reaches `cut_ns`, at most `steps`; and that sum, ns.

    The guess solves the line without its rounding; it is then put right step by step.
    """
    most = cut_ns // (first >> BITS) + 1
    if most < SHORT or steps < SHORT:
        return _few_steps_reaching(first, slope, steps if steps < most else most, cut_ns)
    taken = steps
    if (first + slope * (steps - 1) >> BITS) * steps > cut_ns:
        wanted = cut_ns << BITS
        if slope:
            middle = first - 0.5 * slope
            guess = int((sqrt(middle * middle + 2.0 * slope * wanted) - middle) / slope)
        else:
            guess = wanted // first
        if guess < steps:
            taken = guess + 1
    total_ns = line_sum(first, slope, taken)
    while taken > 1:
        last_ns = first + slope * (taken - 1) >> BITS
        if total_ns - last_ns < cut_ns:
            break
        total_ns -= last_ns
        taken -= 1
    while total_ns < cut_ns and taken < steps:
        total_ns += first + slope * taken >> BITS
        taken += 1
    return taken, total_ns


def _few_steps_reaching(first: int, slope: int, steps: int, cut_ns: int) -> tuple[int, int]:
    total_ns = taken = 0
    while taken < steps and total_ns < cut_ns:
        total_ns += first >> BITS
        first += slope
        taken += 1
    return taken, total_ns


def line_sum(first: int, slope: int, steps: int) -> int:
    """Sum of floor((first + k x slope) / 2**16) for k = 0 ... steps - 1, exactly.

    Source: Graham, Knuth, Patashnik, Concrete Mathematics, section 3.5: a Euclid-like recursion.
    """
    total = (slope >> BITS) * (steps * (steps - 1) >> 1) + (first >> BITS) * steps
    unit, slope = ONE_NS, slope & (ONE_NS - 1)
    reach = slope * steps + (first & (ONE_NS - 1))
    while reach >= unit:  # quotient and rest by hand: quicker than `divmod`
        steps = reach // unit
        first = reach - steps * unit
        whole = unit // slope
        unit, slope = slope, unit - whole * slope
        total += whole * (steps * (steps - 1) >> 1)
        if first >= unit:
            whole = first // unit
            first -= whole * unit
            total += whole * steps
        reach = slope * steps + first
    return total


def step_price(cost_model: CostModel, shape: StepShape) -> int:
    """What a step costs, ns, by whatever cost model a user may have written.

    Raises:
        SimulatorError: no whole number, or none above 0.
    """
    ask: Callable[[StepShape], object] = cost_model.step_ns
    price_ns = ask(shape)
    if not isinstance(price_ns, int):
        try:
            price_ns = index(price_ns)  # type: ignore[arg-type]  # that is the question
        except TypeError:
            refuse_price(cost_model, shape, price_ns)
    if price_ns <= 0:
        refuse_price(cost_model, shape, price_ns)
    return price_ns


def refuse_price(cost_model: CostModel, shape: StepShape, price_ns: object) -> NoReturn:
    """Raise: a step must take time, in whole nanoseconds.

    Raises:
        SimulatorError: always.
    """
    raise SimulatorError(
        f"{type(cost_model).__name__} priced {shape} at {price_ns} ns: a step must take time, a "
        "whole number of nanoseconds"
    )
