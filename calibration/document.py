"""The file of a calibrated table: grids with what their samples say, provenance, error.

The file is JSON, which is YAML too; `costmodels.operators_table` is the format's description. It is
written here by hand, because measuring needs nothing but torch and numpy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from .all_reduce import AllReduce
from .grid import Shape
from .kernel_table import Measured, rounded
from .kernels import BY_SEQUENCES_ONCE, BY_TOKENS_ONCE, PER_LAYER
from .predict import Grids
from .sizes import DecoderSizes
from .trial import Trial
from .trials import TrialLog


def operators_of(
    grids: Grids,
    measured: Measured,
    sizes: DecoderSizes,
    element_bytes: int,
    *,
    activated: Mapping[int, float],
    all_reduce: AllReduce | None,
) -> dict[str, object]:
    """The `operators` section. activated: experts by tokens, if the model has any."""
    counted: dict[str, dict[str, object]] = {}
    for axis, operators, trials in (
        ("tokens", grids.by_tokens, measured.by_tokens),
        ("sequences", grids.by_sequences, measured.by_sequences),
    ):
        for name, points in operators.items():
            per = "layer" if name in PER_LAYER else "step"
            counted[name] = {"per": per, "calls": 1, "axis": axis, "points": points}
            counted[name]["spread"] = [_spread(trial) for _, trial in sorted(trials[name].items())]
    assert {*counted} <= {*PER_LAYER, *BY_TOKENS_ONCE, *BY_SEQUENCES_ONCE}
    for name, work in _work(sizes, element_bytes).items():
        if name in counted:
            counted[name]["work"] = work
    if activated and "experts" in counted:
        counted["experts"]["activated"] = [activated[n] for n, _ in grids.by_tokens["experts"]]
    if all_reduce is not None:
        counted["all_reduce"] = {
            **{"per": "layer", "calls": 2, "axis": "bytes"},
            "bytes_per_token": all_reduce.bytes_per_token,
            "points": [(count, rounded(us)) for count, us in all_reduce.points],
        }
    return {
        "counted": counted,
        "attention": grids.attention,
        "attention_spread": [_spread(trial) for trial in measured.attention.values()],
    }


def steps_of(log: TrialLog, grid: Sequence[Shape], held_out: Sequence[Shape]) -> list[list[object]]:
    """Whole steps as they were timed, those of the grid and those held out."""
    timed = sorted([*((shape, 0) for shape in grid), *((shape, 1) for shape in held_out)])
    return [
        [*shape, rounded(trial.median_ns / 1e3), *_spread(trial), is_held_out]
        for shape, is_held_out in timed
        if (trial := log.whole(shape)) is not None
    ]


def write_document(document: Mapping[str, object], path: Path) -> None:
    """Write it as JSON, one grid row a line, all or nothing."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(_text(document, 0) + "\n", encoding="utf-8", newline="\n")
    draft.replace(path)


def _spread(trial: Trial) -> list[float]:
    """Inter-quartile range, microseconds, and number of samples."""
    return [rounded(trial.iqr_ns / 1e3), len(trial.samples_ns)]


def _work(sizes: DecoderSizes, element_bytes: int) -> dict[str, list[int]]:
    """FLOPs per row, bytes of weights, bytes per row: of the GEMMs, for a roofline."""
    hidden, attended = sizes.hidden, sizes.heads * sizes.head_dim
    shapes = {"qkv": (hidden, sizes.qkv), "o": (attended, hidden)}
    if not sizes.experts:
        shapes["gate_up"] = (hidden, 2 * sizes.intermediate)
        shapes["down"] = (sizes.intermediate, hidden)
    shapes["lm_head"] = (hidden, sizes.vocabulary)
    return {
        name: [2 * inner * outer, inner * outer * element_bytes, (inner + outer) * element_bytes]
        for name, (inner, outer) in shapes.items()
    }


def _text(value: object, depth: int) -> str:
    inner, outer = " " * (depth + 1), " " * depth
    if isinstance(value, Mapping) and value:
        lines = [f"{inner}{json.dumps(k)}: {_text(held, depth + 1)}" for k, held in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{outer}}}"
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
        return "[\n" + ",\n".join(f"{inner}{json.dumps(row)}" for row in value) + f"\n{outer}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
