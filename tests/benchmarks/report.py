"""Tables of text, and the three numbers that say how far repeated runs agree."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median


def write(line: str = "") -> None:
    """One line of the report, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def write_row(cells: Sequence[object], width: int = 12) -> None:
    """The first cell to the left, the others to the right.

    >>> write_row(["load", "wall s"], width=8)
    load      wall s
    """
    first, *others = map(str, cells)
    write(f"{first:<{width}}" + "".join(f"{cell:>{width}}" for cell in others))


def middle(values: Sequence[float], digits: int = 2, scale: float = 1.0) -> str:
    """Median (fastest - slowest).

    >>> middle([3.0, 1.0, 2.0], digits=0)
    '2 (1-3)'
    """
    low, mid, high = (
        f"{scale * value:.{digits}f}" for value in (min(values), median(values), max(values))
    )
    return f"{mid} ({low}-{high})"
