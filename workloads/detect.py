"""Which format a file has, and which of its columns is which field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from simulator.errors import WorkloadError, nearest

from .formats import ARRIVALS, FIELDS, FORMATS, KNOWN, Format
from .provenance import from_cell
from .source import Source
from .tables import Table

_TIME_WORDS = ("time", "arriv", "stamp", "date")


@dataclass(frozen=True, slots=True)
class Layout:
    """The answer: a format's name and, for each field to read, its column.

    overrides: the part of `columns` that the user mapped.
    optional: fields left out of the trace when no row says anything about them.
    read_name: a cell to the name it holds; None for no name.
    """

    format: str
    columns: Mapping[str, str]
    overrides: Mapping[str, str]
    optional: frozenset[str]
    read_name: Callable[[str], str | None]


def choose(
    table: Table, source: Source, format: str | None, columns: Mapping[str, str] | None
) -> Layout:
    """Detect the format (or take the one named) and map its columns.

    Raises:
        WorkloadError: unknown format or field, a format in the wrong kind of file, a missing
            or doubled column, or a header that fits no format.
    """
    overrides = _checked(columns or {})
    if format is None:
        format = _detect(table, source, overrides)
    elif format not in KNOWN:
        known = ", ".join(KNOWN)
        raise WorkloadError(f"unknown trace format {format!r}{nearest(format, KNOWN)}: {known}")
    chosen = KNOWN[format]
    if source.layout not in chosen.layouts:
        raise WorkloadError(
            f"{source.path}: holds {source.layout}, "
            f"format {format} is {' or '.join(chosen.layouts)}"
        )
    shape = _best_shape(chosen, table.header, overrides)
    _require_columns(shape, table, source, format)
    spare = {
        name: column
        for name, column in chosen.optional.items()
        if name not in shape and (column in table.header or _may_come(name, source))
    }
    own = format == "runway"
    # A column of pauses of 0 says something: the next turn follows at once.
    stays = set(spare) if own else {"think_ns"}
    optional = {name for name in spare if not (name in stays and spare[name] in table.header)}
    read_name: Callable[[str], str | None] = _name_or_none
    if own:
        read_name = from_cell if source.layout == "csv" else str
    return Layout(format, {**shape, **spare}, overrides, frozenset(optional), read_name)


def _name_or_none(text: str) -> str | None:
    return text or None


def _may_come(name: str, source: Source) -> bool:
    """A JSON row may have keys that the first one lacks; names of rows are in all or in none."""
    return source.layout == "jsonl" and name not in ("id", "source_row")


def _checked(columns: Mapping[str, str]) -> Mapping[str, str]:
    for name in columns:
        if name not in FIELDS:
            known = ", ".join(FIELDS)
            raise WorkloadError(f"columns: unknown field {name!r}{nearest(name, FIELDS)}: {known}")
    arrivals = [name for name in columns if name in ARRIVALS]
    if len(arrivals) > 1:
        raise WorkloadError(f"columns: {' and '.join(arrivals)} both give the arrival, keep one")
    return columns


def _detect(table: Table, source: Source, overrides: Mapping[str, str]) -> str:
    if table.provenance is not None:
        return "runway"
    fitting = [name for name in KNOWN if source.layout in KNOWN[name].layouts and name != "runway"]
    header = set(table.header)
    for name in fitting:
        shape = _best_shape(KNOWN[name], table.header, overrides)
        if header.issuperset(shape.values()) and not _forgets_time(shape, header):
            return name
    if overrides:
        return source.layout
    close = {name: _matches(KNOWN[name], header, overrides) for name in fitting}
    best = max(fitting, key=lambda name: close[name])
    if close[best] >= 2 and best != "lengths":
        return best
    raise WorkloadError(_cannot_tell(table, source))


def _forgets_time(shape: Mapping[str, str], header: Iterable[str]) -> bool:
    """A file of lengths has no arrivals; one with a time column needs a column map instead."""
    if any(name in ARRIVALS for name in shape):
        return False
    return any(word in column.lower() for column in header for word in _TIME_WORDS)


def _best_shape(
    known: Format, header: Iterable[str], overrides: Mapping[str, str]
) -> dict[str, str]:
    """The alternative with most of its columns in the header, after the user's own map."""
    found = set(header)
    replaced = set(overrides)
    if any(name in ARRIVALS for name in overrides):
        replaced.update(ARRIVALS)
    shapes = [
        {**{name: column for name, column in shape.items() if name not in replaced}, **overrides}
        for shape in known.shapes
    ]
    return max(shapes, key=lambda shape: len(found.intersection(shape.values())))


def _matches(known: Format, header: set[str], overrides: Mapping[str, str]) -> int:
    return len(header.intersection(_best_shape(known, header, overrides).values()))


def _require_columns(shape: Mapping[str, str], table: Table, source: Source, format: str) -> None:
    where = f"{source.path}, line {table.header_line}" if table.header_line else str(source.path)
    for name, column in shape.items():
        if column not in table.header:
            near = nearest(column, table.header)
            raise WorkloadError(
                f"{where}: no column {column!r} ({name} of format {format}){near} "
                f"Columns found: {_listed(table.header)}. "
                f"Name the right one in the column map: {name}=COLUMN"
            )
        if table.header.count(column) > 1:
            raise WorkloadError(f"{where}: column {column!r} is there twice, rename one")


def _cannot_tell(table: Table, source: Source) -> str:
    known = {
        column for each in KNOWN.values() for shape in each.shapes for column in shape.values()
    }
    near = [f"{name}{nearest(name, known)}" for name in table.header if nearest(name, known)]
    lines = [
        f"{source.path}: cannot tell the trace format. Columns found: {_listed(table.header)}.",
        *(["Near matches: " + "; ".join(near)] if near else []),
        "Name a format, or map columns to fields (arrival_s, prompt_tokens, output_tokens).",
        "Formats:",
        *(f"  {name}: {text}" for name, text in FORMATS.items()),
    ]
    return "\n".join(lines)


def _listed(header: tuple[str, ...]) -> str:
    shown = ", ".join(name[:40] for name in header[:20])
    return shown + (f" and {len(header) - 20} more" if len(header) > 20 else "")
