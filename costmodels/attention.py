"""`AttentionTimes`: prices of attention, of chunks alone, decodes alone and both in one kernel."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from simulator.errors import OutsideTableError
from simulator.plan import StepShape

from .curves import Curve, Surface
from .decodes import Beside, DecodeKernels, Decodes, Rows, Skew, decodes_of, share_at
from .extrapolation import Beyond
from .operators_table import AttentionPoint

UNEQUAL = "attention of the longest context"

NO_SEQS = Curve([0], [0], [0], 1 << 62)
NOBODY = Decodes(NO_SEQS, None, NO_SEQS.limit)


class AttentionTimes:
    """Curves in 2**-24 ns over all layers, made from a table's attention points.

    skew: by number of decodes, how far unequal contexts take their time from that of the mean
    context to that of the longest; linear between the numbers, none if empty. mixed_skew: the same
    beside chunks. split_kv_below: see `DecodeKernels`; 0: one kernel.
    once: what several chunks of one step share, the smallest chunk that was measured beside
    decodes, alone; 0 if no mixed step was measured.
    """

    __slots__ = (
        *("_beside", "_chunk", "_chunks", "_decode", "_kept", "_mixed_skew", "_name"),
        *("_unequal", "once"),
    )

    def __init__(
        self,
        points: Sequence[AttentionPoint],
        layers: int,
        *,
        skew: Skew = (),
        mixed_skew: Skew = (),
        split_kv_below: int = 0,
        grows: bool,
        name: str,
    ) -> None:
        chunk: Rows = {}
        decode: Rows = {}
        mixed: dict[int, Rows] = {}
        for new, past, seqs, context, time_us in points:
            if not seqs:
                chunk.setdefault(new, []).append((past, time_us * layers))
            elif not new:
                decode.setdefault(seqs, []).append((context, time_us * layers))
            elif not past:
                row = mixed.setdefault(new, {}).setdefault(seqs, [])
                row.append((context, time_us * layers))
        self._name = name
        self._chunk = Surface(chunk, grows=grows) if chunk else None
        self._decode = DecodeKernels(decode, skew, split_kv_below, grows=grows) if decode else None
        alone = {new for new, past, seqs, *_ in points if not (past or seqs)}
        self._beside = {
            new: Surface(rows, grows=grows)
            for new, rows in sorted(mixed.items())
            if new in alone or new == min(mixed)
        }
        self._chunks = list(self._beside)
        self.once = self.chunk(self._chunks[0]).at(0) if self._chunks else 0
        self._mixed_skew = mixed_skew
        self._unequal = bool(skew or mixed_skew)
        self._kept: dict[tuple[int, int], Decodes] = {}

    def chunk(self, new: int) -> Curve:
        """A prompt chunk of `new` tokens alone, over its past tokens."""
        if self._chunk is None:
            raise self._lacks("prefill")
        return self._chunk.at(new)

    def decode(self, seqs: int, batch: int, plus: int) -> Decodes:
        """Decodes alone and `plus`, in a batch that may be padded."""
        if not seqs:
            return NOBODY._replace(summed=NO_SEQS._replace(values=[plus]))
        if self._decode is None:
            raise self._lacks("decode")
        return self._decode.decodes(seqs, batch, plus)

    def beside(self, tokens: int, seqs: int) -> Beside:
        """What decodes add beside so many prompt tokens; before and after what was measured, as
        there.
        """
        if not seqs:
            return Beside(NOBODY, NOBODY, 0, 1)
        chunks = self._chunks
        i = bisect_right(chunks, tokens) - 1
        if i < 0 or i == len(chunks) - 1:
            only = self._added(chunks[max(i, 0)] if chunks else 0, seqs)
            return Beside(only, only, 0, 1)
        low, high = chunks[i : i + 2]
        return Beside(self._added(low, seqs), self._added(high, seqs), tokens - low, high - low)

    def _added(self, new: int, seqs: int) -> Decodes:
        """What decodes add beside a chunk that was measured; their own price if none was."""
        prices = self._kept.get((new, seqs))
        if prices is None:
            if new:
                share = share_at(self._mixed_skew, seqs)
                alone = self.chunk(new).at(0)
                prices = decodes_of(self._beside[new].at(seqs), seqs, share, -alone)
            else:
                prices = self.decode(seqs, seqs, 0)
            self._kept[new, seqs] = prices
        return prices

    def terms(self, shape: StepShape, batch: int) -> list[tuple[str, int]]:
        """(what, price in 2**-24 ns) of the chunks, and of the decodes with what mixing adds.

        batch: of a decode-only step, its sequences with those it is padded with.
        """
        chunks, seqs, context, longest = shape
        if not chunks:
            return self._decode_terms("attention of decodes", self.decode(seqs, batch, 0), shape)
        alone = self.once + sum(self.chunk(new).at(past) - self.once for new, past in chunks)
        beside = self.beside(shape.prefill_tokens, seqs)
        both = max(alone + beside.at(context, longest * seqs), 0)
        equal = max(alone + beside.at(context, 0), 0)
        alone = max(alone, 0)
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
        surfaces = [self._decode.measured] if self._decode else []
        if chunks and self._chunks:
            i = max(bisect_right(self._chunks, shape.prefill_tokens) - 1, 0)
            surfaces = [self._beside[new] for new in self._chunks[i : i + 2]]
        if seqs:
            farthest = max(longest, context / seqs) if self._unequal else context / seqs
            for surface in surfaces:
                beyond = surface.beyond("decode_seqs", seqs, "decode_context", farthest)
                found += [each for each in beyond if each not in found]
        return found

    def _lacks(self, what: str) -> OutsideTableError:
        return OutsideTableError(
            f"cost table {self._name!r} has no {what} attention, and a step needs its price: "
            "measure it, or use another table"
        )
