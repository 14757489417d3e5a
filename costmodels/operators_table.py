"""The file format of kind `operators`: measured kernel times, from which a step is composed.

One file, below 1 MiB, that is JSON and therefore YAML: any extension, one grid row a line. Write it
with `save_table`, read it with `load_table` (both in `costmodels.table`; writing needs no PyYAML):

    CostTable(kind="operators", name=…, description=…, parameters=…, provenance=…, held_out=…,
              operators=OperatorGrids(counted={…}, attention=(…)))

`provenance` and `held_out` (split, n, median, p90) are those of every measured kind. Times are
measured medians in **microseconds** for ONE call on ONE device (shapes already divided by the
tensor-parallel degree). `parameters`:

    layers              decoder layers, required; a `per: layer` time is multiplied by it
    decode_batch_sizes  captured CUDA-graph sizes, ascending: a decode-only step runs its counted
                        operators by tokens at the next of them; absent: no padding
    mixed_batch_sizes   the same for steps with prompts (vLLM captures those piecewise, with
                        attention left out); absent: no padding
    host_us             host time per step; absent: none
    host_combine        `max` (default): host and device overlap (async scheduling); `sum`: not
    prefill_step_factor how much longer what prompts add to a step of the same decodes takes than
                        the kernels one by one, where a real run showed it (1.00 to 1.10 so far):
                        that part is bound by compute and so by the clock that a busy GPU keeps,
                        the rest by memory; not on `bytes`; absent: 1
    split_kv_below      the decode batch, padded, from which attention no longer splits a context
                        over several thread blocks: prices between measured numbers of decodes
                        then come from those on the same side; absent: one kernel for all
    decode_attention    `paged` (default): decodes read their own contexts; `padded`: each reads as
                        much as the longest of them, as with one padded cache
    extrapolation       `linear` (default), `clamp` or `error`, beyond the largest measured point

`operators.counted` maps a name to an `Operator`, timed against one count:

    {"per": "layer", "calls": 2, "axis": "tokens", "points": [[1, 2.5], [2, 2.5], …]}

    per     layer | step                calls   how often per layer (or per step), default 1
    axis    tokens     of the step: prompt tokens + decodes (padded, see above)
            sequences  that get logits: decodes + prompt chunks
            bytes      of one all-reduce: tokens x `bytes_per_token`, which is then required
    points  [count, microseconds], counts ascending, at least one
    between line | next, default line: what lies between two points. `next` is for a GEMM whose
            grid holds every edge of a tile: a tile that is partly filled costs as a whole one, so
            all counts up to the next point cost what that costs

and, if it says so, of the samples behind each point and of the work behind a count; no price needs
these, `runway plot cost` draws them:

    spread     [inter-quartile range in microseconds, samples], one per point
    activated  how many of a layer's experts had any token, one per point
    work       [FLOPs per count, bytes of weights, bytes per count]

Any name is allowed; these are usual: `qkv`, `o`, `gate_up`, `down`, `input_norm`, `post_norm`,
`qk_norm`, `rope`, `activation`, `all_reduce` per layer; `embedding`, `final_norm`, `lm_head`,
`sampler` per step. Put one GEMM group in one operator, or each kernel in its own: times are summed.

`operators.attention` is a list of points, ascending, always per layer and called once:

    [chunk, past, decode_seqs, decode_context, microseconds]

    chunk, past                   one prompt chunk of `chunk` new tokens after `past` cached ones
    decode_seqs, decode_context   decodes in the same kernel call, each with `decode_context` tokens
                                  in the KV cache before the step (per sequence, not summed)

    [n, past, 0, 0, t]        prefill alone       needed if prompts are priced
    [0, 0, seqs, context, t]  decode alone        needed if decodes are priced
    [n, past, seqs, ctx, t]   mixed; those with past 0 are used, together with the same chunk
                              alone (needed of the smallest, others without are left out): what
                              decodes add beside so many prompt tokens, as at the nearest chunk
                              before the smallest and after the largest

`operators.attention_spread` is the `spread` of these points, if present. `operators.steps`, if
present, are whole steps as they were timed end to end, ascending:

    [chunk, past, decode_seqs, decode_context, microseconds, inter-quartile range, samples, 0 or 1]

the last is 1 for those that were held out, 0 for those that gave `host_us`.

`operators.skew` (optional) says what unequal contexts do, as points [decode_seqs, share],
ascending: attention of that many decodes takes `share` of the way from its time at their mean
context to its time at their longest one. Linear between the points; absent: the mean counts.
`operators.mixed_skew` is the same beside prompt chunks; absent: that of `skew`.

Grids may be ragged: a context that did not fit the memory is left out, with the row that has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.errors import TableFormatError

from .yaml_text import Value

MAX_FILE_BYTES = 1 << 20
AXES = ("tokens", "sequences", "bytes")
PER = ("layer", "step")
BETWEEN = ("line", "next")

AttentionPoint = tuple[int, int, int, int, float]
"""(chunk, past, decode_seqs, decode_context, microseconds)."""
Spread = tuple[float, int]
"""(inter-quartile range in microseconds, samples)."""


class TimedStep(NamedTuple):
    """A whole step as it was timed, end to end."""

    chunk: int
    past: int
    decode_seqs: int
    decode_context: int
    us: float
    iqr_us: float
    samples: int
    is_held_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Times of one operator against one count; see the module's docstring."""

    axis: str
    points: tuple[tuple[int, float], ...]
    per: str = "layer"
    calls: int = 1
    bytes_per_token: int | None = None
    between: str = "line"
    spread: tuple[Spread, ...] = ()
    activated: tuple[float, ...] = ()
    work: tuple[int, int, int] | None = None

    def to_dict(self) -> dict[str, Value]:
        """As written to a file."""
        document: dict[str, Value] = {"per": self.per, "calls": self.calls, "axis": self.axis}
        if self.bytes_per_token is not None:
            document["bytes_per_token"] = self.bytes_per_token
        if self.between != "line":
            document["between"] = self.between
        document["points"] = [list(point) for point in self.points]
        for key in ("spread", "activated", "work"):
            if value := getattr(self, key):
                document[key] = [list(row) if isinstance(row, tuple) else row for row in value]
        return document


