"""Runway's own trace format: every column and all provenance, read back to an identical trace.

`.csv` and `.csv.gz` (text, integer nanoseconds, provenance in leading '# ' lines), `.jsonl` and
`.jsonl.gz` (provenance as the first object) or `.parquet` (provenance in the file's metadata).
The same trace gives the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from simulator.errors import WorkloadError
from simulator.trace import COLUMNS, Trace

from .provenance import MARK, Provenance, as_cell

_NAMES = ("id", "client", "session", "parent", "prefix_group")

SUFFIXES = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet")


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace; the suffix of `path` picks the layout. A file appears whole or not at all.

    Raises:
        WorkloadError: another suffix, a trace without rows, or a place that cannot be written.
    """
    file = Path(path)
    suffix = next((each for each in reversed(SUFFIXES) if file.name.endswith(each)), None)
    if suffix is None:
        raise WorkloadError(f"{file}: end the name in {', '.join(SUFFIXES)}")
    if not len(trace):
        raise WorkloadError(f"{file}: no requests to write")
    columns = _columns(trace)
    provenance = Provenance.of(trace)
    try:
        with _whole_or_nothing(file) as raw:
            if suffix == ".parquet":
                _write_parquet(columns, provenance, raw)
            else:
                with _text(raw, packed=suffix.endswith(".gz")) as text:
                    write = _write_csv if suffix.startswith(".csv") else _write_jsonl
                    write(columns, provenance, text)
    except OSError as error:
        raise WorkloadError(f"{file}: cannot be written ({error.strerror or error})") from error


def _columns(trace: Trace) -> dict[str, list[Any]]:  # Any: numbers, names or tuples of hashes
    """The columns the trace has, as plain values, under the names they have in a file."""
    found = {}
    for name in COLUMNS:
        values = getattr(trace, name)
        if values is not None:
            found["id" if name == "ids" else name] = (
                list(values) if isinstance(values, tuple) else values.tolist()
            )
    return found


def _write_csv(columns: Mapping[str, list[Any]], provenance: Provenance, text: IO[str]) -> None:
    text.writelines(f"{line}\n" for line in provenance.as_comments())
    cells = []
    for name, values in columns.items():
        if name == "block_hashes":
            cells.append([" ".join(map(str, ids)) for ids in values])
        elif name in _NAMES:
            cells.append([as_cell(value) for value in values])
        else:
            cells.append(values)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*cells, strict=True))


def _write_jsonl(columns: Mapping[str, list[Any]], provenance: Provenance, text: IO[str]) -> None:
    text.write(provenance.as_json() + "\n")
    names = tuple(columns)
    for row in zip(*columns.values(), strict=True):
        text.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")


def _write_parquet(
    columns: Mapping[str, list[Any]], provenance: Provenance, raw: IO[bytes]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"block_hashes": pa.list_(pa.int64())}
    kinds.update(dict.fromkeys(_NAMES, pa.string()))
    try:
        arrays = {name: pa.array(v, kinds.get(name, pa.int64())) for name, v in columns.items()}
    except OverflowError as error:
        raise WorkloadError("a block hash beyond 64 bits fits no Parquet file: use .csv") from error
    table = pa.table(arrays).replace_schema_metadata({MARK: provenance.as_json()})
    pq.write_table(table, raw)


@contextmanager
def _whole_or_nothing(file: Path) -> Iterator[IO[bytes]]:
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.unfinished")
    try:
        with open(unfinished, "wb") as raw:
            yield raw
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _text(raw: IO[bytes], *, packed: bool) -> Iterator[IO[str]]:
    # No time stamp and no name inside the gzip header: the same trace, the same bytes.
    binary: Any = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else raw
    text = io.TextIOWrapper(binary, encoding="utf-8", newline="")
    yield text
    text.flush()
    text.detach()
    if packed:
        binary.close()
