"""`OperatorsCostModel`: a step composed from the measured times of its kernels.

    layers x (operators by tokens + attention)        decode-only steps: tokens padded to the next
    + operators by tokens, per step                   captured batch size
    + operators by sequences, per step                logits of decodes + chunks
    x prefill_step_factor                             if the step computes any prompt
    max or + host time                                async or sync scheduling

Attention of a step with prompt chunks (n, past) and nd decodes at mean context kd is one kernel,
whose penalty for mixing is paid once. With c the chunk that was measured beside decodes:

    table(c, 0, nd, kd) + sum over chunks of [table(n, past, 0, 0) - table(c, 0, 0, 0)]

and the plain sum of chunks and decodes if no mixed step was measured. Every price is exact on grid
points and linear between them; noise in the grid is kept as measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any  # Any: parameters that the constructor checks

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.plan import StepShape

from .attention import AttentionTimes
from .counted import CountedTimes, padded_size
from .curves import BITS, HALF, ONE_NS, UNMEASURED, Curve, fixed
from .extrapolation import Beyond, Extrapolation
from .operators_table import Operator, OperatorGrids
from .pricing import checked
from .table import CostTable, Value, hand_written

COMBINE = ("max", "sum")
MAX_LAYERS = 1000
MAX_FACTOR = 10


class OperatorsCostModel:
    """Prices from `OperatorGrids`; `operators_table` explains them and every parameter.

    >>> grids = OperatorGrids(attention=((0, 0, 4, 1024, 8000.0), (0, 0, 8, 1024, 9000.0)))
    >>> model = OperatorsCostModel(grids, layers=1)
    >>> model.step_ns(StepShape((), 6, 6 * 1024))
    8500000

    Below the smallest measured count the price there holds, in every mode. Beyond the largest,
    `extrapolation` says what to do: `linear` (from the last two points, never falling), `clamp` or
    `error`. Raises ConfigError for a bad parameter, OutsideTableError for a missing operator.
    """

    __slots__ = (
        *("_attention", "_by_sequences", "_by_tokens", "_decodes", "_host", "_host_floor"),
        *(
            "_host_plus",
            "_outside",
            "_prefill_factor",
            "_sizes",
            "needs_longest_context",
            "stamp",
            "table",
        ),
    )

    def __init__(
        self,
        grids: OperatorGrids,
        *,
        layers: int,
        decode_batch_sizes: Sequence[int] = (),
        host_us: float = 0.0,
        host_combine: str = "max",
        prefill_step_factor: float = 1.0,
        extrapolation: str = "linear",
        table: CostTable | None = None,
    ) -> None:
        parameters: dict[str, Value] = {
            **{"layers": layers, "decode_batch_sizes": list(decode_batch_sizes)},
            **{"host_us": float(host_us), "host_combine": host_combine},
            **{"prefill_step_factor": prefill_step_factor, "extrapolation": extrapolation},
        }
        _check(layers, host_combine, prefill_step_factor)
        self.table = table or _table(grids, parameters)
        self.stamp = self.table.stamp
        self.needs_longest_context = False
        self._outside = Extrapolation(extrapolation, self.table.name)
        self._host = fixed(checked({"host_us": host_us})["host_us"])
        self._host_plus = HALF + (self._host if host_combine == "sum" else 0)
        self._host_floor = max(ONE_NS, self._host + HALF if host_combine == "max" else 0)
        self._prefill_factor = round(prefill_step_factor * ONE_NS)
        self._sizes = sorted(decode_batch_sizes)
        grows = extrapolation != "clamp"
        by_tokens: dict[str, Operator] = {}
        by_sequences: dict[str, Operator] = {}
        for name, operator in grids.counted.items():
            (by_sequences if operator.axis == "sequences" else by_tokens)[name] = operator
        self._by_tokens = CountedTimes(by_tokens, layers, grows=grows)
        self._by_sequences = CountedTimes(by_sequences, layers, grows=grows)
        self._attention = AttentionTimes(grids.attention, layers, grows=grows, name=self.table.name)
        self._decodes: dict[int, Curve] = {}

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, nanoseconds, at least 1."""
        chunks, seqs, context, _ = shape
        if chunks:
            return self._mixed_ns(shape)
        curve = self._decodes.get(seqs) or self._decode_curve(seqs)
        price = curve.at(context)
        if price < self._host_floor:
            price = self._host_floor
        if context > curve.limit:
            self._outside.count(self.beyond(shape), 1, price >> BITS)
        return price >> BITS

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price `steps` consecutive decode-only steps; int64, shape (steps,), each at least 1.

        The first is not counted as extrapolated: an engine prices it alone before it leaps.
        """
        _, seqs, context, _ = shape
        curve = self._decodes.get(seqs) or self._decode_curve(seqs)
        wide = np.maximum(curve.along(context, seqs, steps), self._host_floor) >> BITS
        prices: NDArray[np.int64] = wide.astype(np.int64, copy=False)
        if seqs and steps > 1 and context + (steps - 1) * seqs > curve.limit:
            inside = max((curve.limit - context) // seqs + 1, 1)
            outside = prices[inside:]
            last = self.beyond(shape.after(steps - 1))
            self._outside.count(last, len(outside), int(outside.sum()))
        return prices

    def explain(self, shape: StepShape) -> list[tuple[str, float]]:
        """(term, milliseconds) of a step; their sum is its price, to the nanosecond."""
        chunks, seqs, _, _ = shape
        tokens = self._tokens(shape)
        terms = [
            *self._by_tokens.terms(tokens),
            *self._attention.terms(shape),
            *self._by_sequences.terms(seqs + len(chunks)),
        ]
        if chunks and self._prefill_factor != ONE_NS:
            alone = sum(price for _, price in terms)
            slower = (alone * self._prefill_factor >> BITS) - alone
            terms.append(("steps with prompts run slower", slower))
        host = self._host
        if host and self._host_plus == HALF:
            host = max(host - sum(price for _, price in terms), 0)
        if host:
            terms.append(("host", host))
        return [(term, price / ONE_NS / 1e6) for term, price in terms]

    def with_extrapolation(self, mode: str) -> OperatorsCostModel:
        """The same prices with another mode beyond the grid, and nothing counted yet."""
        parameters: dict[str, Any] = {**self.table.parameters, "extrapolation": mode}
        assert self.table.operators is not None, self.table.name  # made with grids
        return OperatorsCostModel(
            self.table.operators, **parameters, table=replace(self.table, parameters=parameters)
        )

    def uncounted(self) -> OperatorsCostModel:
        """The same prices for one who only asks, such as a policy: refuses and counts nothing."""
        mode = self._outside.mode
        return self.with_extrapolation("linear" if mode == "error" else mode)

    def extrapolation_report(
        self, steps: int | None = None, time_ms: float | None = None
    ) -> dict[str, object]:
        """What was priced beyond the measured range since this model was made.

        steps, time_ms: of the whole run, from its result; they give `share_of_steps` and
        `share_of_time`, None otherwise. `farthest`: per axis, the largest count asked and the
        measured range. A leap that an arrival cuts short is priced a little further than it runs.
        """
        return self._outside.report(steps, time_ms)

    def beyond(self, shape: StepShape) -> list[Beyond]:
        """The axes on which a step lies beyond the measured range."""
        return [
            *self._by_tokens.beyond("tokens", self._tokens(shape)),
            *self._by_sequences.beyond("sequences", shape.decode_seqs + len(shape.chunks)),
            *self._attention.beyond(shape),
        ]

    def _tokens(self, shape: StepShape) -> int:
        if shape.chunks:
            return shape.decode_seqs + shape.prefill_tokens
        return padded_size(self._sizes, shape.decode_seqs)

    def _mixed_ns(self, shape: StepShape) -> int:
        chunks, seqs, context, _ = shape
        attention, by_tokens, by_sequences = self._attention, self._by_tokens, self._by_sequences
        beside = attention.beside(seqs)
        price = beside.at(context)
        outside = context > beside.limit
        tokens = seqs
        for new, past in chunks:
            tokens += new
            curve = attention.chunk(new)
            price += curve.at(past) - attention.once
            outside |= past > curve.limit
        if price < 0:
            price = 0
        sequences = seqs + len(chunks)
        outside |= tokens > by_tokens.limit or sequences > by_sequences.limit
        price += by_tokens.at(tokens) + by_sequences.at(sequences)
        price = (price * self._prefill_factor >> BITS) + self._host_plus
        if price < self._host_floor:
            price = self._host_floor
        if outside:
            self._outside.count(self.beyond(shape), 1, price >> BITS)
        return price >> BITS

    def _decode_curve(self, seqs: int) -> Curve:
        """The whole price of a decode-only step over its summed context, but for the floor."""
        tokens = padded_size(self._sizes, seqs)
        rest = self._by_tokens.at(tokens) + self._by_sequences.at(seqs) + self._host_plus
        curve = self._attention.decode(seqs, rest)
        if tokens > self._by_tokens.limit or seqs > self._by_sequences.limit:
            curve = curve._replace(limit=UNMEASURED)
        self._decodes[seqs] = curve
        return curve


def _check(layers: int, host_combine: str, prefill_step_factor: float) -> None:
    if host_combine not in COMBINE:
        raise ConfigError(f"host_combine is {host_combine!r}: must be {' or '.join(COMBINE)}")
    if not 1 <= layers <= MAX_LAYERS:
        raise ConfigError(f"layers is {layers}: must be 1 to {MAX_LAYERS}")
    if not 0 < prefill_step_factor <= MAX_FACTOR:
        raise ConfigError(
            f"prefill_step_factor is {prefill_step_factor}: must be above 0, at most {MAX_FACTOR}"
        )


def _table(grids: OperatorGrids, parameters: dict[str, Value]) -> CostTable:
    given = {key: value for key, value in parameters.items() if value != []}
    table = hand_written("operators", "step prices from operators", given)
    return replace(table, operators=grids)
