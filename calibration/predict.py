"""The price of a step from measured grids: the same formula as `costmodels.OperatorsCostModel`.

Written out here in floats, so that a table's held-out error can be worked out where only torch
and numpy are installed; a test compares the two.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .grid import Shape
from .kernels import PER_LAYER

Points = Sequence[tuple[int, float]]
AttentionPoint = tuple[int, int, int, int, float]


@dataclass(frozen=True)
class Grids:
    """Measured times, microseconds, of one call.

    by_tokens, by_sequences: operator -> (count, time), ascending. attention: (chunk, past,
    decodes, context, time), ascending. host_us: per step, added to the sum of the kernels.
    captured: sizes that decode-only steps are padded to, ascending.
    """

    layers: int
    by_tokens: dict[str, list[tuple[int, float]]]
    by_sequences: dict[str, list[tuple[int, float]]]
    attention: list[AttentionPoint]
    host_us: float = 0.0
    captured: tuple[int, ...] = ()

    def step_us(self, shape: Shape) -> float:
        """The price of a step, microseconds."""
        counted = sum(
            (self.layers if name in PER_LAYER else 1) * along(points, count)
            for operators, count in (
                (self.by_tokens, shape.tokens + self.padding(shape)),
                (self.by_sequences, shape.sequences),
            )
            for name, points in operators.items()
        )
        return counted + self.layers * self.attention_us(shape) + self.host_us

    def padding(self, shape: Shape) -> int:
        """Rows that a decode-only step is padded with."""
        return 0 if shape.chunk else padding_of(self.captured, shape.decode_seqs)

    def attention_us(self, shape: Shape) -> float:
        """Attention of one layer: what mixing adds is that of the chunk measured beside decodes."""
        beside = min((n for n, past, seqs, *_ in self.attention if n and seqs), default=0)
        if not shape.chunk:
            return self._over(0, shape.decode_seqs, shape.decode_context)
        alone = self._chunk(shape.chunk, shape.past)
        if not shape.decode_seqs:
            return alone
        mixed = self._over(beside, shape.decode_seqs, shape.decode_context)
        return max(0.0, mixed + alone - (self._chunk(beside, 0) if beside else 0.0))

    def _chunk(self, chunk: int, past: int) -> float:
        return over([(n, p, us) for n, p, seqs, _, us in self.attention if n and not seqs])(
            chunk, past
        )

    def _over(self, chunk: int, seqs: int, context: int) -> float:
        return over([(s, c, us) for n, _, s, c, us in self.attention if n == chunk and s])(
            seqs, context
        )


def padding_of(captured: Sequence[int], seqs: int) -> int:
    """Rows between a decode batch and the smallest captured size that holds it.

    >>> padding_of((1, 2, 4, 8), 5), padding_of((1, 2, 4, 8), 9)
    (3, 0)
    """
    i = bisect_left(captured, seqs)
    return captured[i] - seqs if i < len(captured) else 0


def along(points: Points, count: float) -> float:
    """Linear between points, level before the first, on from the last two, never falling there.

    >>> along([(4, 80.0), (8, 90.0)], 6), along([(4, 80.0), (8, 90.0)], 12)
    (85.0, 100.0)
    """
    counts, times = zip(*points, strict=True)
    if count <= counts[-1] or len(points) == 1:
        return float(np.interp(count, counts, times))
    slope = (times[-1] - times[-2]) / (counts[-1] - counts[-2])
    return float(times[-1] + max(slope, 0.0) * (count - counts[-1]))


class over:  # noqa: N801  # reads as a function of two counts, which it is
    """Linear along the second count in each row, then between rows.

    >>> over([(1, 0, 1.0), (1, 10, 2.0), (3, 0, 5.0), (3, 10, 8.0)])(2, 5)
    4.0
    """

    def __init__(self, points: Sequence[tuple[int, int, float]]) -> None:
        self._rows: dict[int, list[tuple[int, float]]] = {}
        for row, count, us in points:
            self._rows.setdefault(row, []).append((count, us))

    def __call__(self, row: float, count: float) -> float:
        """The time at a row and a count."""
        return along([(n, along(points, count)) for n, points in self._rows.items()], row)
