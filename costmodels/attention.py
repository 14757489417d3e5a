"""`AttentionTimes`: prices of attention, of chunks alone, decodes alone and both in one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple  # Any: the element of an array of two kinds

import numpy as np
from numpy.typing import NDArray

from simulator.errors import OutsideTableError
from simulator.plan import StepShape

from .curves import Curve, Surface
from .extrapolation import Beyond
from .operators_table import AttentionPoint

UNEQUAL = "attention of the longest context"

NO_SEQS = Curve([0], [0], [0], 1 << 62)

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


def share_at(skew: Sequence[tuple[int, float]], seqs: int) -> float:
    """Between the points linear, before and after them as at the nearest; 0 without any.

    >>> share_at([(32, 0.0), (64, 0.06)], 48)
    0.03
    """
    if not skew:
        return 0.0
    counts, shares = zip(*skew, strict=True)
    return float(np.interp(seqs, counts, shares))


class AttentionTimes:
    """Curves in 2**-24 ns over all layers, made from a table's attention points.

    skew: by number of decodes, how far unequal contexts take their time from that of the mean
    context to that of the longest; linear between the numbers, none if empty.
    once: what several chunks of one step share, the smallest chunk that was measured beside
    decodes, alone; 0 if no mixed step was measured.
    """

    __slots__ = ("_chunk", "_decode", "_mixed", "_name", "_shared", "_skew", "once")

    def __init__(
        self,
        points: Sequence[AttentionPoint],
        layers: int,
        *,
        skew: Sequence[tuple[int, float]] = (),
        grows: bool,
        name: str,
    ) -> None:
        beside = [chunk for chunk, past, seqs, *_ in points if chunk and seqs and not past]
        smallest = min(beside, default=0)
        chunk: Rows = {}
        decode: Rows = {}
        mixed: Rows = {}
        for new, past, seqs, context, time_us in points:
            if not seqs:
                chunk.setdefault(new, []).append((past, time_us * layers))
            elif not new:
                decode.setdefault(seqs, []).append((context, time_us * layers))
            elif new == smallest and not past:
                mixed.setdefault(seqs, []).append((context, time_us * layers))
        self._name = name
        self._chunk, self._decode, self._mixed = (
            Surface(rows, grows=grows) if rows else None for rows in (chunk, decode, mixed)
        )
        self.once = self.chunk(smallest).at(0) if smallest else 0
        self._skew = skew
        alone = NO_SEQS._replace(values=[self.once])
        self._shared = {0: Decodes(alone, None, alone.limit)}

    def chunk(self, new: int) -> Curve:
        """A prompt chunk of `new` tokens alone, over its past tokens."""
        return self._surface(self._chunk, "prefill").at(new)

    def decode(self, seqs: int, plus: int) -> Decodes:
        """Decodes alone and `plus`."""
        if not seqs:
            return Decodes(NO_SEQS._replace(values=[plus]), None, NO_SEQS.limit)
        return self._skewed(self._surface(self._decode, "decode"), seqs, plus)

    def beside(self, seqs: int) -> Decodes:
        """Decodes and what chunks in the same step share."""
        prices = self._shared.get(seqs)
        if prices is None:
            surface = self._mixed or self._surface(self._decode, "decode")
            prices = self._shared[seqs] = self._skewed(surface, seqs, 0)
        return prices

    def _skewed(self, surface: Surface, seqs: int, plus: int) -> Decodes:
        curve = surface.at(seqs)
        share = share_at(self._skew, seqs)
        if not share:
            return Decodes(curve.stretched(seqs, plus), None, curve.limit * seqs)
        rest, longest = curve.split(share)
        return Decodes(rest.stretched(seqs, plus), longest.stretched(seqs), curve.limit * seqs)

    def terms(self, shape: StepShape) -> list[tuple[str, int]]:
        """(what, price in 2**-24 ns) of the chunks, and of the decodes with what mixing adds."""
        chunks, seqs, context, longest = shape
        if not chunks:
            return self._decode_terms("attention of decodes", self.decode(seqs, 0), shape)
        added = sum(self.chunk(new).at(past) - self.once for new, past in chunks)
        alone = max(added + self.once, 0)
        beside = self.beside(seqs)
        both = max(added + beside.at(context, longest * seqs), 0)
        equal = max(added + beside.at(context, 0), 0)
        terms = [("attention of chunks", alone)]
        if seqs:
            terms.append(("attention of decodes beside chunks", equal - alone))
        if both != equal:
            terms.append((UNEQUAL, both - equal))
        return terms

    def _decode_terms(self, name: str, prices: Decodes, shape: StepShape) -> list[tuple[str, int]]:
        _, seqs, context, longest = shape
        if not seqs:
            return []
        equal, both = prices.at(context, 0), prices.at(context, longest * seqs)
        return [(name, equal), *([(UNEQUAL, both - equal)] if both != equal else [])]

    def beyond(self, shape: StepShape) -> list[Beyond]:
        """The axes on which a step lies beyond the measured range."""
        chunks, seqs, context, longest = shape
        found: list[Beyond] = []
        if self._chunk:
            for new, past in chunks:
                found += self._chunk.beyond("chunk", new, "past", past)
        surface = self._mixed if chunks and self._mixed else self._decode
        if seqs and surface:
            farthest = max(longest, context / seqs) if self._skew else context / seqs
            found += surface.beyond("decode_seqs", seqs, "decode_context", farthest)
        return found

    def _surface(self, surface: Surface | None, what: str) -> Surface:
        if surface is None:
            raise OutsideTableError(
                f"cost table {self._name!r} has no {what} attention, and a step needs its price: "
                "measure it, or use another table"
            )
        return surface
