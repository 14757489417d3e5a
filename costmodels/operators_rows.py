"""Reading and checking the `operators` section of a table; `operators_table` says what it holds."""

from __future__ import annotations

from .operators_table import AXES, BETWEEN, PER, Operator, OperatorGrids, Spread, TimedStep
from .section import Section
from .yaml_text import Value

MAX_US = 1e8
LEAST_LAYER_US = 1.0
"""A layer is eight kernels and more, and no device starts one in a tenth of a microsecond."""


def read_grids(section: Section) -> OperatorGrids:
    """The `operators` section of a table, checked; TableFormatError names file, line and key."""
    keys = ("counted", "attention", "attention_spread", "steps", "skew", "mixed_skew")
    section.allow(keys, ("counted",))
    counted = section.section("counted")
    operators = {name: _operator(counted.section(name)) for name in counted.values}
    attention = _rows(section, "attention", 5) if "attention" in section else []
    if not operators and not attention:
        raise section.error("counted", "is empty: a table must hold at least one time")
    points = tuple((*_counts(row), float(row[-1])) for row in attention)
    _check_attention(section, points)
    return OperatorGrids(
        operators,
        points,  # type: ignore[arg-type]  # _rows checked their length
        _spreads(section, "attention_spread", len(points)),
        _steps(section),
        _skew(section, "skew"),
        _skew(section, "mixed_skew"),
    )


def _skew(section: Section, key: str) -> tuple[tuple[int, float], ...]:
    rows = _rows(section, key, 2) if key in section else []
    for seqs, share in rows:
        if not 0 <= share <= 1:
            raise section.error(key, f"of {seqs:g} decodes is {share}: must be 0 to 1")
    return tuple((int(seqs), share) for seqs, share in rows)


def check_measured(section: Section, grids: OperatorGrids) -> None:
    """Refuse measured grids that can be no measurement: one point, or another unit.

    A hand-written table may hold what it likes.
    """
    for name, operator in grids.counted.items():
        if operator.axis == "tokens" and len(operator.points) < 2:
            one = section.section("counted").section(name)
            raise one.error(
                "points", "holds one row, which says nothing of more tokens: measure at least two"
            )
    for what, rows in (
        ("prompt chunks", [p for p in grids.attention if p[0] and not p[2]]),
        ("decodes", [p for p in grids.attention if p[2] and not p[0]]),
    ):
        if len(rows) == 1:
            raise section.error(
                "attention", f"holds one row of {what}, {list(rows[0])}: measure at least two"
            )
    layer_us = sum(
        operator.calls * operator.points[0][1]
        for operator in grids.counted.values()
        if operator.per == "layer"
    )
    if 0 < layer_us < LEAST_LAYER_US:
        raise section.error(
            "counted",
            f"says that the kernels of a layer take {layer_us:g} us together, which no device does:"
            " times are microseconds; multiply milliseconds by 1,000, seconds by 1,000,000",
        )


def _operator(section: Section) -> Operator:
    keys = (
        *("per", "calls", "axis", "bytes_per_token", "points", "between"),
        *("spread", "activated", "work"),
    )
    section.allow(keys, ("per", "axis", "points"))
    for key, known in (("per", PER), ("axis", AXES), ("between", BETWEEN)):
        if key in section and section.text(key) not in known:
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
        between=section.text("between") if "between" in section else "line",
        points=tuple((int(count), float(time_us)) for count, time_us in rows),
        spread=_spreads(section, "spread", len(rows)),
        activated=_activated(section, len(rows)),
        work=_work(section),
    )


def _spreads(section: Section, key: str, points: int) -> tuple[Spread, ...]:
    """[inter-quartile range, samples] of every point; none if the table does not say."""
    if key not in section:
        return ()
    rows = _list(section, key)
    if len(rows) != points:
        raise section.error(key, f"has {len(rows)} rows for {points} points: must have one each")
    found: list[Spread] = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, list) or len(row) != 2 or not _is_time(row[0]):
            raise section.error(key, f"row {number} is {row!r}: must be [microseconds, samples]")
        iqr_us, samples = row
        if not isinstance(samples, int) or samples < 1:
            raise section.error(key, f"row {number} counts {samples!r} samples: must be at least 1")
        found.append((float(str(iqr_us)), samples))
    return tuple(found)


def _activated(section: Section, points: int) -> tuple[float, ...]:
    if "activated" not in section:
        return ()
    values = _list(section, "activated")
    if len(values) != points or not all(_is_time(value) and value for value in values):
        raise section.error("activated", f"must be {points} numbers above 0, one per point")
    return tuple(float(str(value)) for value in values)


def _work(section: Section) -> tuple[int, int, int] | None:
    if "work" not in section:
        return None
    values = _list(section, "work")
    if len(values) != 3 or not all(type(value) is int and value >= 0 for value in values):
        raise section.error("work", f"is {values!r}: must be FLOPs, bytes and bytes per count")
    flops, fixed, per_count = (int(str(value)) for value in values)
    return flops, fixed, per_count


def _steps(section: Section) -> tuple[TimedStep, ...]:
    if "steps" not in section:
        return ()
    found = []
    for number, row in enumerate(_list(section, "steps"), 1):
        name = f"steps row {number}"
        if not isinstance(row, list) or len(row) != 8:
            raise section.error("steps", f"row {number} is {row!r}: must hold 8 numbers")
        *counts, us = _row(section, name, row[:5], 5)
        chunk, past, seqs, context = (int(count) for count in counts)
        iqr_us, samples, is_held_out = row[5:]
        if not _is_time(iqr_us) or not isinstance(samples, int) or is_held_out not in (0, 1):
            raise section.error(
                "steps", f"row {number} ends in {row[5:]!r}: must be a range, samples, and 0 or 1"
            )
        measured = (us, float(str(iqr_us)), samples, bool(is_held_out))
        found.append(TimedStep(chunk, past, seqs, context, *measured))
    return tuple(found)


def _list(section: Section, key: str) -> list[Value]:
    rows = section.values[key]
    if not isinstance(rows, list):
        raise section.error(key, f"must be a list of rows, is {rows!r}")
    return rows


def _is_time(value: Value) -> bool:
    """A number of microseconds; NaN is none."""
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value <= MAX_US


def _rows(section: Section, key: str, columns: int) -> list[list[float]]:
    """Rows of whole counts and a time, ascending."""
    rows = _list(section, key)
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
    if not _is_time(time_us):
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
