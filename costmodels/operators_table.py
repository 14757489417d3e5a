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
    host_us             host time per step; absent: none
    host_combine        `max` (default): host and device overlap (async scheduling); `sum`: not
    prefill_step_factor how much slower steps with prompts run than their kernels one by one, where
                        a real run showed it (1.00 to 1.10 so far); absent: 1
    extrapolation       `linear` (default), `clamp` or `error`, beyond the largest measured point

`operators.counted` maps a name to an `Operator`, timed against one count:

    {"per": "layer", "calls": 2, "axis": "tokens", "points": [[1, 2.5], [2, 2.5], …]}

    per     layer | step                calls   how often per layer (or per step), default 1
    axis    tokens     of the step: prompt tokens + decodes (padded, see above)
            sequences  that get logits: decodes + prompt chunks
            bytes      of one all-reduce: tokens x `bytes_per_token`, which is then required
    points  [count, microseconds], counts ascending, at least one

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
    [n, past, seqs, ctx, t]   mixed; those of the smallest chunk with past 0 are used, together
                              with the same chunk alone (needed then): the penalty of mixing

Grids may be ragged: a context that did not fit the memory is left out, with the row that has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from simulator.errors import TableFormatError

from .section import Section
from .yaml_text import Value

MAX_FILE_BYTES = 1 << 20
AXES = ("tokens", "sequences", "bytes")
PER = ("layer", "step")
MAX_US = 1e8

AttentionPoint = tuple[int, int, int, int, float]
"""(chunk, past, decode_seqs, decode_context, microseconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Times of one operator against one count; see the module's docstring."""

    axis: str
    points: tuple[tuple[int, float], ...]
    per: str = "layer"
    calls: int = 1
    bytes_per_token: int | None = None

    def to_dict(self) -> dict[str, Value]:
        """As written to a file."""
        head: dict[str, Value] = {"per": self.per, "calls": self.calls, "axis": self.axis}
        if self.bytes_per_token is not None:
            head["bytes_per_token"] = self.bytes_per_token
        return {**head, "points": [list(point) for point in self.points]}


@dataclass(frozen=True, slots=True)
class OperatorGrids:
    """All measured times of a table: operators by name, and attention points."""

    counted: Mapping[str, Operator] = field(default_factory=dict)
    attention: tuple[AttentionPoint, ...] = ()

    def to_dict(self) -> dict[str, Value]:
        """As written to a file."""
        return {
            "counted": {name: operator.to_dict() for name, operator in self.counted.items()},
            "attention": [list(point) for point in self.attention],
        }


def read_grids(section: Section) -> OperatorGrids:
    """The `operators` section of a table, checked; TableFormatError names file, line and key."""
    section.allow(("counted", "attention"), ("counted",))
    counted = section.section("counted")
    operators = {name: _operator(counted.section(name)) for name in counted.values}
    attention = _rows(section, "attention", 5) if "attention" in section else []
    if not operators and not attention:
        raise section.error("counted", "is empty: a table must hold at least one time")
    points = tuple((*_counts(row), float(row[-1])) for row in attention)
    _check_attention(section, points)
    return OperatorGrids(operators, points)  # type: ignore[arg-type]  # _rows checked their length


def _operator(section: Section) -> Operator:
    keys = ("per", "calls", "axis", "bytes_per_token", "points")
    section.allow(keys, ("per", "axis", "points"))
    for key, known in (("per", PER), ("axis", AXES)):
        if section.text(key) not in known:
            raise section.error(key, f"must be {' or '.join(known)}, is {section.values[key]!r}")
    axis = section.text("axis")
    if (axis == "bytes") != ("bytes_per_token" in section):
        raise section.error("axis", "bytes goes with bytes_per_token, and no other axis does")
    rows = _rows(section, "points", 2)
    if not rows:
        raise section.error("points", "is empty: give at least one [count, microseconds]")
    return Operator(
        per=section.text("per"),
        axis=axis,
        calls=section.whole("calls") if "calls" in section else 1,
        bytes_per_token=section.whole("bytes_per_token") if axis == "bytes" else None,
        points=tuple((int(count), float(time_us)) for count, time_us in rows),
    )


def _rows(section: Section, key: str, columns: int) -> list[list[float]]:
    """Rows of whole counts and a time, ascending."""
    rows = section.values[key]
    if not isinstance(rows, list):
        raise section.error(key, f"must be a list of rows, is {rows!r}")
    checked: list[list[float]] = []
    for number, row in enumerate(rows, 1):
        checked.append(_row(section, f"{key} row {number}", row, columns))
        if number > 1 and checked[-2][:-1] >= checked[-1][:-1]:
            before = checked[-2][:-1]
            raise section.error(key, f"row {number} is {row}: must come after {before}: sort them")
    return checked


def _row(section: Section, name: str, row: Value, columns: int) -> list[float]:
    key, _, where = name.partition(" ")
    if not isinstance(row, list) or len(row) != columns:
        raise section.error(key, f"{where} is {row!r}: must hold {columns} numbers")
    *counts, time_us = row
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise section.error(key, f"{where} holds {count!r}: must be a whole number, at least 0")
    is_number = isinstance(time_us, int | float) and not isinstance(time_us, bool)
    if not is_number or not 0 <= time_us <= MAX_US:  # type: ignore[operator]  # is_number
        raise section.error(
            key, f"{where} takes {time_us!r} us: must be a number from 0 to {MAX_US:g}"
        )
    return [*counts, float(time_us)]  # type: ignore[list-item, arg-type]  # checked above


def _counts(row: list[float]) -> tuple[int, ...]:
    return tuple(int(count) for count in row[:-1])


def _check_attention(section: Section, points: tuple[tuple[float, ...], ...]) -> None:
    alone = {(chunk, past) for chunk, past, seqs, *_ in points if chunk and not seqs}
    mixed = [chunk for chunk, past, seqs, *_ in points if chunk and seqs and not past]
    for chunk, past, seqs, context, time_us in points:
        if not chunk and not seqs:
            raise section.error("attention", f"holds a point with no work, {time_us} us: remove it")
        if (not chunk and past) or (not seqs and context):
            what = "past without a chunk" if past else "decode_context without decodes"
            raise section.error("attention", f"holds {what}: {[chunk, past, seqs, context]}")
    if mixed and (min(mixed), 0) not in alone:
        raise section.error(
            "attention",
            f"mixes decodes with chunks of {min(mixed):g} tokens, and lacks that chunk alone, "
            f"[{min(mixed):g}, 0, 0, 0, …]: measure it",
        )


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
