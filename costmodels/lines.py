"""Prices on a straight line: whole numbers of 2**-16 ns, so that any sum of them is exact.

A decode-only step k steps later costs (first + k x slope) >> 16 ns; halves go up because `HALF` is
part of `first`. A leap is then summed in closed form (`simulator.leap`), or unfolded here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BITS = 16
ONE_NS = 1 << BITS
HALF = ONE_NS >> 1

MAX_FULL_AT = 65_536
"""Sequences at which the longest context may have its full price, at most."""


def fixed(price_ms: float) -> int:
    """The nearest multiple of 2**-16 ns.

    >>> fixed(1.0) == 1_000_000 * ONE_NS
    True
    """
    return round(price_ms * 1e6 * ONE_NS)


def straight(first: int, slope: int) -> tuple[int, int] | None:
    """The line; None if it starts under 1 ns, where prices are lifted and so not straight.

    >>> straight(3 * ONE_NS, 7), straight(HALF, 7)
    ((196608, 7), None)
    """
    return (first, slope) if first >> BITS else None


def prices_along(first: int, slope: int, steps: int) -> NDArray[np.int64]:
    """The prices of `steps` consecutive steps, ns, each at least 1; int64, shape (steps,).

    >>> prices_along(10 * ONE_NS + HALF, 5 * HALF, 3).tolist()
    [10, 13, 15]
    """
    prices: NDArray[np.int64] = np.maximum((np.arange(steps) * slope + first) >> BITS, 1)
    return prices
