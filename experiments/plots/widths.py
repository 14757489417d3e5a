"""How wide lines are that may lie on one another; for pages too, so without matplotlib."""

from __future__ import annotations


def extra_width(rank: int, of: int) -> float:
    """What the n-th of several lines is wider than the last.

    The first is the widest, so that lines that coincide all stay visible.

    >>> [extra_width(rank, 3) for rank in range(3)]
    [2.8, 1.4, 0.0]
    """
    return min(1.4, 4.2 / max(of - 1, 1)) * (of - 1 - rank)
