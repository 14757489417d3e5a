"""Columns come back from Parquet as they went in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from experiments.parquet import write_table

COLUMNS = {
    "count": np.array([1, 2, 3]),
    "time_ms": np.ma.masked_array([0.5, 0.0, 2.5], mask=[False, True, False]),
    "name": np.array(["a", None, "größer"], dtype=object),
    "nothing": np.array([None, None, None], dtype=object),
}


def test_numbers_masked_numbers_and_texts_come_back(tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", COLUMNS)
    table = pq.read_table(tmp_path / "t.parquet")
    table.validate(full=True)
    assert table.to_pydict() == {
        "count": [1, 2, 3],
        "time_ms": [0.5, None, 2.5],
        "name": ["a", None, "größer"],
        "nothing": [None, None, None],
    }


def test_an_empty_table_keeps_its_columns(tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", {name: column[:0] for name, column in COLUMNS.items()})
    table = pq.read_table(tmp_path / "t.parquet")
    assert (table.num_rows, table.column_names) == (0, list(COLUMNS))


def test_equal_columns_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_table(tmp_path / name, COLUMNS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