@dataclass(frozen=True, slots=True)
class OperatorGrids:
    """All measured times of a table: operators by name, attention points, whole steps."""

    counted: Mapping[str, Operator] = field(default_factory=dict)
    attention: tuple[AttentionPoint, ...] = ()
    attention_spread: tuple[Spread, ...] = ()
    steps: tuple[TimedStep, ...] = ()
    skew: tuple[tuple[int, float], ...] = ()
    mixed_skew: tuple[tuple[int, float], ...] = ()

    def to_dict(self) -> dict[str, Value]:
        """As written to a file."""
        document: dict[str, Value] = {
            "counted": {name: operator.to_dict() for name, operator in self.counted.items()},
            "attention": [list(point) for point in self.attention],
        }
        if self.attention_spread:
            document["attention_spread"] = [list(spread) for spread in self.attention_spread]
        for name, points in (("skew", self.skew), ("mixed_skew", self.mixed_skew)):
            if points:
                document[name] = [list(point) for point in points]
        if self.steps:
            document["steps"] = [[*step[:-1], int(step.is_held_out)] for step in self.steps]
        return document


def document_text(document: Mapping[str, Value], file: str) -> str:
    """The JSON of a table: one key and one grid row a line. TableFormatError at 1 MiB."""
    text = _text(dict(document), 0) + "\n"
    if len(text.encode()) >= MAX_FILE_BYTES:
        raise TableFormatError(
            f"{file}: the table takes {len(text.encode()):,} bytes, the limit is "
            f"{MAX_FILE_BYTES:,}: keep fewer grid points"
        )
    return text


def _text(value: Value, depth: int) -> str:
    inner, outer = " " * (depth + 1), " " * depth
    if isinstance(value, dict) and value:
        lines = [f"{inner}{_json(key)}: {_text(held, depth + 1)}" for key, held in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{outer}}}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + ",\n".join(f"{inner}{_json(row)}" for row in value) + f"\n{outer}]"
    return _json(value)


def _json(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
