"""What the decodes of a step cost in attention, over their contexts: `Decodes`, and its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple  # Any: the element of an array of two kinds

import numpy as np
from numpy.typing import NDArray

from .curves import Curve, Surface

Skew = Sequence[tuple[int, float]]
Rows = dict[int, list[tuple[int, float]]]


class Decodes(NamedTuple):
    """Prices of decodes: over their summed context, and over longest context x sequences.

    The second is None if all contexts count as equal. limit: of both.
    """

    summed: Curve
    longest: Curve | None
    limit: int

    def at(self, context: int, longest: int) -> int:
        """longest: longest context x sequences; at least the sum is taken."""
        price = self.summed.at(context)
        if self.longest is not None:
            price += self.longest.at(max(longest, context))
        return price

    def along(self, context: int, longest: int, seqs: int, steps: int) -> NDArray[Any]:
        """`at` of consecutive steps, shape (steps,): the same bits."""
        prices = self.summed.along(context, seqs, steps)
        if self.longest is None:
            return prices
        more: NDArray[Any] = prices + self.longest.along(max(longest, context), seqs, steps)
        return more

    def exceeds(self, context: int, longest: int) -> bool:
        """Whether that is beyond what was measured."""
        return context > self.limit or (self.longest is not None and longest > self.limit)


class Beside(NamedTuple):
    """What decodes add beside prompt tokens whose number lies between two that were measured."""

    low: Decodes
    high: Decodes
    ahead: int
    gap: int

    def at(self, context: int, longest: int) -> int:
        """As `Decodes.at`; linear in the prompt tokens."""
        price = self.low.at(context, longest)
        if self.ahead:
            price += (self.high.at(context, longest) - price) * self.ahead // self.gap
        return price

    def exceeds(self, context: int, longest: int) -> bool:
        """Whether that is beyond what was measured."""
        return self.low.exceeds(context, longest) or self.high.exceeds(context, longest)


def decodes_of(curve: Curve, seqs: int, share: float, plus: int) -> Decodes:
    """curve: over the context of each; share: see `share_at`; plus: added to every price."""
    if not share:
        return Decodes(curve.stretched(seqs, plus), None, curve.limit * seqs)
    rest, longest = curve.split(share)
    return Decodes(rest.stretched(seqs, plus), longest.stretched(seqs), curve.limit * seqs)


def share_at(skew: Skew, seqs: int) -> float:
    """Between the points linear, before and after them as at the nearest; 0 without any.

    >>> share_at([(32, 0.0), (64, 0.06)], 48)
    0.03
    """
    if not skew:
        return 0.0
    counts, shares = zip(*skew, strict=True)
    return float(np.interp(seqs, counts, shares))


class DecodeKernels:
    """Attention of decodes alone, by their number; two kernels if `split_kv_below` is given.

    A decode-attention kernel that splits each context over several thread blocks keeps the GPU busy
    with few sequences, and does not let the longest of them set the time; with many sequences it
    runs unsplit. What was measured on one side of that batch size says nothing of the other, so
    either side is a line through its own two nearest counts up to there. Unsplit, the blocks of
    the longest context end last, however many others there are: the price at the longest context
    grows with their number, so the share of it falls as one over the number.
    """

    __slots__ = ("_below", "_sides", "_skews", "measured")

    def __init__(self, rows: Rows, skew: Skew, split_kv_below: int, *, grows: bool) -> None:
        self.measured = Surface(rows, grows=grows)
        self._below = split_kv_below
        firsts = self.measured.firsts
        before = [seqs for seqs in firsts if seqs < split_kv_below]
        after = [seqs for seqs in firsts if seqs >= split_kv_below]
        self._sides = (self.measured, self.measured)
        self._skews = (skew, skew)
        if before and after:
            split, whole = (
                Surface({seqs: rows[seqs] for seqs in side}, grows=grows)
                for side in (before, after)
            )
            self._sides = (split.reaching(after[0]), whole.reaching(before[-1]))
            self._skews = (
                [point for point in skew if point[0] < split_kv_below],
                [point for point in skew if point[0] >= split_kv_below],
            )

    def decodes(self, seqs: int, batch: int, plus: int) -> Decodes:
        """batch: the sequences with those the batch is padded with."""
        side = int(batch >= self._below)
        skew = self._skews[side]
        share = share_at(skew, seqs)
        if self._below and side and skew and seqs < skew[0][0]:
            share = min(share * skew[0][0] / seqs, 1.0)
        return decodes_of(self._sides[side].at(seqs), seqs, share, plus)
