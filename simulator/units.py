"""Time inside Runway is an integer number of nanoseconds; seconds exist only at the edges.

Integers make sums exact in any order, so a leap over many steps ends on the same instant
as the same steps taken one by one.
"""

from __future__ import annotations

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000

NEVER_NS = -(2**62)
"""In a column of instants: this has not happened."""


def seconds_to_ns(seconds: float) -> int:
    """Nearest nanosecond (half to even).

    >>> seconds_to_ns(0.052)
    52000000
    """
    return round(seconds * NS_PER_S)


def ms_to_ns(milliseconds: float) -> int:
    """Nearest nanosecond (half to even).

    >>> ms_to_ns(17.84375)
    17843750
    """
    return round(milliseconds * NS_PER_MS)


def ns_to_seconds(nanoseconds: int) -> float:
    """Seconds as a float, for reports.

    >>> ns_to_seconds(3_536_999_000_000)
    3536.999
    """
    return nanoseconds / NS_PER_S


def ns_to_ms(nanoseconds: int) -> float:
    """Milliseconds as a float, for reports.

    >>> ns_to_ms(17_843_750)
    17.84375
    """
    return nanoseconds / NS_PER_MS
