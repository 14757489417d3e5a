"""What every cost model's arithmetic needs: checked coefficients, whole nanoseconds, leaps.

The price of a decode-only step is a sum of (token count) x (price per token). Prices per token are
put on a grid of 2**-16 ns, so that every product and every partial sum below 2**37 ns (137 s) is a
float64 without rounding. Exact numbers may be added in any order: `first + k x slope` of a leap has
the same bits as the sum written out for step k.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError

GRID_PER_NS = 2.0**16
EXACT_BELOW_NS = 2.0**37
MAX_MS = 1e9

_ahead: NDArray[np.float64] = np.arange(1024, dtype=np.float64)


def checked(coefficients: Mapping[str, float]) -> dict[str, float]:
    """The same numbers as floats; ConfigError if one is negative, not finite or absurd.

    >>> checked({"step_ms": 10})
    {'step_ms': 10.0}
    """
    for name, value in coefficients.items():
        if not 0 <= value <= MAX_MS:
            raise ConfigError(f"{name} is {value}: a price must be a number from 0 to {MAX_MS:g}")
    return {name: float(value) for name, value in coefficients.items()}


def on_grid(price_ns: float) -> float:
    """The nearest multiple of 2**-16 ns.

    >>> on_grid(39062.5), on_grid(0.1)
    (39062.5, 0.100006103515625)
    """
    return round(price_ns * GRID_PER_NS) / GRID_PER_NS


def whole_ns(price_ns: float) -> int:
    """Nearest nanosecond (half to even), at least 1; the price is finite and not negative.

    >>> whole_ns(2.5), whole_ns(0.0)
    (2, 1)
    """
    return round(price_ns) or 1


def leap_prices_ns(first_ns: float, slope_ns: float, steps: int) -> NDArray[np.int64]:
    """`whole_ns(first_ns + k * slope_ns)` for k = 0 … steps - 1; int64, shape (steps,).

    Both are on the grid, not negative, and the last price is below `EXACT_BELOW_NS`.

    >>> leap_prices_ns(10.0, 2.5, 3).tolist()
    [10, 12, 15]
    """
    if not slope_ns:
        return np.full(steps, whole_ns(first_ns), dtype=np.int64)
    prices = _steps_ahead(steps) * slope_ns
    prices += first_ns
    np.rint(prices, out=prices)
    if first_ns < 1.0:
        np.maximum(prices, 1.0, out=prices)
    return prices.astype(np.int64)


def _steps_ahead(steps: int) -> NDArray[np.float64]:
    """0.0, 1.0, … steps - 1: a view of one array that grows on demand."""
    global _ahead
    if steps > len(_ahead):
        _ahead = np.arange(2 * steps, dtype=np.float64)
    return _ahead[:steps]
