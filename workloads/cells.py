"""Cells of a table to int64 columns: exact, fast when all is well, precise when it is not.

Times are read as decimals and never as floats, so `0.052` is 52,000,000 ns and a
Unix time keeps its last digit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .limits import MAX_NS, MAX_TOKENS

Ints = NDArray[np.int64]
Cells = Sequence[object] | Ints

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_NOT_FINITE = frozenset({"nan", "inf", "infinity"})
_STAMP = re.compile(
    r"((?:1[7-9]|20|21)\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?)"
    r"(?:Z|([+-])(\d\d):?(\d\d))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class BadCell:
    """A cell that cannot be used: its place in the column, its text and why."""

    row: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Kind:
    """How a column's cells become integers.

    digits: decimal places kept (9 turns seconds into nanoseconds); 0 takes whole numbers only.
    low, high: inclusive limits of the result.
    """

    digits: int
    low: int
    high: int


KINDS: dict[str, Kind] = {
    "arrival_s": Kind(9, 0, MAX_NS),
    "arrival_ms": Kind(6, 0, MAX_NS),
    "arrival_us": Kind(3, 0, MAX_NS),
    "arrival_ns": Kind(0, 0, MAX_NS),
    "think_ns": Kind(0, 0, MAX_NS),
    "prompt_tokens": Kind(0, 1, MAX_TOKENS),
    "output_tokens": Kind(0, 1, MAX_TOKENS),
    "max_tokens": Kind(0, 0, MAX_TOKENS),
    "predicted_output_tokens": Kind(0, 0, MAX_TOKENS),
    "prefix_tokens": Kind(0, 0, MAX_TOKENS),
    "priority": Kind(0, -(2**62), 2**62),
    "source_row": Kind(0, 0, 2**62),
}
"""Numeric field -> how its cells are read."""


def read_numbers(cells: Cells, kind: Kind) -> tuple[Ints, list[BadCell]]:
    """Numbers as int64, shape (len(cells),); a bad cell leaves `max(low, 0)` in its place.

    >>> read_numbers(["0.052", "nan"], KINDS["arrival_s"])
    (array([52000000,        0]), [BadCell(row=1, text='nan', reason='is not finite')])
    """
    try:
        values = _all_plain(cells, kind)
        if (
            kind.low <= int(values.min(initial=kind.low))
            and int(values.max(initial=0)) <= kind.high
        ):
            return values, []
    except (ValueError, OverflowError):
        pass
    return _one_by_one(cells, partial(_number, kind=kind), max(kind.low, 0))


def read_stamps(cells: Cells) -> tuple[Ints, list[BadCell]]:
    """Dates and times as nanoseconds since 1970 UTC, shape (len(cells),).

    >>> read_stamps(["2023-11-16 18:17:03.9799600"])[0].tolist()
    [1700158623979960000]
    """
    if isinstance(cells, np.ndarray):
        return cells, []
    matches = [_STAMP.fullmatch(cell) if isinstance(cell, str) else None for cell in cells]
    try:
        plain = [match[1] for match in matches if match and match[2] is None]
        if len(plain) == len(cells):
            return np.array(plain, dtype="datetime64[ns]").astype(np.int64), []
    except ValueError:
        pass
    return _one_by_one(cells, _stamp, 0)


def cell_text(cell: object) -> str:
    """A cell as the file shows it; a missing one is empty."""
    if isinstance(cell, str):
        return cell
    if cell is None:
        return ""
    return repr(cell) if isinstance(cell, float) else json.dumps(cell, default=str)


def _all_plain(cells: Cells, kind: Kind) -> Ints:
    """The whole column at once. Raises ValueError or OverflowError when any cell is not plain."""
    if isinstance(cells, np.ndarray) or set(map(type, cells)) == {int}:
        values = np.asarray(cells, dtype=np.int64)
        scale = 10**kind.digits
        if kind.digits and int(values.max(initial=0)) > MAX_NS // scale:
            raise OverflowError
        return np.where(values < 0, values, values * scale) if kind.digits else values
    texts = [cell if type(cell) is str else cell_text(cell) for cell in cells]
    joined = "".join(texts)
    if not (joined.isascii() and joined.replace(".", "" if kind.digits else ".").isdigit()):
        raise ValueError
    read = partial(_fixed_point, kind.digits) if kind.digits else int
    return np.fromiter(map(read, texts), dtype=np.int64, count=len(texts))


def _fixed_point(digits: int, text: str) -> int:
    whole, _, fraction = text.partition(".")
    if not whole or len(fraction) > digits:
        raise ValueError
    return int(whole + fraction.ljust(digits, "0"))


def _one_by_one(
    cells: Cells, read: Callable[[str], int], stand_in: int
) -> tuple[Ints, list[BadCell]]:
    values = np.full(len(cells), stand_in, dtype=np.int64)
    bad = []
    for row, cell in enumerate(cells):
        text = cell_text(cell.item() if isinstance(cell, np.generic) else cell)
        try:
            values[row] = read(text)
        except ValueError as why:
            bad.append(BadCell(row, text, str(why)))
    return values, bad


def _number(text: str, *, kind: Kind) -> int:
    """One number. Raises ValueError with the reason as its text."""
    bare = text.strip()
    if not bare:
        raise ValueError("is empty")
    if bare.lstrip("+-").lower() in _NOT_FINITE:
        raise ValueError("is not finite")
    if not _NUMBER.fullmatch(bare):
        raise ValueError("is not a number")
    value = Decimal(bare).scaleb(kind.digits)
    if value > kind.high:
        raise ValueError("is too large")
    if value < kind.low:
        raise ValueError(f"is below {kind.low}")
    nearest = value.to_integral_value(ROUND_HALF_EVEN)
    if kind.digits == 0 and nearest != value:
        raise ValueError("is not a whole number")
    return int(nearest)


def _stamp(text: str) -> int:
    """One date and time. Raises ValueError with the reason as its text."""
    match = _STAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError("is not a date and time" if text.strip() else "is empty")
    try:
        local_ns = int(np.datetime64(match[1], "ns").astype(np.int64))
    except ValueError:
        raise ValueError("is not a date and time") from None
    if match[2] is None:
        return local_ns
    east_minutes = int(match[3]) * 60 + int(match[4])
    return local_ns - int(match[2] + "1") * east_minutes * 60_000_000_000
