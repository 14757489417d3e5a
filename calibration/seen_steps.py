"""Steps as a client sees them, and what their decode-only ones say of the `steps` model.

Tokens of all streams that arrive together are one engine step, so the gaps between such groups are
step times. Steps with prompts are in `episodes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST = 8
"""A kind of steps with fewer members has no median worth fitting."""
AROUND = 2
"""Steps on both sides of one with prompts, on which some of its time may be booked."""
CAPTURED_SIZES = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))
"""Batch sizes for which vLLM captures CUDA graphs by default."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenSteps:
    """Columns of one log, shape (steps,), in order.

    interval_ms: since the step before. is_whole: the interval is one step's time (somebody was
    decoding, and the grouping is sound). prompts, prompt_tokens: requests whose prompt the step
    finished, in one chunk each. decode_seqs, decode_context: as in `StepShape`.
    """

    interval_ms: Floats
    is_whole: Bools
    prompts: Floats
    prompt_tokens: Floats
    decode_seqs: Floats
    decode_context: Floats


class Physics(NamedTuple):
    """What a log at low load cannot tell, from the model's sizes and the device's datasheet.

    context_ms_per_token: reading one token's KV. attention_tokens_per_pair: FLOPs of a pair of
    tokens in attention / FLOPs of a token in the matrices.
    """

    context_ms_per_token: float
    attention_tokens_per_pair: float


class DecodeLine(NamedTuple):
    """A decode-only step: step_ms + sequence_ms x sequences + what reading their KV takes.

    sizes: captured batch sizes that the logs show.
    """

    step_ms: float
    sequence_ms: float
    sizes: int


def fit_decode(logs: Sequence[SeenSteps], physics: Physics) -> DecodeLine:
    """A line from decode-only steps far from any prompt.

    A decode-only step runs the CUDA graph captured for the next larger batch, so its price depends
    on that size alone, the KV it reads apart. The price rises ever more slowly with the size: the
    line through the two largest sizes seen is what larger ones are extrapolated along. Every
    number of sequences counts once, however rare.

    Raises ConfigError if the logs show fewer than two captured sizes.
    """
    seqs, rest = [], []
    for log in logs:
        alone = log.is_whole & (log.prompts == 0)
        for shift in range(1, AROUND + 1):
            alone[shift:] &= log.prompts[:-shift] == 0
            alone[:-shift] &= log.prompts[shift:] == 0
        seqs.append(log.decode_seqs[alone])
        rest.append((log.interval_ms - physics.context_ms_per_token * log.decode_context)[alone])
    number, time = np.concatenate(seqs), np.concatenate(rest)
    by_size: dict[int, list[float]] = {}
    for n in np.unique(number[number > 0]):
        if np.count_nonzero(number == n) >= LEAST:
            size = min((size for size in CAPTURED_SIZES if size >= n), default=int(n))
            by_size.setdefault(size, []).append(float(np.median(time[number == n])))
    if len(by_size) < 2:
        raise ConfigError(
            f"decode-only steps of {len(by_size)} captured batch sizes ({LEAST} steps of each): a "
            "price per sequence needs two or more, so take a log with more load"
        )
    (small, low), (large, high) = ((n, float(np.mean(by_size[n]))) for n in sorted(by_size)[-2:])
    sequence_ms = max(high - low, 0.0) / (large - small)
    return DecodeLine(high - sequence_ms * large, sequence_ms, len(by_size))
