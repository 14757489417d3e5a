"""What a cost table says and what was measured, as lines and points for a figure."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple  # Any: parameters that a table has checked

import numpy as np
from numpy.typing import NDArray

from costmodels import (
    CostTable,
    ExtrapolationWarning,
    LoadedCostModel,
    OperatorGrids,
    OperatorsCostModel,
)
from costmodels.hardware import GPUS
from costmodels.matching import is_same_device
from costmodels.operators_table import TimedStep
from simulator.plan import StepShape

Floats = NDArray[np.float64]

POINTS = 160
DEFAULT_TOKENS, DEFAULT_SEQS, DEFAULT_CONTEXT = 2048, 64, 8192
"""How far to draw a table that does not say how far it goes."""


class Reach(NamedTuple):
    """The largest step that a table was measured for: prompt tokens, decodes, context of each."""

    tokens: int
    seqs: int
    context: int


class Line(NamedTuple):
    """Prices over a count: (count, milliseconds)."""

    counts: Floats
    ms: Floats


class Compared(NamedTuple):
    """Whole steps, milliseconds; held_out: were they kept from the fit?"""

    measured_ms: Floats
    predicted_ms: Floats
    held_out: NDArray[np.bool_]


class Roof(NamedTuple):
    """One operator's points: FLOP per byte, and FLOP/s."""

    name: str
    intensity: Floats
    flops: Floats


def reach_of(table: CostTable) -> Reach:
    """How far a table goes: its grids, its fitted range, or a usual load."""
    grids = table.operators
    if grids is not None and grids.attention:
        chunks = [chunk + past for chunk, past, seqs, *_ in grids.attention if chunk and not seqs]
        decodes = [(seqs, context) for _, _, seqs, context, _ in grids.attention if seqs]
        tokens = max((p[0] for p in grids.attention if not p[2]), default=DEFAULT_TOKENS)
        seqs = max((n for n, _ in decodes), default=DEFAULT_SEQS)
        context = max((c for _, c in decodes), default=max(chunks, default=DEFAULT_CONTEXT))
        return Reach(tokens or DEFAULT_TOKENS, seqs, context)
    fitted = table.fitted_range or {}
    return Reach(
        _highest(fitted.get("prefill_tokens"), table.max_num_batched_tokens or DEFAULT_TOKENS),
        _highest(fitted.get("decode_seqs"), DEFAULT_SEQS),
        _highest(fitted.get("longest_context"), DEFAULT_CONTEXT),
    )


def prompt_line(model: LoadedCostModel, reach: Reach, past: int) -> Line:
    """A prompt chunk alone, over its tokens."""
    counts = _counts(reach.tokens)
    return _line(model, counts, [StepShape(((n, past),), 0, 0) for n in counts])


def batch_line(model: LoadedCostModel, reach: Reach, context: int) -> Line:
    """A decode step over its batch size, each sequence with so much context."""
    counts = _counts(reach.seqs)
    return _line(model, counts, [StepShape((), n, n * context, context) for n in counts])


def context_line(model: LoadedCostModel, reach: Reach, seqs: int) -> Line:
    """A decode step of so many sequences over the context of each."""
    counts = _counts(reach.context, least=16)
    return _line(model, counts, [StepShape((), seqs, seqs * n, n) for n in counts])


def price_ms(model: LoadedCostModel, shapes: Sequence[StepShape]) -> Floats:
    """Prices, beyond the measured range too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)  # the figure shows where points end
        return np.array([model.step_ns(shape) / 1e6 for shape in shapes])


def on_one_device(model: LoadedCostModel) -> LoadedCostModel:
    """The prices without all-reduce: timed steps are those of one device."""
    grids = model.table.operators
    if grids is None or all(operator.axis != "bytes" for operator in grids.counted.values()):
        return model
    kept = {name: held for name, held in grids.counted.items() if held.axis != "bytes"}
    parameters: dict[str, Any] = dict(model.table.parameters)
    return OperatorsCostModel(replace(grids, counted=kept), **parameters)


def compared(model: LoadedCostModel, steps: Sequence[TimedStep]) -> Compared:
    """Whole steps as they were timed, beside their price on one device."""
    shapes = [
        StepShape(
            ((step.chunk, step.past),) if step.chunk else (),
            step.decode_seqs,
            step.decode_seqs * step.decode_context,
            step.decode_context,
        )
        for step in steps
    ]
    return Compared(
        np.array([step.us / 1e3 for step in steps]),
        price_ms(on_one_device(model), shapes),
        np.array([step.is_held_out for step in steps], dtype=bool),
    )


def roofs_of(grids: OperatorGrids) -> list[Roof]:
    """Operators whose work is known, as achieved FLOP/s over FLOP per byte."""
    found = []
    for name, operator in grids.counted.items():
        if operator.work is None:
            continue
        flops, fixed, per_count = operator.work
        counts = np.array([count for count, us in operator.points if us])
        seconds = np.array([us for _, us in operator.points if us]) / 1e6
        moved = fixed + per_count * counts
        found.append(Roof(name, flops * counts / moved, flops * counts / seconds))
    return found


def datasheet_of(table: CostTable) -> tuple[float, float] | None:
    """FLOP/s and bytes/s of the device by its datasheet, None if it is not a known GPU."""
    device = str(table.provenance.get("device", ""))
    for name, gpu in GPUS.items():
        if is_same_device(name, device):
            return gpu.flops, gpu.bandwidth_bytes_per_s
    return None


def levels(top: int, least: int = 1) -> list[int]:
    """Three counts to draw lines for: the least, a middle one, the largest.

    >>> levels(32), levels(1)
    ([1, 4, 32], [1])
    """
    middle = 2 ** round(math.log2(math.sqrt(max(top, 1) * least)) - 0.25)
    return sorted({min(least, top), min(max(middle, least), top), top})


def _line(model: LoadedCostModel, counts: Sequence[int], shapes: Sequence[StepShape]) -> Line:
    return Line(np.array(counts, dtype=np.float64), price_ms(model, shapes))


def _counts(top: int, least: int = 1) -> list[int]:
    """Whole numbers from the least to the top, evenly spaced on a log axis."""
    spaced = np.geomspace(min(least, top), top, POINTS).round().astype(int)
    counts: list[int] = np.unique(spaced).tolist()
    return counts


def _highest(fitted: object, otherwise: int) -> int:
    if isinstance(fitted, list) and len(fitted) == 2 and isinstance(fitted[1], int | float):
        return max(int(fitted[1]), 1)
    return otherwise
