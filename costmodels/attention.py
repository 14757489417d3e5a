"""`AttentionTimes`: prices of attention, of chunks alone, decodes alone and both in one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.errors import OutsideTableError
from simulator.plan import StepShape

from .curves import Curve, Surface
from .extrapolation import Beyond
from .operators_table import AttentionPoint

NO_SEQS = Curve([0], [0], [0], 1 << 62)

Rows = dict[int, list[tuple[int, float]]]


class AttentionTimes:
    """Curves in 2**-24 ns over all layers, made from a table's attention points.

    once: what several chunks of one step share, the smallest chunk that was measured beside
    decodes, alone; 0 if no mixed step was measured.
    """

    __slots__ = ("_chunk", "_decode", "_mixed", "_name", "_shared", "once")

    def __init__(
        self, points: Sequence[AttentionPoint], layers: int, *, grows: bool, name: str
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
        self._shared = {0: NO_SEQS._replace(values=[self.once])}

    def chunk(self, new: int) -> Curve:
        """A prompt chunk of `new` tokens alone, over its past tokens."""
        return self._surface(self._chunk, "prefill").at(new)

    def decode(self, seqs: int, plus: int) -> Curve:
        """Decodes alone and `plus`, over their summed context."""
        if not seqs:
            return NO_SEQS._replace(values=[plus])
        return self._surface(self._decode, "decode").at(seqs).stretched(seqs, plus)

    def beside(self, seqs: int) -> Curve:
        """Decodes and what chunks in the same step share, over the decodes' summed context."""
        curve = self._shared.get(seqs)
        if curve is None:
            surface = self._mixed or self._surface(self._decode, "decode")
            curve = self._shared[seqs] = surface.at(seqs).stretched(seqs)
        return curve

    def terms(self, shape: StepShape) -> list[tuple[str, int]]:
        """(what, price in 2**-24 ns) of the chunks, and of the decodes with what mixing adds."""
        chunks, seqs, context, _ = shape
        if not chunks:
            return [("attention of decodes", self.decode(seqs, 0).at(context))] if seqs else []
        added = sum(self.chunk(new).at(past) - self.once for new, past in chunks)
        alone = max(added + self.once, 0)
        terms = [("attention of chunks", alone)]
        if seqs:
            both = max(added + self.beside(seqs).at(context), 0)
            terms.append(("attention of decodes beside chunks", both - alone))
        return terms

    def beyond(self, shape: StepShape) -> list[Beyond]:
        """The axes on which a step lies beyond the measured range."""
        chunks, seqs, context, _ = shape
        found: list[Beyond] = []
        if self._chunk:
            for new, past in chunks:
                found += self._chunk.beyond("chunk", new, "past", past)
        surface = self._mixed if chunks and self._mixed else self._decode
        if seqs and surface:
            found += surface.beyond("decode_seqs", seqs, "decode_context", context / seqs)
        return found

    def _surface(self, surface: Surface | None, what: str) -> Surface:
        if surface is None:
            raise OutsideTableError(
                f"cost table {self._name!r} has no {what} attention, and a step needs its price: "
                "measure it, or use another table"
            )
        return surface
