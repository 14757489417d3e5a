"""Cells of some rows to the fields of requests, with every unusable row named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .cells import KINDS, BadCell, Cells, Ints, cell_text, read_numbers, read_stamps
from .detect import Layout
from .hashes import Hashes, read_hashes
from .tables import BadRow, Rows

Names = list[str | None]
Values = Ints | Names | Hashes

_ZERO_BY_DEFAULT = frozenset(
    {"priority", "max_tokens", "predicted_output_tokens", "think_ns", "prefix_tokens"}
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows as fields.

    fields: field name -> values, one per usable row. lines, position: int64, their 1-based
    lines and their 0-based positions among all rows of the chunk. bad: one per unusable row,
    in file order. rows: how many rows the chunk had.
    """

    fields: dict[str, Values]
    lines: Ints
    position: Ints
    bad: list[BadRow]
    rows: int


def read_chunk(rows: Rows, layout: Layout) -> Chunk:
    """Read every mapped column; a row with any bad cell goes to `bad` with its first one."""
    fields: dict[str, Values] = {}
    worst = {row.line: row for row in rows.bad}
    unusable = np.zeros(len(rows.lines), dtype=np.bool_)
    for name, column in layout.columns.items():
        cells = rows.columns[column]
        values, bad_cells = _read_field(name, cells, layout)
        fields[name] = values
        for cell in bad_cells:
            unusable[cell.row] = True
            line = rows.lines[cell.row]
            worst.setdefault(line, BadRow(line, f"column {column}", cell.text, cell.reason))
    lines = np.array(rows.lines, dtype=np.int64)
    apart = np.array(sorted(row.line for row in rows.bad), dtype=np.int64)
    position = np.arange(len(lines)) + np.searchsorted(apart, lines)
    if unusable.any():
        fields = {name: pick(values, ~unusable) for name, values in fields.items()}
        lines, position = lines[~unusable], position[~unusable]
    bad = sorted(worst.values(), key=lambda row: row.line)
    return Chunk(fields, lines, position, bad, len(rows.lines) + len(rows.bad))


def pick(values: Values, mask: NDArray[np.bool_]) -> Values:
    """The values where the mask is True."""
    if isinstance(values, np.ndarray):
        return values[mask]
    return [value for value, kept in zip(values, mask.tolist(), strict=True) if kept]  # type: ignore[return-value]


def _read_field(name: str, cells: Cells, layout: Layout) -> tuple[Values, list[BadCell]]:
    if name == "timestamp":
        return read_stamps(cells)
    if name == "block_hashes":
        return read_hashes(cells)
    if name not in KINDS:
        return _read_names(name, cells, layout.read_name)
    kind = KINDS[name]
    if name in _ZERO_BY_DEFAULT and not isinstance(cells, np.ndarray):
        cells = [0 if cell is None or cell == "" else cell for cell in cells]
    if name == "output_tokens" and layout.format == "burstgpt":
        kind = replace(kind, low=0)
    return read_numbers(cells, kind)


def _read_names(
    name: str, cells: Sequence[object] | Ints, read: Callable[[str], str | None]
) -> tuple[Names, list[BadCell]]:
    values: Names = []
    bad = []
    for row, cell in enumerate(cells.tolist() if isinstance(cells, np.ndarray) else cells):
        try:
            values.append(None if cell is None else read(cell_text(cell)))
        except ValueError:
            values.append(None)
            bad.append(BadCell(row, cell_text(cell), "is not a name as Runway writes it"))
            continue
        if name == "id" and values[-1] is None:
            bad.append(BadCell(row, "", "is empty"))
    return values, bad
