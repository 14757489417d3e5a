"""Rows of a Parquet file. The only module of this package that imports pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from simulator.errors import WorkloadError

from .cells import Cells
from .provenance import MARK, Provenance
from .tables import CHUNK_ROWS, Rows


class ParquetTable:
    """A Parquet file; its rows are numbered from 1 where a text file has lines."""

    unit = "row"

    def __init__(self, raw: IO[bytes], path: str) -> None:
        try:
            # Gzip streams cannot seek cheaply, so a packed file is unpacked into memory first.
            self._file = pq.ParquetFile(pa.BufferReader(raw.read()))
        except pa.ArrowException as error:
            raise WorkloadError(f"{path}: is not a readable Parquet file ({error})") from error
        self._path = path
        self.header = tuple(self._file.schema_arrow.names)
        self.header_line = 0
        saved = (self._file.schema_arrow.metadata or {}).get(MARK.encode())
        self.provenance = Provenance.from_json(saved.decode(), path) if saved else None

    def rows(self, names: Sequence[str]) -> Iterator[Rows]:
        """The rows in file order."""
        start = 1
        try:
            for batch in self._file.iter_batches(batch_size=CHUNK_ROWS, columns=list(names)):
                columns = {name: _cells(batch.column(name)) for name in names}
                yield Rows(range(start, start + batch.num_rows), columns)
                start += batch.num_rows
        except pa.ArrowException as error:
            raise WorkloadError(f"{self._path}: broken Parquet data ({error})") from error


def _cells(column: Any) -> Cells:  # Any: a pyarrow Array, which publishes no types
    """Whole numbers without gaps as int64; dates as nanoseconds since 1970; all else as objects."""
    if pa.types.is_timestamp(column.type):
        if column.null_count:
            return list(column.cast(pa.string()).to_pylist())
        column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    if pa.types.is_integer(column.type) and not column.null_count:
        if column.type == pa.uint64():
            return list(column.to_pylist())
        return column.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    return list(column.to_pylist())
