"""From trials to the file of a cost table of kind `operators`: grids, provenance, held-out error.

The file is JSON, which is YAML too; `costmodels.operators_table` is the format's description. It is
written here by hand, because measuring needs nothing but torch and numpy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .errors import CalibrationError
from .grid import Shape
from .kernels import ATTENTION, BY_SEQUENCES_ONCE, BY_TOKENS_ONCE, PER_LAYER
from .predict import Grids
from .trial import Trial
from .trials import TrialLog

DIGITS = 5


def grids_of(log: TrialLog, grid: Sequence[Shape], layers: int, lapped_layers: int) -> Grids:
    """Medians of the grid's trials as a table's grids; shapes that were skipped are left out.

    Chunks that were timed without a past only serve the operators by tokens: a row of attention
    with one point would price any past alike. The longest chunk is kept: where no past fits beside
    it, none is priced.

    lapped_layers: how many of the `layers` each lap sums over. CalibrationError if nothing of a
    kind was timed.
    """
    by_tokens: dict[str, dict[int, Trial]] = {}
    by_sequences: dict[str, dict[int, Trial]] = {}
    attention = []
    for shape in grid:
        for name, trial in log.kernels(shape).items():
            if name == ATTENTION:
                attention.append((*shape, _us(trial, lapped_layers)))
            elif name in BY_SEQUENCES_ONCE:
                _pool(by_sequences.setdefault(name, {}), shape.sequences, trial)
            else:
                _pool(by_tokens.setdefault(name, {}), shape.tokens, trial)
    with_past = {chunk for chunk, past, *_ in attention if past}
    with_past |= {max((p[0] for p in attention), default=0)}
    alone = {p[:2] for p in attention if p[0] in with_past and not p[2]} - {(0, 0)}
    attention = [p for p in attention if not p[0] or p[:2] in alone]
    if not any(not p[0] for p in attention) or not alone:
        raise CalibrationError("no prompt chunk or no decode batch could be timed: see the log")
    grids = Grids(
        layers=layers,
        by_tokens={
            name: _points(trials, lapped_layers if name in PER_LAYER else 1)
            for name, trials in by_tokens.items()
        },
        by_sequences={name: _points(trials, 1) for name, trials in by_sequences.items()},
        attention=sorted(attention),
    )
    return _with_host_time(grids, log, grid)


def _with_host_time(grids: Grids, log: TrialLog, grid: Sequence[Shape]) -> Grids:
    """The same with `host_us`: what whole steps take beyond their kernels, never below 0."""
    beyond = [
        trial.median_ns / 1e3 - grids.step_us(shape)
        for shape in grid
        if (trial := log.whole(shape)) is not None
    ]
    host_us = max(0.0, float(np.median(beyond))) if beyond else 0.0
    return Grids(
        grids.layers, grids.by_tokens, grids.by_sequences, grids.attention, _rounded(host_us)
    )


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
        "end, never used to build the table",
        "n": len(errors),
        "mean": _rounded(float(np.mean(np.abs(errors)))),
        "median": _rounded(median),
        "p90": _rounded(p90),
    }


def document_of(
    grids: Grids,
    *,
    name: str,
    description: str,
    provenance: Mapping[str, object],
    held_out: Mapping[str, object],
    engine: Mapping[str, object],
) -> dict[str, object]:
    """The whole document. engine: its `kv` and `max_model_len`."""
    counted: dict[str, object] = {}
    for axis, operators in (("tokens", grids.by_tokens), ("sequences", grids.by_sequences)):
        for operator, points in operators.items():
            per = "layer" if operator in PER_LAYER else "step"
            counted[operator] = {"per": per, "calls": 1, "axis": axis, "points": points}
    assert {*counted} <= {*PER_LAYER, *BY_TOKENS_ONCE, *BY_SEQUENCES_ONCE}
    return {
        "runway_cost_table": 1,
        "kind": "operators",
        "name": name,
        "description": description,
        "parameters": {"layers": grids.layers, "host_us": grids.host_us, "host_combine": "sum"},
        "provenance": dict(provenance),
        "held_out": dict(held_out),
        **engine,
        "operators": {"counted": counted, "attention": grids.attention},
    }


def write_document(document: Mapping[str, object], path: Path) -> None:
    """Write it as JSON, one grid row a line, all or nothing."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(_text(document, 0) + "\n", encoding="utf-8", newline="\n")
    draft.replace(path)


def _text(value: object, depth: int) -> str:
    inner, outer = " " * (depth + 1), " " * depth
    if isinstance(value, Mapping) and value:
        lines = [f"{inner}{json.dumps(k)}: {_text(held, depth + 1)}" for k, held in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{outer}}}"
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
        return "[\n" + ",\n".join(f"{inner}{json.dumps(row)}" for row in value) + f"\n{outer}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _pool(trials: dict[int, Trial], count: int, trial: Trial) -> None:
    trials[count] = trials.get(count, Trial(())) + trial


def _points(trials: Mapping[int, Trial], calls: int) -> list[tuple[int, float]]:
    return [(count, _us(trial, calls)) for count, trial in sorted(trials.items())]


def _us(trial: Trial, calls: int) -> float:
    return _rounded(trial.median_ns / calls / 1e3)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
