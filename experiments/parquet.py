"""Columns to Parquet without pandas: pyarrow's own converters import it, which takes 0.2 s."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]  # Any: integers, floats or texts; masked where a value is absent


def write_table(path: Path, columns: Mapping[str, Column]) -> None:
    """Columns of equal length, shape (n,) each; the same columns give the same bytes.

    Integers and floats may be masked arrays; object arrays hold `str` or None.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = [_array(column) for column in columns.values()]
    pq.write_table(pa.Table.from_arrays(arrays, names=list(columns)), path, compression="zstd")


def _array(column: Column) -> Any:  # Any: pyarrow publishes no types
    import pyarrow as pa

    if column.dtype == object:
        return _texts(column)
    values = np.ascontiguousarray(np.ma.getdata(column))
    kind = pa.from_numpy_dtype(values.dtype)
    known = ~np.ma.getmaskarray(column)
    return pa.Array.from_buffers(kind, len(values), [_bits(known), pa.py_buffer(values)])


def _texts(column: Column) -> Any:  # Any: pyarrow publishes no types
    import pyarrow as pa

    texts = column.tolist()
    encoded = [b"" if text is None else text.encode() for text in texts]
    known = np.array([text is not None for text in texts], dtype=np.bool_)
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    buffers = [_bits(known), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


def _bits(known: NDArray[np.bool_]) -> Any:  # Any: a pyarrow buffer, or None if all are known
    import pyarrow as pa

    return None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
