"""What a step costs in the speed comparison: the peer's prices, so that both do the same work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodels import LinearCostModel
from simulator import StepShape

BLOCKS, BLOCK_SIZE = 16_384, 16
CAPACITY_TOKENS = BLOCKS * BLOCK_SIZE

FLAT_MS, SLOPE_MS, BEND_MS = 5.74, 54.01, -25.74
PROMPT_STEP_MS, TOKEN_MS, TOKEN_SQUARED_MS = 16.50142, 1.518344e-02, 4.209989e-07
"""Source: the default (polynomial) price model of the mock engine of NVIDIA Dynamo 1.4.1.

A lone 1,000-token prompt is priced 38.053 ms by it and by `PeerPrices`.
"""

LEVEL_NS = FLAT_MS * 1e6
RISE_NS = SLOPE_MS * 1e6 / CAPACITY_TOKENS
CURVE_NS = BEND_MS * 1e6 / CAPACITY_TOKENS**2
"""The same by tokens in the cache instead of its share in use: fewer operations on arrays."""

_ahead: NDArray[np.float64] = np.arange(1 << 14, dtype=np.float64)


class PeerPrices:
    """The peer's formula itself: u = share of the KV cache that is in use.

    decode: 5.74 + 54.01 u - 25.74 u^2 ms; prompt of P tokens: 16.5 + 0.0152 P + 4.2e-7 P^2 ms more.

    >>> PeerPrices().step_ns(StepShape(((1000, 0),), 0, 0))
    38051516
    """

    needs_longest_context = False

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, nanoseconds."""
        tokens, held = 0, shape.decode_context_tokens
        for new, past in shape.chunks:
            tokens += new
            held += new + past
        price_ns = (CURVE_NS * held + RISE_NS) * held + LEVEL_NS
        if tokens:
            price_ns += ((TOKEN_SQUARED_MS * tokens + TOKEN_MS) * tokens + PROMPT_STEP_MS) * 1e6
        return round(price_ns)

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price consecutive decode-only steps; shape (steps,), nanoseconds."""
        held = _ahead[:steps] * shape.decode_seqs
        held += shape.decode_context_tokens
        price_ns = held * CURVE_NS
        price_ns += RISE_NS
        price_ns *= held
        price_ns += LEVEL_NS
        return np.rint(price_ns, out=price_ns).astype(np.int64)


def tangent(cache_use: float) -> LinearCostModel:
    """The peer's formula as a linear model: its tangent at this share of the KV cache in use."""
    per_token_ms = (SLOPE_MS + 2 * BEND_MS * cache_use) / CAPACITY_TOKENS
    return LinearCostModel(
        step_ms=FLAT_MS - BEND_MS * cache_use**2,
        decode_ms_per_context_token=per_token_ms,
        prefill_step_ms=PROMPT_STEP_MS,
        prefill_ms_per_token=TOKEN_MS + per_token_ms,
        attention_ms_per_token_pair=2 * TOKEN_SQUARED_MS,
    )
