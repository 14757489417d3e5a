"""From trials to the grids of a cost table of kind `operators`, and how far these are off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .errors import CalibrationError
from .grid import Shape
from .kernels import ATTENTION, BY_SEQUENCES_ONCE, PER_LAYER
from .predict import Grids
from .trial import Trial
from .trials import TrialLog

DIGITS = 5


@dataclass(frozen=True)
class Measured:
    """Undisturbed samples of one call, nanoseconds: by operator and count, attention by step."""

    by_tokens: dict[str, dict[int, Trial]] = field(default_factory=dict)
    by_sequences: dict[str, dict[int, Trial]] = field(default_factory=dict)
    attention: dict[Shape, Trial] = field(default_factory=dict)


def measured_of(log: TrialLog, grid: Sequence[Shape], lapped_layers: int) -> Measured:
    """The samples of the grid; shapes that were skipped are left out.

    Chunks that were timed without a past, and decode batches at one context, only serve the other
    operators: a row of attention with one point would price any past or context alike. The longest
    chunk is kept: where no past fits beside it, none is priced.

    lapped_layers: how many layers each lap sums over. CalibrationError if nothing of a kind was
    timed.
    """
    found = Measured()
    for shape in grid:
        for name, trial in log.kernels(shape).items():
            one = trial.divided_by(lapped_layers if name in PER_LAYER else 1)
            if name == ATTENTION:
                found.attention[shape] = one
            elif name in BY_SEQUENCES_ONCE:
                _pool(found.by_sequences.setdefault(name, {}), shape.sequences, one)
            else:
                _pool(found.by_tokens.setdefault(name, {}), shape.tokens, one)
    kept = _rows_with_several(found.attention)
    if not any(not shape.chunk for shape in kept) or not any(
        shape.chunk and not shape.decode_seqs for shape in kept
    ):
        raise CalibrationError("no prompt chunk or no decode batch could be timed: see the log")
    return replace(found, attention=kept)


def _rows_with_several(attention: Mapping[Shape, Trial]) -> dict[Shape, Trial]:
    with_past = {shape.chunk for shape in attention if shape.past}
    with_past |= {max((shape.chunk for shape in attention), default=0)}
    alone = {(s.chunk, s.past) for s in attention if s.chunk in with_past and not s.decode_seqs}
    batches = Counter(shape.decode_seqs for shape in attention if not shape.chunk)
    several = {seqs for seqs, contexts in batches.items() if contexts > 1} or {*batches}
    return {
        shape: trial
        for shape, trial in sorted(attention.items())
        if (shape.chunk, shape.past) in alone or (not shape.chunk and shape.decode_seqs in several)
    }


def grids_of(measured: Measured, layers: int, captured: Sequence[int] = ()) -> Grids:
    """The medians, as a table's grids, without host time."""
    return Grids(
        layers=layers,
        by_tokens={name: _points(trials) for name, trials in measured.by_tokens.items()},
        by_sequences={name: _points(trials) for name, trials in measured.by_sequences.items()},
        attention=[(*shape, _us(trial)) for shape, trial in measured.attention.items()],
        captured=tuple(captured),
    )


def with_host_time(grids: Grids, log: TrialLog, grid: Sequence[Shape]) -> Grids:
    """The same with `host_us`: what whole steps take beyond their kernels, never below 0.

    It is the constant that makes the sum of relative errors smallest: a short step says more of it
    than a long one, whose noise alone is longer than the host's part.
    """
    whole = [(shape, log.whole(shape)) for shape in grid]
    timed = [(shape, trial.median_ns / 1e3) for shape, trial in whole if trial is not None]
    beyond = [us - grids.step_us(shape) for shape, us in timed]
    host_us = weighted_median(beyond, [1 / us for _, us in timed]) if timed else 0.0
    return replace(grids, host_us=rounded(max(0.0, host_us)))


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value at which half of the weight is reached.

    >>> weighted_median([30.0, 10.0, 20.0], [1.0, 5.0, 1.0])
    10.0
    """
    pairs = sorted(zip(values, weights, strict=True))
    reached, half = 0.0, sum(weights) / 2
    for value, weight in pairs:
        reached += weight
        if reached >= half:
            return value
    return pairs[-1][0]


def held_out_errors(grids: Grids, log: TrialLog, held_out: Sequence[Shape]) -> list[float]:
    """Signed relative errors of the table's price of whole steps that it was not built from."""
    return [
        1e3 * grids.step_us(shape) / trial.median_ns - 1
        for shape in held_out
        if (trial := log.whole(shape)) is not None
    ]


def held_out_section(errors: Sequence[float], seed: int) -> dict[str, object]:
    """A table's `held_out`: median and p90 of the absolute errors."""
    if not errors:
        raise CalibrationError(
            "no held-out step could be timed: a table without its error is not usable; "
            "give smaller limits (--max-num-batched-tokens, --max-num-seqs, --max-model-len)"
        )
    median, p90 = np.percentile(np.abs(errors), (50, 90)).tolist()
    return {
        "split": f"random whole steps off the grid, 15 % of all shapes, seed {seed}; timed end to "
        "end on one device, never used to build the table",
        "n": len(errors),
        "mean": rounded(float(np.mean(np.abs(errors)))),
        "median": rounded(median),
        "p90": rounded(p90),
    }


def rounded(value: float) -> float:
    """To `DIGITS` digits."""
    return float(f"{value:.{DIGITS}g}")


def _pool(trials: dict[int, Trial], count: int, trial: Trial) -> None:
    trials[count] = trials.get(count, Trial(())) + trial


def _points(trials: Mapping[int, Trial]) -> list[tuple[int, float]]:
    return [(count, _us(trial)) for count, trial in sorted(trials.items())]


def _us(trial: Trial) -> float:
    return rounded(trial.median_ns / 1e3)
