"""Rows of CSV and JSON-lines files as columns of cells, a chunk at a time.

A chunk is big enough to work on columns at array speed and small enough that a million rows
never sit in memory as text.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from typing import Any, Protocol, TextIO

from simulator.errors import WorkloadError

from .cells import Cells, cell_text
from .provenance import MARK, Provenance
from .source import Source

CHUNK_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used: its 1-based line, where in it, the offending text and why."""

    line: int
    place: str
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Some consecutive rows. lines: 1-based, one per row; columns: cells of each, by name.

    bad: rows left out of `lines` and `columns` because they have no cells to speak of.
    """

    lines: Sequence[int]
    columns: dict[str, Cells]
    bad: list[BadRow] = field(default_factory=list)


class Table(Protocol):
    """An open file of rows.

    header: column names; header_line: the 1-based line they stand on.
    unit: what its rows are numbered in, "line" or "row".
    provenance: what Runway saved with its own files, None in any other.
    """

    header: tuple[str, ...]
    header_line: int
    unit: str
    provenance: Provenance | None

    def rows(self, names: Sequence[str]) -> Iterator[Rows]:
        """The rows in file order, only the named columns; each row exactly once."""


@contextmanager
def open_table(source: Source) -> Iterator[Table]:
    """Open any layout.

    Raises:
        WorkloadError: no header, or a file that is not what its first bytes say.
    """
    if source.layout == "parquet":
        from .parquet import ParquetTable

        with source.binary() as raw:
            yield ParquetTable(raw, str(source.path))
        return
    with source.text() as stream:
        kind = CsvTable if source.layout == "csv" else JsonTable
        yield kind(stream, str(source.path))


class CsvTable:
    """A CSV file: leading lines that start with '#', a header, rows."""

    unit = "line"

    def __init__(self, stream: TextIO, path: str) -> None:
        self._path = path
        comments, first = _leading_comments(stream)
        self.provenance = Provenance.from_comments(comments, path)
        self._skipped = len(comments)
        # The limit of csv (128 KiB a cell) is below a long prompt's block hashes.
        csv.field_size_limit(2**31 - 1)
        self._reader = csv.reader(chain([first], stream), strict=True)
        header = next((row for row in self._records() if row), [])
        self.header = tuple(name.strip() for name in header)
        self.header_line = self._skipped + self._reader.line_num
        if not any(self.header):
            raise WorkloadError(f"{path}: no requests, the file is empty")

    def rows(self, names: Sequence[str]) -> Iterator[Rows]:
        """The rows in file order; blank lines are skipped."""
        places = [self.header.index(name) for name in names]
        while True:
            start = self._skipped + self._reader.line_num + 1
            block = list(islice(self._records(), CHUNK_ROWS))
            if not block:
                return
            lines: Sequence[int] = range(start, start + len(block))
            if self._skipped + self._reader.line_num >= lines[-1] + 1:
                lines = _lines_of(block, start)
            bad: list[BadRow] = []
            if set(map(len, block)) != {len(self.header)}:
                lines, block, bad = self._set_apart(lines, block)
            cells = list(zip(*block, strict=True)) or [()] * len(self.header)
            yield Rows(lines, {n: cells[p] for n, p in zip(names, places, strict=True)}, bad)

    def _records(self) -> Iterator[list[str]]:
        try:
            yield from self._reader
        except csv.Error as error:
            line = self._skipped + self._reader.line_num
            raise WorkloadError(f"{self._path}, line {line}: broken CSV, {error}") from error

    def _set_apart(
        self, lines: Sequence[int], block: list[list[str]]
    ) -> tuple[list[int], list[list[str]], list[BadRow]]:
        """Rows with a cell for every column, and the others; blank rows are in neither."""
        width = len(self.header)
        good: list[tuple[int, list[str]]] = []
        bad = []
        for line, row in zip(lines, block, strict=True):
            if len(row) == width:
                good.append((line, row))
            elif len(row) > width:
                bad.append(BadRow(line, f"column {width + 1}", row[width], "is an extra column"))
            elif any(cell.strip() for cell in row):
                missing = f"column {self.header[len(row)]}"
                bad.append(BadRow(line, missing, "", "is missing, a short row"))
        return [line for line, _ in good], [row for _, row in good], bad


class JsonTable:
    """JSON lines: one object a row. The header is the keys of the first row."""

    unit = "line"

    def __init__(self, stream: TextIO, path: str) -> None:
        self._path = path
        self._lines: Iterator[tuple[int, str]] = (
            (number, line) for number, line in enumerate(stream, start=1) if line.strip()
        )
        line, text = self._next()
        self.provenance: Provenance | None = None
        if MARK in text:
            self.provenance = Provenance.from_json(text, f"{path}, line {line}")
            line, text = self._next()
        first = _parse(text)
        if not isinstance(first, dict):
            raise WorkloadError(f"{path}, line {line}: {_short(text)} is not a JSON object")
        self.header = tuple(first)
        self.header_line = line
        self._lines = chain([(line, text)], self._lines)

    def rows(self, names: Sequence[str]) -> Iterator[Rows]:
        """The rows in file order; a key that a row lacks is a None cell."""
        while block := list(islice(self._lines, CHUNK_ROWS)):
            good: list[tuple[int, dict[str, Any]]] = []  # Any: JSON values
            bad = []
            for line, text in block:
                row = _parse(text)
                if isinstance(row, dict):
                    good.append((line, row))
                else:
                    bad.append(BadRow(line, "whole line", text.strip(), "is no JSON object"))
            columns: dict[str, Cells] = {n: [row.get(n) for _, row in good] for n in names}
            yield Rows([line for line, _ in good], columns, bad)

    def _next(self) -> tuple[int, str]:
        found = next(self._lines, None)
        if found is None:
            raise WorkloadError(f"{self._path}: no requests, the file has no rows")
        return found


def _parse(text: str) -> object:
    """A JSON value, its floats and NaNs as their text so that no digit is lost; None if broken."""
    try:
        return json.loads(text, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None


def _leading_comments(stream: TextIO) -> tuple[list[str], str]:
    comments: list[str] = []
    for line in stream:
        if not line.startswith("#"):
            return comments, line
        comments.append(line.rstrip("\r\n"))
    return comments, ""


def _lines_of(block: list[list[str]], start: int) -> list[int]:
    """First line of each row when quoted cells span lines."""
    heights = (1 + sum(cell.count("\n") for cell in row) for row in block)
    return list(accumulate(heights, initial=start))[:-1]


def _short(text: str) -> str:
    return repr(cell_text(text.strip())[:40])
