"""`OperatorsCostModel`: a step composed from the measured times of its kernels.

    layers x (operators by tokens + attention)        tokens padded to the next captured batch size
    + operators by tokens, per step
    + operators by sequences, per step                logits of decodes + chunks
    + (prefill_step_factor - 1) x what prompts add    to a step of the same decodes
    + layers x all-reduce by bytes
    max or + host time                                async or sync scheduling

Attention of a step with prompt chunks (n, past) and nd decodes at mean context kd is one kernel,
and what the chunks share is paid once. With c the smallest chunk that was measured beside decodes:

    chunks   table(c, 0, 0, 0) + sum over chunks of [table(n, past, 0, 0) - table(c, 0, 0, 0)]
    decodes  table(N, 0, nd, kd) - table(N, 0, 0, 0)

with N all prompt tokens of the step, between the chunks that were measured beside decodes; and the
plain sum of chunks and decodes if none was. Where a table has `skew`, unequal contexts take a share
of the way to the price at the longest one; in a padded KV cache every decode attends as far as the
longest of them. Every price is exact on grid points and linear between them; noise in the grid is
kept as measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any  # Any: parameters that the constructor checks

import numpy as np
from numpy.typing import NDArray

from simulator.plan import StepShape

from .attention import AttentionTimes
from .counted import CountedTimes, counted_by, padded_size
from .curves import BITS, HALF, ONE_NS, UNMEASURED, fixed
from .decodes import Decodes
from .extrapolation import Beyond, Extrapolation
from .operators_parameters import check_parameters, table_of
from .operators_table import OperatorGrids
from .pricing import checked
from .table import CostTable, Value


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
        *("_alone", "_attention", "_by_bytes", "_by_sequences", "_by_tokens", "_decodes", "_host"),
        *("_host_floor", "_host_plus", "_mixed_sizes", "_most_tokens", "_outside", "_pads"),
        *("_prefill_extra", "_sizes", "needs_longest_context", "stamp", "table"),
    )

    def __init__(
        self,
        grids: OperatorGrids,
        *,
        layers: int,
        decode_batch_sizes: Sequence[int] = (),
        mixed_batch_sizes: Sequence[int] = (),
        host_us: float = 0.0,
        host_combine: str = "max",
        prefill_step_factor: float = 1.0,
        split_kv_below: int = 0,
        decode_attention: str = "paged",
        extrapolation: str = "linear",
        table: CostTable | None = None,
    ) -> None:
        words = {"host_combine": host_combine, "decode_attention": decode_attention}
        parameters: dict[str, Value] = {
            **{"layers": layers, "decode_batch_sizes": list(decode_batch_sizes)},
            **{"mixed_batch_sizes": list(mixed_batch_sizes)},
            **{"host_us": float(host_us), **words},
            **{"prefill_step_factor": prefill_step_factor, "extrapolation": extrapolation},
        }
        if split_kv_below:
            parameters["split_kv_below"] = split_kv_below
        check_parameters(layers, prefill_step_factor, split_kv_below, **words)
        self.table = table or table_of(grids, parameters)
        self.stamp = self.table.stamp
        self._pads = decode_attention == "padded"
        self.needs_longest_context = self._pads or bool(grids.skew or grids.mixed_skew)
        self._outside = Extrapolation(extrapolation, self.table.name)
        self._host = fixed(checked({"host_us": host_us})["host_us"])
        self._host_plus = HALF + (self._host if host_combine == "sum" else 0)
        self._host_floor = max(ONE_NS, self._host + HALF if host_combine == "max" else 0)
        self._prefill_extra = round(prefill_step_factor * ONE_NS) - ONE_NS
        self._sizes, self._mixed_sizes = sorted(decode_batch_sizes), sorted(mixed_batch_sizes)
        grows = extrapolation != "clamp"
        self._by_tokens, self._by_sequences, self._by_bytes = (
            CountedTimes(counted_by(grids.counted, axis), layers, grows=grows)
            for axis in ("tokens", "sequences", "bytes")
        )
        self._most_tokens = min(self._by_tokens.limit, self._by_bytes.limit)
        self._attention = AttentionTimes(
            grids.attention,
            layers,
            skew=grids.skew,
            mixed_skew=grids.mixed_skew or grids.skew,
            split_kv_below=split_kv_below,
            grows=grows,
            name=self.table.name,
        )
        self._decodes: dict[int, Decodes] = {}
        self._alone: dict[int, Decodes] = {}

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, nanoseconds, at least 1."""
        if self._pads:
            shape = _padded(shape)
        chunks, seqs, context, longest = shape
        if chunks:
            return self._mixed_ns(shape)
        prices = self._decodes.get(seqs) or self._decode_prices(seqs)
        price = prices.at(context, longest * seqs)
        if price < self._host_floor:
            price = self._host_floor
        if prices.exceeds(context, longest * seqs):
            self._outside.count(self.beyond(shape), 1, price >> BITS)
        return price >> BITS

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price `steps` consecutive decode-only steps; int64, shape (steps,), each at least 1.

        The first is not counted as extrapolated: an engine prices it alone before it leaps.
        """
        if self._pads:
            shape = _padded(shape)
        _, seqs, context, longest = shape
        decodes = self._decodes.get(seqs) or self._decode_prices(seqs)
        wide = np.maximum(decodes.along(context, longest * seqs, seqs, steps), self._host_floor)
        prices: NDArray[np.int64] = (wide >> BITS).astype(np.int64, copy=False)
        if decodes.longest is not None:
            context = max(context, longest * seqs)
        if seqs and steps > 1 and context + (steps - 1) * seqs > decodes.limit:
            inside = max((decodes.limit - context) // seqs + 1, 1)
            outside = prices[inside:]
            last = self.beyond(shape.after(steps - 1))
            self._outside.count(last, len(outside), int(outside.sum()))
        return prices

    def explain(self, shape: StepShape) -> list[tuple[str, float]]:
        """(term, milliseconds) of a step; their sum is its price, to the nanosecond."""
        if self._pads:
            shape = _padded(shape)
        chunks, seqs, _, _ = shape
        tokens = self._tokens(shape)
        terms = [*self._by_tokens.terms(tokens), *self._attention.terms(shape, tokens)]
        terms += self._by_sequences.terms(seqs + len(chunks))
        if chunks and self._prefill_extra:
            slower = self._slower(shape, sum(price for _, price in terms))
            terms.append(("prompts take longer than their kernels", slower))
        terms += self._by_bytes.terms(tokens)
        host = self._host
        if host and self._host_plus == HALF:
            host = max(host - sum(price for _, price in terms), 0)
        if host:
            terms.append(("host", host))
        return [(term, price / ONE_NS / 1e6) for term, price in terms]

    def with_extrapolation(self, mode: str) -> OperatorsCostModel:
        """The same prices with another mode beyond the grid, and nothing counted yet."""
        return self.with_parameters(extrapolation=mode)

    def with_parameters(self, **changes: Any) -> OperatorsCostModel:
        """The same kernels with some parameters changed, and nothing counted yet."""
        parameters: dict[str, Any] = {**self.table.parameters, **changes}
        assert self.table.operators is not None, self.table.name  # made with grids
        table = replace(self.table, parameters=parameters)
        return OperatorsCostModel(self.table.operators, **parameters, table=table)

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
        if self._pads:
            shape = _padded(shape)
        return [
            *(
                self._by_tokens.beyond("tokens", self._tokens(shape))
                or self._by_bytes.beyond("tokens", self._tokens(shape))
            ),
            *self._by_sequences.beyond("sequences", shape.decode_seqs + len(shape.chunks)),
            *self._attention.beyond(shape),
        ]

    def _tokens(self, shape: StepShape) -> int:
        sizes = self._mixed_sizes if shape.chunks else self._sizes
        return padded_size(sizes, shape.decode_seqs + shape.prefill_tokens)

    def _mixed_ns(self, shape: StepShape) -> int:
        chunks, seqs, context, longest = shape
        attention, by_tokens, by_sequences = self._attention, self._by_tokens, self._by_sequences
        prompt_tokens, price, outside = 0, attention.once, False
        for new, past in chunks:
            prompt_tokens += new
            curve = attention.chunk(new)
            price += curve.at(past) - attention.once
            outside |= past > curve.limit
        if seqs:
            beside = attention.beside(prompt_tokens, seqs)
            price += beside.at(context, longest * seqs)
            outside |= beside.exceeds(context, longest * seqs)
        if price < 0:
            price = 0
        tokens, sequences = seqs + prompt_tokens, seqs + len(chunks)
        if self._mixed_sizes:
            tokens = padded_size(self._mixed_sizes, tokens)
        outside |= tokens > self._most_tokens or sequences > by_sequences.limit
        price += by_tokens.at(tokens) + by_sequences.at(sequences)
        if self._prefill_extra:
            price += self._slower(shape, price)
        price += self._by_bytes.at(tokens) + self._host_plus
        if price < self._host_floor:
            price = self._host_floor
        if outside:
            self._outside.count(self.beyond(shape), 1, price >> BITS)
        return price >> BITS

    def without_prompts_ns(self, shape: StepShape) -> int:
        """The kernels of a step's decodes if its prompts were not there, communication and host
        aside; of a single token, attention aside, if there are no decodes.
        """
        return self._without_prompts(shape) >> BITS

    def _without_prompts(self, shape: StepShape) -> int:
        _, seqs, context, longest = shape
        prices = self._alone.get(seqs)
        if prices is None:
            prices = self._alone[seqs] = self._kernels_of_decodes(max(seqs, 1), attends=seqs > 0)
        return prices.at(context, longest * seqs)

    def _slower(self, shape: StepShape, price: int) -> int:
        """How much longer the prompts of a step take than its kernels' price says."""
        return max(price - self._without_prompts(shape), 0) * self._prefill_extra >> BITS

    def _kernels_of_decodes(self, seqs: int, *, attends: bool = True, plus: int = 0) -> Decodes:
        """Their price and `plus`, without communication and host."""
        batch = padded_size(self._sizes, seqs)
        rest = self._by_tokens.at(batch) + self._by_sequences.at(seqs) + plus
        return self._attention.decode(seqs if attends else 0, batch, rest)

    def _decode_prices(self, seqs: int) -> Decodes:
        """The whole price of a decode-only step, but for the floor."""
        tokens = padded_size(self._sizes, seqs)
        rest = self._by_bytes.at(tokens) + self._host_plus
        prices = self._kernels_of_decodes(seqs, attends=seqs > 0, plus=rest)
        if tokens > self._most_tokens or seqs > self._by_sequences.limit:
            prices = prices._replace(limit=UNMEASURED)
        self._decodes[seqs] = prices
        return prices


def _padded(shape: StepShape) -> StepShape:
    """The same step with every decode as long as the longest; doing it again changes nothing."""
    seqs, context, longest = shape[1:]
    return shape._replace(decode_context_tokens=max(context, seqs * longest))
