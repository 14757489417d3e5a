"""Checks of single settings, and the largest numbers a workload may hold."""

from __future__ import annotations

import math

from simulator.errors import WorkloadError

MAX_TOKENS = 2**31 - 1
"""Longest prompt or output: sums over a billion such rows still fit 64 bits."""

MAX_NS = 2**62
"""Latest arrival, 146 years: the clock and any sum of two times still fit 64 bits."""


def positive(name: str, value: float) -> float:
    """`value` if it is finite and above 0.

    Raises:
        WorkloadError: otherwise.
    """
    if not (math.isfinite(value) and value > 0):
        raise WorkloadError(f"{name} {value} must be a finite number above 0")
    return float(value)


def at_least(name: str, value: float, low: int) -> int:
    """`value` if it is a whole number of at least `low`.

    Raises:
        WorkloadError: otherwise.
    """
    if isinstance(value, bool) or not math.isfinite(value) or value != int(value) or value < low:
        raise WorkloadError(f"{name} {value} must be a whole number of at least {low}")
    return int(value)


def shortest(value: float) -> str:
    """The shortest text that reads back as the same number.

    >>> shortest(8.0), shortest(0.1)
    ('8', '0.1')
    """
    return repr(float(value)).removesuffix(".0")
