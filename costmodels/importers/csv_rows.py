"""Rows of a `.csv` or `.csv.gz` file whose errors name file and line."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import ConfigError, TableFormatError


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a file, by column."""

    file: Path
    line: int
    values: Mapping[str, str]

    def error(self, column: str, problem: str) -> TableFormatError:
        """An error about one cell."""
        return TableFormatError(f"{self.file}:{self.line}: {column} {problem}")

    def number(self, column: str, *, signed: bool = False) -> float:
        """A finite number, not negative unless `signed`."""
        try:
            value = float(self.values[column])
        except (TypeError, ValueError):
            raise self.error(column, f"must be a number, is {self.values[column]!r}") from None
        if not (math.isfinite(value) and (signed or value >= 0)):
            raise self.error(column, f"must be finite and at least 0, is {value}")
        return value

    def whole(self, column: str) -> int:
        """A whole number, not negative."""
        value = self.number(column)
        if value != int(value):
            raise self.error(column, f"must be a whole number, is {value}")
        return int(value)

    def is_(self, **wanted: int | str) -> bool:
        """Do these columns hold these values?"""
        return all(self.values[column] == str(value) for column, value in wanted.items())


def find_file(folder: Path, name: str) -> Path:
    """`name` or `name`.gz in a folder; ConfigError says what is there instead."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    raise ConfigError(f"{folder / name}: no such file (there: {', '.join(there) or 'nothing'})")


def read_rows(path: Path, columns: Iterable[str]) -> list[Row]:
    """All rows of a file that must have these columns, and not be empty."""
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as text:
            reader = csv.DictReader(text)
            header = reader.fieldnames or []
            missing = [column for column in columns if column not in header]
            if missing:
                raise TableFormatError(f"{path}:1: column {', '.join(missing)} missing")
            rows = [Row(path, reader.line_num, values) for values in reader]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise TableFormatError(f"{path}: cannot be read: {error}") from None
    if not rows:
        raise TableFormatError(f"{path}: holds no rows")
    return rows
